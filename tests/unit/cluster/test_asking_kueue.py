"""Marking pods for Kueue and reading its Workloads, with the real client against a server that answers as a cluster does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from ffdl_ops.adapters.cluster.access import CLUSTER_RULES, KUEUE_RULES, NAMESPACE_RULES
from ffdl_ops.adapters.cluster.client import Cluster, ClusterRefused
from ffdl_ops.adapters.cluster.gang import GangSpec, learner_pod, learner_template
from ffdl_ops.adapters.cluster.kueue import Kueue, held_back
from ffdl_ops.core.errors import UserError
from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.core.kueue import GroupState
from ffdl_ops.core.platform import PlatformConfig
from tests.support.apiserver import ApiServer, api_server

WORKLOAD = "/apis/kueue.x-k8s.io/{}/namespaces/ffdl-vision/workloads/job-1-a2"
MISSING = (404, {"kind": "Status", "message": 'workloads.kueue.x-k8s.io "job-1-a2" not found', "code": 404})


def serves(*versions: str) -> tuple[int, Any]:
    """The answer to which API groups there are."""
    listed = [{"version": one, "groupVersion": f"kueue.x-k8s.io/{one}"} for one in versions]
    groups = [{"name": "kueue.x-k8s.io", "versions": listed}] if versions else []
    return 200, {"groups": [{"name": "batch", "versions": [{"version": "v1", "groupVersion": "batch/v1"}]}, *groups]}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiServer]:
    with api_server(tmp_path) as running:
        running.answers["/apis/"] = serves("v1beta1", "v1beta2")
        yield running


@pytest.fixture
def kueue(api: ApiServer) -> Kueue:
    return Kueue(Cluster(api.kubeconfig))


def template(*, attempt: int, learners: int = 3, **cluster: Any) -> Any:
    manifest = load_manifest({"name": "x", "framework": {"name": "pytorch", "command": "c"}, "gpus": 1, "learners": 3})
    spec = GangSpec("job-1", "vision", manifest, attempt, learners, 20_000, {})
    pod = learner_template(spec, PlatformConfig.load({"cluster": cluster}))
    return learner_pod(pod, spec, 1, None)


def test_a_gangs_pods_are_one_group_of_their_attempt() -> None:
    pod = template(attempt=2, admission="kueue", local_queue="team")
    assert pod.metadata.labels["kueue.x-k8s.io/queue-name"] == "team"
    assert pod.metadata.labels["kueue.x-k8s.io/pod-group-name"] == "job-1-a2"
    assert pod.metadata.annotations["kueue.x-k8s.io/pod-group-total-count"] == "3"
    assert pod.metadata.labels["ffdl.dev/job"] == "job-1" and pod.spec.affinity is None


def test_a_preflight_is_a_pod_by_itself() -> None:
    pod = template(attempt=0, learners=1, admission="kueue")
    assert pod.metadata.labels["kueue.x-k8s.io/queue-name"] == "ffdl"
    assert "kueue.x-k8s.io/pod-group-name" not in pod.metadata.labels


def test_without_kueue_no_pod_is_marked() -> None:
    pod = template(attempt=1)
    assert "kueue" not in repr(pod.metadata) and pod.spec.scheduler_name is None


def test_another_scheduler_is_named_on_the_learners() -> None:
    assert template(attempt=1, scheduler_name="volcano").spec.scheduler_name == "volcano"


def test_the_workload_is_read_in_the_newest_version_that_is_served(api: ApiServer, kueue: Kueue) -> None:
    conditions = [
        {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "m"},
        {"type": "Admitted", "status": "True", "reason": "Admitted", "message": "m"},
    ]
    api.answers[WORKLOAD.format("v1beta2")] = (200, {"status": {"conditions": conditions}})
    assert kueue.standing("ffdl-vision", "job-1", 2).state is GroupState.ADMITTED
    assert kueue.standing("ffdl-vision", "job-1", 2).state is GroupState.ADMITTED
    assert [path for _, path, _ in api.asked].count("/apis/") == 1


def test_an_older_kueue_is_read_as_well(api: ApiServer, kueue: Kueue) -> None:
    api.answers["/apis/"] = serves("v1beta1")
    waits = [{"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "insufficient unused quota"}]
    api.answers[WORKLOAD.format("v1beta1")] = (200, {"spec": {"queueName": "ffdl"}, "status": {"conditions": waits}})
    assert kueue.standing("ffdl-vision", "job-1", 2).cause == "quota"


def test_a_workload_that_is_not_there_yet_is_a_wait(api: ApiServer, kueue: Kueue) -> None:
    api.answers[WORKLOAD.format("v1beta2")] = MISSING
    standing = kueue.standing("ffdl-vision", "job-1", 2)
    assert (standing.state, standing.cause) == (GroupState.WAITING, "order")


@pytest.mark.parametrize("versions", [(), ("v9",)])
def test_a_cluster_without_kueue_is_said(api: ApiServer, kueue: Kueue, versions: tuple[str, ...]) -> None:
    api.answers["/apis/"] = serves(*versions)
    with pytest.raises(UserError, match=r"cluster\.admission is kueue.*install Kueue"):
        kueue.standing("ffdl-vision", "job-1", 2)


def test_a_refusal_is_the_clusters_own_words(api: ApiServer, kueue: Kueue) -> None:
    api.answers[WORKLOAD.format("v1beta2")] = (403, {"message": "workloads is forbidden"})
    with pytest.raises(ClusterRefused, match="workloads is forbidden"):
        kueue.standing("ffdl-vision", "job-1", 2)


def test_reading_workloads_is_all_that_it_needs_beyond_the_rest(api: ApiServer, kueue: Kueue) -> None:
    api.answers[WORKLOAD.format("v1beta2")] = (200, {})
    kueue.standing("ffdl-vision", "job-1", 2)
    asked = {
        (method, path) for method, path, _ in api.asked if path != "/apis/"
    }  # every account may ask what is served
    assert asked == {("GET", WORKLOAD.format("v1beta2"))}
    assert KUEUE_RULES == ({"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads"], "verbs": ["get"]},)
    assert "kueue" not in repr([NAMESPACE_RULES, CLUSTER_RULES])


def test_a_pod_with_a_gate_is_held_back() -> None:
    gate = client.V1PodSchedulingGate(name="kueue.x-k8s.io/admission")
    assert held_back(client.V1Pod(spec=client.V1PodSpec(containers=[], scheduling_gates=[gate])))
    assert not held_back(client.V1Pod(spec=client.V1PodSpec(containers=[])))
