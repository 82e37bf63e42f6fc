"""What is ours of a live object, whether it differs, and how that is shown."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ffdl_ops.adapters.cluster.changes import as_it_should_be, change_of, differs

QUOTA: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"namespace": "ffdl-vision", "name": "ffdl", "labels": {"ffdl.dev/tenant": "vision"}},
    "spec": {"hard": {"requests.cpu": "2", "pods": "1000"}},
}
SECRET: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"namespace": "ffdl-vision", "name": "s", "labels": {}},
    "type": "Opaque",
    "data": {"KEY": "bmV3LXNlY3JldA==", "REGION": "dXM="},
}


def live(body: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The object as a server gives it back."""
    found = copy.deepcopy(body)
    found["metadata"] |= {"uid": "u", "resourceVersion": "7", "managedFields": [{"manager": "m"}]}
    return {**found, "status": {"used": {}}, **changes}


@pytest.mark.parametrize(
    "hard",
    [{"requests.cpu": "2000m", "pods": "1k"}, {"pods": "1000", "requests.cpu": "2"}],
)
def test_quantities_are_numbers(hard: dict[str, str]) -> None:
    assert not differs(live(QUOTA, spec={"hard": hard}), QUOTA)


@pytest.mark.parametrize(
    "spec",
    [
        {"hard": {"requests.cpu": "2", "pods": "999"}},
        {"hard": {"requests.cpu": "2"}},
        {"hard": {"requests.cpu": "2", "pods": "1000", "requests.memory": "1Gi"}},
        {"hard": {"requests.cpu": "2", "pods": "1000"}, "scopes": ["BestEffort"]},
    ],
    ids=["another value", "a limit is missing", "a limit too many", "it counts other pods"],
)
def test_what_is_ours_is_ours_as_a_whole(spec: dict[str, Any]) -> None:
    assert differs(live(QUOTA, spec=spec), QUOTA)
    assert not differs(as_it_should_be(live(QUOTA, spec=spec), QUOTA), QUOTA)


def test_others_labels_and_annotations_are_theirs() -> None:
    found = live(QUOTA)
    found["metadata"]["labels"]["team"] = "a"
    found["metadata"]["annotations"] = {"note": "x"}
    assert not differs(found, QUOTA)
    found["metadata"]["labels"].pop("ffdl.dev/tenant")
    assert differs(found, QUOTA)
    fixed = as_it_should_be(found, QUOTA)
    assert fixed["metadata"]["labels"] == {"team": "a", "ffdl.dev/tenant": "vision"}
    assert fixed["metadata"]["annotations"] == {"note": "x"} and fixed["metadata"]["resourceVersion"] == "7"


def test_a_rule_that_somebody_widened_is_seen() -> None:
    peer = {"podSelector": {"matchLabels": {"a": "b"}}}
    policy = {
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p", "labels": {}},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [peer]}]},
    }  # fmt: skip
    wider = live(policy)
    wider["spec"]["ingress"][0]["from"][0]["namespaceSelector"] = {}
    assert differs(wider, policy)


def test_what_the_server_makes_of_it_decides_whether_it_changes() -> None:
    found, answered = live(QUOTA, spec={"hard": {}, "new": 1}), live(QUOTA, spec={"hard": {}, "new": 1})
    assert change_of("vision", found, QUOTA, answered).action == "none"
    assert change_of("vision", found, QUOTA, live(QUOTA)).action == "update"


def test_the_difference_shows_what_changes_and_nothing_else() -> None:
    shown = change_of("vision", live(QUOTA, spec={"hard": {"requests.cpu": "1", "pods": "1k"}}), QUOTA, QUOTA)
    assert "-    requests.cpu: '1'" in shown.difference and "+    requests.cpu: '2'" in shown.difference
    assert "ResourceQuota ffdl-vision/ffdl (as it is)" in shown.difference
    assert "resourceVersion" not in shown.difference and "status" not in shown.difference


def test_a_new_object_is_shown_whole() -> None:
    shown = change_of("vision", None, QUOTA, QUOTA)
    assert shown.action == "create"
    assert [line[0] for line in shown.difference.splitlines()[3:]] == ["+"] * len(shown.difference.splitlines()[3:])


def test_a_secrets_values_are_never_shown() -> None:
    old = live(SECRET, data={"KEY": "b2xkLXNlY3JldA==", "REGION": "dXM="})
    for shown in (change_of("t", old, SECRET, SECRET), change_of("t", None, SECRET, SECRET)):
        assert "KEY: (hidden" in shown.difference
        for value in ("bmV3LXNlY3JldA==", "b2xkLXNlY3JldA==", "dXM="):
            assert value not in shown.difference
    changed = [line for line in change_of("t", old, SECRET, SECRET).difference.splitlines() if line[0] in "+-"]
    assert not [line for line in changed if "REGION" in line]
