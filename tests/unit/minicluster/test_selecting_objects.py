"""Label and field selectors."""

from __future__ import annotations

import pytest

from ffdl_ops.local.minicluster.errors import ApiError
from ffdl_ops.local.minicluster.selectors import field_selector, label_selector, matches_expressions, matches_selector

LABELS = {"app": "x", "ffdl.dev/job": "job-1", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("app=x", True), ("app==x", True), ("app!=x", False), ("other!=x", True), ("app", True), ("!app", False),
        ("!other", True),
        ("app in (x, y)", True), ("app notin (x,y)", False), ("other notin (x)", True), ("app=x,ffdl.dev/job=job-1", True),
        ("app=x,ffdl.dev/job=job-2", False), ("empty=", True), ("empty", True), ("app in (x),!other,empty", True),
    ],
)  # fmt: skip
def test_labels(text: str, matches: bool) -> None:
    assert label_selector(text)(LABELS) is matches


@pytest.mark.parametrize("text", ["app=x=y", "app in x", "(a)", "a b", "app=,="])
def test_a_selector_that_cannot_be_read_is_a_400(text: str) -> None:
    with pytest.raises(ApiError) as refused:
        label_selector(text)
    assert refused.value.code == 400


def test_fields() -> None:
    pod = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "a"}, "status": {"phase": "Running"}}
    assert field_selector("metadata.name=p,spec.nodeName=a", "pods")(pod)
    assert not field_selector("status.phase!=Running", "pods")(pod)
    assert field_selector("spec.nodeName=", "pods")({"metadata": {"name": "p"}, "spec": {}})
    with pytest.raises(ApiError, match=r"field label not supported: spec\.colour"):
        field_selector("spec.colour=red", "pods")


def test_selector_objects() -> None:
    assert matches_selector({}, LABELS) and not matches_selector(None, LABELS)
    assert matches_selector(
        {"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "z", "operator": "DoesNotExist"}]}, LABELS
    )
    assert matches_expressions([{"key": "n", "operator": "Gt", "values": ["3"]}], {"n": "4"})
    assert not matches_expressions([{"key": "n", "operator": "Lt", "values": ["3"]}], {"n": "four"})
