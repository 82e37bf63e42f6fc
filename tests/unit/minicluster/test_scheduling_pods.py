"""Where a pod goes, and what is said when it can go nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from ffdl_ops.local.minicluster.scheduler import choose


def node(
    name: str, *, gpus: int = 0, cpu: str = "32", labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "128Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": {"allocatable": amounts}}


def pod(
    name: str = "p", *, on: str | None = None, phase: str = "Running", labels: Any = None, **spec: Any
) -> dict[str, Any]:
    resources = {key: spec.pop(key) for key in ("requests", "limits") if key in spec}
    body = {"containers": [{"name": "main", "resources": resources}], **spec}
    if on:
        body["nodeName"] = on
    return {
        "metadata": {"name": name, "uid": name, "namespace": "n", "labels": labels or {}},
        "spec": body,
        "status": {"phase": phase},
    }


GPU2 = {"nvidia.com/gpu": "2"}


def test_a_pod_goes_where_most_room_is_left() -> None:
    nodes = [node("a"), node("b")]
    busy = [pod("x", on="a", requests={"cpu": "16"})]
    assert choose(pod(requests={"cpu": "1"}), nodes, busy).node == "b"


def test_equal_nodes_are_taken_by_name() -> None:
    assert choose(pod(), [node("b"), node("a")], []).node == "a"


def test_gpus_in_use_are_not_free_and_finished_pods_hold_none() -> None:
    nodes = [node("a", gpus=4)]
    running = pod("x", on="a", requests={"nvidia.com/gpu": "3"})
    assert choose(pod(requests=GPU2), nodes, [running]).node is None
    finished = pod("x", on="a", phase="Failed", requests={"nvidia.com/gpu": "3"})
    assert choose(pod(requests=GPU2), nodes, [finished]).node == "a"


def test_the_message_counts_the_reasons_as_the_real_scheduler_does() -> None:
    nodes = [node("a", gpus=1), node("b", gpus=0), node("c", gpus=4, unschedulable=True)]
    message = choose(pod(requests=GPU2), nodes, []).message
    assert message.startswith(
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient nvidia.com/gpu. preemption:"
    )


def test_several_lacking_resources_of_one_node_are_all_named() -> None:
    message = choose(pod(requests={"cpu": "64", "memory": "1Ti"}), [node("a")], []).message
    assert "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory." in message


def test_node_selectors() -> None:
    nodes = [node("a", labels={"ffdl.dev/gpu-type": "K80"}), node("b", labels={"ffdl.dev/gpu-type": "V100"})]
    assert choose(pod(nodeSelector={"ffdl.dev/gpu-type": "V100"}), nodes, []).node == "b"
    message = choose(pod(nodeSelector={"ffdl.dev/gpu-type": "A100"}), nodes, []).message
    assert "2 node(s) didn't match Pod's node affinity/selector" in message


@pytest.mark.parametrize(
    ("operator", "values", "chosen"),
    [("In", ["b"], "b"), ("NotIn", ["a"], "b"), ("Exists", [], "a"), ("DoesNotExist", [], "c"), ("Gt", ["5"], None)],
)
def test_required_node_affinity(operator: str, values: list[str], chosen: str | None) -> None:
    nodes = [node("a", labels={"k": "a"}), node("b", labels={"k": "b"}), node("c")]
    if operator in ("NotIn",):
        nodes = nodes[:2]
    terms = [{"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    assert choose(pod(affinity=affinity), nodes, []).node == chosen


def test_affinity_to_a_node_by_its_name() -> None:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    assert choose(pod(affinity=affinity), [node("a"), node("b")], []).node == "b"


def test_taints_keep_pods_away_that_do_not_tolerate_them() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    nodes = [node("a", taints=[taint])]
    assert "1 node(s) had untolerated taint {gpu: yes}" in choose(pod(), nodes, []).message
    for toleration in (
        {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
        {"key": "gpu", "operator": "Exists"},
        {"operator": "Exists"},
    ):
        assert choose(pod(tolerations=[toleration]), nodes, []).node == "a"
    assert choose(pod(tolerations=[{"key": "gpu", "value": "no"}]), nodes, []).node is None
    prefer = [node("a", taints=[{**taint, "effect": "PreferNoSchedule"}])]
    assert choose(pod(), prefer, []).node == "a"


def test_anti_affinity_keeps_likes_apart() -> None:
    term = {"labelSelector": {"matchLabels": {"gang": "g"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    there = pod("x", on="a", labels={"gang": "g"})
    assert choose(pod(affinity=affinity), [node("a"), node("b")], [there]).node == "b"
    assert "didn't match pod anti-affinity rules" in choose(pod(affinity=affinity), [node("a")], [there]).message


def test_pod_count_is_a_resource() -> None:
    full = node("a")
    full["status"]["allocatable"]["pods"] = "1"
    assert "1 Too many pods" in choose(pod(), [full], [pod("x", on="a")]).message


def test_without_nodes() -> None:
    assert choose(pod(), [], []).message == "no nodes available to schedule pods"
