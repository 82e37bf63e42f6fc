"""What Kueue's conditions mean for a gang: shapes as its documentation and its tests show them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ffdl_ops.core.failures.classes import FailureClass
from ffdl_ops.core.kueue import (
    GroupState,
    group_name,
    kueue_pod_metadata,
    standing_of,
    wait_from_workload,
)
from ffdl_ops.core.scheduling.decisions import WaitCause

AT = "2026-03-21T13:43:00Z"
RESERVED = ("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue cluster-queue")
ADMITTED = ("Admitted", "True", "Admitted", "The workload is admitted")
SHORT = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor v100, 2 more needed"


def workload(*conditions: tuple[str, str, str, str], **status: Any) -> dict[str, Any]:
    told = [
        {"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": AT}
        for kind, value, reason, message in conditions
    ]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "job-1-a1", "namespace": "ffdl-vision", "creationTimestamp": AT},
        "spec": {"queueName": "ffdl", "podSets": [{"name": "main", "count": 4}]},
        "status": {"conditions": told, **status} if told or status else {},
    }


def unreserved(reason: str, message: str = SHORT) -> dict[str, Any]:
    return workload(("QuotaReserved", "False", reason, message))


@pytest.mark.parametrize(
    ("reason", "cause", "never"),
    [
        ("WaitingForQuota", "quota", False),
        ("ExceedsMaxQuota", "quota", True),
        ("NoMatchingFlavor", "capacity", True),
        ("WaitingForPreemptedWorkloads", "capacity", False),
        ("TopologyPlacementFailed", "fragmentation", False),
        ("PendingEvaluation", "order", False),
        ("WaitingForPodsReady", "order", False),
        ("Waiting", "order", False),
        ("Suspended", "closed", False),
        ("Misconfigured", "closed", True),
        ("Inadmissible", "closed", True),
        ("AReasonOfTheFuture", "quota", False),
    ],
)
def test_each_reason_is_one_of_our_causes(reason: str, cause: str, never: bool) -> None:
    wait = wait_from_workload(unreserved(reason))
    assert wait is not None
    assert (wait.cause, wait.never, wait.reason) == (WaitCause(cause), never, reason)
    assert SHORT in wait.message and wait.message.startswith("Queue ffdl: ")
    assert ("never starts" in wait.message) == never
    assert wait.since == datetime(2026, 3, 21, 13, 43, tzinfo=UTC)


@pytest.mark.parametrize(
    ("message", "cause", "never"),
    [
        (SHORT, "quota", False),
        (f"{SHORT}. Pending the preemption of 2 workload(s)", "capacity", False),
        ("couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously considered podsets "
         "requests (0) + current podset request (10) > maximum capacity (8)", "quota", True),
        ("couldn't assign flavors to pod set main: topology \"racks\" allows to fit only 2 out of 4 pod(s)",
         "fragmentation", False),
    ],
)  # fmt: skip
def test_an_older_version_tells_the_cause_in_its_sentence(message: str, cause: str, never: bool) -> None:
    wait = wait_from_workload(unreserved("Pending", message))
    assert wait is not None and (wait.cause, wait.never) == (cause, never)


def test_a_queue_that_is_not_there_is_said_with_what_to_do() -> None:
    wait = wait_from_workload(unreserved("Inadmissible", "LocalQueue ffdl doesn't exist"))
    assert wait is not None
    assert wait.message == (
        "Queue ffdl: LocalQueue ffdl doesn't exist. "
        "It never starts unless an administrator changes the queue, or the job asks for less."
    )


def test_before_kueue_has_looked_others_go_first() -> None:
    for seen in (workload(), None):
        wait = wait_from_workload(seen)
        assert wait is not None and wait.cause == "order"
    assert wait_from_workload({"metadata": {}, "spec": {}}) is not None


def test_a_reserved_gang_waits_for_its_admission_checks() -> None:
    checks = [
        {"name": "new-nodes", "state": "Pending", "message": "", "lastTransitionTime": AT},
        {"name": "budget", "state": "Ready", "message": "fine"},
    ]
    wait = wait_from_workload(workload(RESERVED, admissionChecks=checks, admission={"clusterQueue": "research"}))
    assert wait is not None
    assert wait.cause == "capacity" and "new-nodes (Pending)" in wait.message and "budget" not in wait.message
    assert wait.numbers == {"queue": "ffdl", "pods": 4, "cluster_queue": "research"}


def test_an_admitted_gang_does_not_wait() -> None:
    assert wait_from_workload(workload(RESERVED, ADMITTED)) is None
    assert standing_of(workload(RESERVED, ADMITTED)).state is GroupState.ADMITTED
    not_yet = ("PodsReady", "False", "WaitForStart", "Not all pods are ready or succeeded")
    assert standing_of(workload(RESERVED, ADMITTED, not_yet)).state is GroupState.ADMITTED


def test_a_gang_whose_pods_all_run_is_ready() -> None:
    ready = ("PodsReady", "True", "Started", "All pods reached readiness and the workload is running")
    assert standing_of(workload(RESERVED, ADMITTED, ready)).state is GroupState.READY


@pytest.mark.parametrize(
    ("reason", "cls"),
    [
        ("Preempted", "preempted"),
        ("ClusterQueueStopped", "preempted"),
        ("PodsReadyTimeout", "startup"),
        ("NodeFailures", "node_lost"),
        ("DeactivatedDueToMaximumExecutionTimeExceeded", "preempted"),
        ("AReasonOfTheFuture", "preempted"),
    ],
)
def test_an_evicted_gang_has_ended_with_one_of_our_classes(reason: str, cls: str) -> None:
    seen = workload(
        ("QuotaReserved", "False", "Pending", SHORT),
        ("Evicted", "True", reason, "Preempted to accommodate a higher priority Workload"),
        ("Preempted", "True", "InClusterQueue", "Preempted to accommodate a workload due to prioritization in the ClusterQueue"),
        ("Admitted", "False", "NoReservation", "The workload has no reservation"),
    )  # fmt: skip
    standing = standing_of(seen)
    assert standing.state is GroupState.EVICTED and wait_from_workload(seen) is None
    assert FailureClass(standing.cause) is FailureClass(cls)
    assert "higher priority Workload. Preempted to accommodate a workload due to prioritization" in standing.message


def test_an_eviction_that_is_over_does_not_count() -> None:
    over = ("Evicted", "False", "QuotaReserved", "Previously: Preempted to accommodate a higher priority Workload")
    assert standing_of(workload(RESERVED, ADMITTED, over)).state is GroupState.ADMITTED


def test_a_finished_gang_holds_nothing() -> None:
    finished = ("Finished", "True", "Succeeded", "Pods succeeded: 4/4.")
    standing = standing_of(workload(RESERVED, ADMITTED, finished))
    assert (standing.state, standing.reason) == (GroupState.FINISHED, "Succeeded")


def test_the_marks_of_a_gangs_pod() -> None:
    marks = kueue_pod_metadata("ffdl", group=group_name("job-1a2b3c4d5e", 2), count=3)
    assert marks.labels == {
        "kueue.x-k8s.io/queue-name": "ffdl",
        "kueue.x-k8s.io/pod-group-name": "job-1a2b3c4d5e-a2",
    }
    assert marks.annotations == {
        "kueue.x-k8s.io/pod-group-total-count": "3",
        "kueue.x-k8s.io/retriable-in-group": "false",
    }


def test_a_pod_by_itself_has_a_queue_and_no_group() -> None:
    marks = kueue_pod_metadata("ffdl")
    assert marks.labels == {"kueue.x-k8s.io/queue-name": "ffdl"} and marks.annotations == {}


@pytest.mark.parametrize(("group", "count"), [("x" * 64, 2), ("g", 0)])
def test_a_group_that_kueue_would_refuse_is_refused_here(group: str, count: int) -> None:
    with pytest.raises(ValueError, match="group"):
        kueue_pod_metadata("ffdl", group=group, count=count)
