"""Two tenants of one cohort on the cluster's eight V100s, four of them each tenant's own."""

from __future__ import annotations

import time
import uuid
from itertools import pairwise

import pytest
from kubernetes import client as k8s

from ffdl_ops.core.accounting.losses import lost_by_class
from ffdl_ops.core.jobs.ids import namespace
from tests.support.rig import Rig, Run, eventually

pytestmark = pytest.mark.slow

LONG = "--steps 60 --seconds-per-step 0.5"
ENDLESS = "--steps 900 --seconds-per-step 0.5"
WHOLE_NODE = {"gpus": 4, "gpu_type": "V100", "cpus": "0.1", "memory": "256Mi"}


def test_what_is_lent_is_taken_back_and_the_borrower_goes_on_from_its_checkpoint(rig: Rig) -> None:
    own = rig.probe("speech", ENDLESS, **WHOLE_NODE)
    rig.wait_job(own, {"PROCESSING"})
    borrower = rig.probe("speech", "--steps 150 --seconds-per-step 0.3", **WHOLE_NODE)
    rig.wait_job(borrower, {"PROCESSING"})
    eventually("a checkpoint of the borrower", lambda: rig.ledger.lease(borrower.job_id).saved_at, within_s=40)

    owner = rig.probe("vision", "--steps 8 --seconds-per-step 0.5", **WHOLE_NODE)
    rig.wait_job(owner, {"PROCESSING", "STORING", "COMPLETED"}, within_s=60)
    waiting = rig.job(borrower)
    held = rig.ledger.lease(own.job_id)
    assert held is not None
    assert held.preempted_at is None, "what is within a quota is never taken"

    assert [rig.wait_run(run, within_s=180) for run in (owner, borrower)] == ["success"] * 2
    rig.airflow.mark_run_failed(own.dag_id, own.run_id)
    rig.wait_job(own, {"HALTED"})
    first, second = rig.ledger.attempts(borrower.job_id)
    assert first.failure["class"] == "preempted"
    assert owner.job_id in first.failure["summary"]
    assert second.restored_generation, "it went on from its checkpoint"
    assert rig.job(borrower).mlflow_run_id == waiting.mlflow_run_id
    states = [one.to_state for one in rig.ledger.transitions(borrower.job_id)]
    assert states.count("QUEUED") == 2, "stopped, and back in the queue in the same run"
    assert {one.cause for one in rig.ledger.waits(borrower.job_id)} <= {"fair_share", "reservation", "capacity"}
    log = rig.airflow.task_log(borrower.dag_id, borrower.run_id, "learners")
    assert "resumed at step=" in log
    audit = [(line.actor, line.action) for line in rig.ledger.audit_lines(job_id=borrower.job_id)]
    assert audit == [("scheduler", "admit"), ("scheduler", "preempt"), ("scheduler", "admit")]
    lost = lost_by_class(rig.ledger.leases(borrower.job_id), [first, second], rig.ledger.checkpoints(borrower.job_id))
    assert set(lost) == {"preempted"}
    assert lost["preempted"] < 4 * (first.ended_at - first.started_at).total_seconds(), "a part of it was saved"
    for before, after in pairwise(rig.ledger.leases(borrower.job_id)):
        assert before.released_at <= after.granted_at
    assert_no_gpu_promised_twice(rig, (own, borrower, owner))


def assert_no_gpu_promised_twice(rig: Rig, runs: tuple[Run, ...]) -> None:
    """From all leases there were: at no moment more GPUs of a node than it has."""
    leases = [lease for run in runs for lease in rig.ledger.leases(run.job_id)]
    for moment in [lease.granted_at for lease in leases]:
        held: dict[str, int] = {}
        for lease in leases:
            if lease.granted_at <= moment and (lease.released_at is None or lease.released_at > moment):
                for place in lease.placements:
                    held[place.node] = held.get(place.node, 0) + lease.gpus
        assert all(gpus <= 4 for gpus in held.values()), held


def test_a_closed_platform_starts_nothing_and_opens_again(rig: Rig) -> None:
    from ffdl_ops.pipeline.services import now

    rig.ledger.close_platform("an upgrade", "ann", now())
    try:
        run = rig.probe("vision", "--steps 1", gpus=1, gpu_type="V100")
        rig.wait_job(run, {"QUEUED"})
        (wait,) = eventually("a reason", lambda: rig.ledger.waits(run.job_id))
        assert wait.cause == "closed"
        assert "an upgrade" in wait.message
        assert not rig.cluster.pods(namespace("vision"), f"ffdl.dev/job={run.job_id},ffdl.dev/attempt")
    finally:
        rig.ledger.open_platform("ann", now())
    assert rig.wait_run(run) == "success"


def test_what_somebody_else_runs_on_a_node_is_left_alone_and_gangs_go_beside_it(rig: Rig) -> None:
    name = f"others-{uuid.uuid4().hex[:6]}"
    container = k8s.V1Container(
        name="main",
        image="ffdl/helper:0.1",
        command=["sleep", "600"],
        resources=k8s.V1ResourceRequirements(limits={"nvidia.com/gpu": "4", "cpu": "100m", "memory": "64Mi"}),
    )
    where = {"kubernetes.io/hostname": "v100-a"}
    pod = k8s.V1Pod(
        metadata=k8s.V1ObjectMeta(name=name, namespace="default"),
        spec=k8s.V1PodSpec(containers=[container], node_selector=where, restart_policy="Never"),
    )
    rig.cluster.core.create_namespaced_pod("default", pod)
    try:
        eventually("bound", lambda: rig.cluster.pod("default", name).spec.node_name == "v100-a")
        time.sleep(6)  # what others take is looked up every few seconds
        first = rig.probe("vision", LONG, **WHOLE_NODE)
        rig.wait_job(first, {"PROCESSING"})
        assert {place.node for place in rig.ledger.lease(first.job_id).placements} == {"v100-b"}
        second = rig.probe("speech", "--steps 2", **WHOLE_NODE)
        (wait,) = eventually("a reason", lambda: rig.ledger.waits(second.job_id))
        assert wait.cause == "capacity"
    finally:
        rig.cluster.core.delete_namespaced_pod(name, "default", grace_period_seconds=0)
    assert [rig.wait_run(run) for run in (second, first)] == ["success", "success"]
