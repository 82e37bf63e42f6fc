"""The three kinds of patch."""

from __future__ import annotations

import pytest

from ffdl_ops.local.minicluster.errors import ApiError
from ffdl_ops.local.minicluster.patches import json_patch, merge_patch, strategic_merge_patch


def test_a_merge_patch_follows_the_rfc() -> None:
    target = {"a": {"b": 1, "c": [1, 2]}, "d": 1}
    assert merge_patch(target, {"a": {"b": None, "c": [3]}, "e": {"f": None}}) == {"a": {"c": [3]}, "d": 1, "e": {}}
    assert target == {"a": {"b": 1, "c": [1, 2]}, "d": 1}


def test_lists_of_named_things_merge_by_name() -> None:
    target = {"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}]}
    patch = {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}, {"name": "c"}]}
    assert strategic_merge_patch(target, patch) == {
        "containers": [
            {"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
            {"name": "b"},
            {"name": "c"},
        ]
    }


def test_directives_delete_and_replace() -> None:
    target = {"containers": [{"name": "a"}, {"name": "b"}], "meta": {"x": 1}, "finalizers": ["f", "g"]}
    patch = {
        "containers": [{"name": "a", "$patch": "delete"}],
        "meta": {"$patch": "replace", "y": 2},
        "$deleteFromPrimitiveList/finalizers": ["f"],
        "$setElementOrder/containers": [{"name": "b"}],
    }
    assert strategic_merge_patch(target, patch) == {
        "containers": [{"name": "b"}],
        "meta": {"y": 2},
        "finalizers": ["g"],
    }


def test_lists_of_plain_values_are_replaced() -> None:
    assert strategic_merge_patch({"command": ["a", "b"]}, {"command": ["c"]}) == {"command": ["c"]}
    assert strategic_merge_patch({"finalizers": ["a"]}, {"finalizers": ["a", "b"]}) == {"finalizers": ["a", "b"]}


def test_json_patch_operations() -> None:
    document = {"a": {"b/c": 1, "l": [1, 2, 3]}}
    operations = [
        {"op": "test", "path": "/a/b~1c", "value": 1},
        {"op": "replace", "path": "/a/l/1", "value": 9},
        {"op": "add", "path": "/a/l/-", "value": 4},
        {"op": "move", "from": "/a/b~1c", "path": "/x"},
        {"op": "copy", "from": "/x", "path": "/y"},
        {"op": "remove", "path": "/a/l/0"},
    ]
    assert json_patch(document, operations) == {"a": {"l": [9, 3, 4]}, "x": 1, "y": 1}
    assert document == {"a": {"b/c": 1, "l": [1, 2, 3]}}


@pytest.mark.parametrize(
    "operation",
    [{"op": "test", "path": "/a", "value": 2}, {"op": "remove", "path": "/b"}, {"op": "replace", "path": "/b", "value": 1},
     {"op": "dance", "path": "/a"}, {"op": "add", "path": "a", "value": 1}],
)  # fmt: skip
def test_a_json_patch_that_does_not_apply_is_refused(operation: dict[str, object]) -> None:
    with pytest.raises(ApiError) as refused:
        json_patch({"a": 1}, [operation])
    assert refused.value.code == 422
