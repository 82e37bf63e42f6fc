"""A job whose places are wanted while no gang of it runs: during its preflight, and between two attempts."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ffdl_ops.core.jobs.ids import namespace
from ffdl_ops.pipeline.services import now
from tests.support.outages import suspended
from tests.support.platform import Platform
from tests.support.rig import Rig, Run, eventually

pytestmark = pytest.mark.slow

LONG = "--steps 40 --seconds-per-step 0.4"
WHOLE_NODE = {"gpus": 4, "gpu_type": "V100", "cpus": "0.1", "memory": "256Mi"}


def assert_leases_follow_each_other(rig: Rig, run: Run) -> None:
    for before, after in pairwise(rig.ledger.leases(run.job_id)):
        assert before.released_at is not None
        assert before.released_at <= after.granted_at


def test_preempted_in_its_preflight_it_makes_room_at_once_and_starts_when_it_is_admitted_again(rig: Rig) -> None:
    own = rig.probe("speech", LONG, **WHOLE_NODE)
    rig.wait_job(own, {"PROCESSING"})
    borrower = rig.probe("speech", "--steps 200 --seconds-per-step 0.1", preflight="on", **WHOLE_NODE)
    rig.wait_task(borrower, "preflight", {"deferred"})
    [pod] = eventually("its preflight", lambda: rig.pods(borrower))
    owner = rig.probe("vision", "--steps 3 --seconds-per-step 0.4", **WHOLE_NODE)
    rig.wait_job(owner, {"PROCESSING", "STORING", "COMPLETED"}, within_s=60)
    assert pod not in rig.pods(borrower)
    assert rig.ledger.attempts(borrower.job_id) == [] or rig.ledger.leases(borrower.job_id)[0].released_at

    assert [rig.wait_run(run, within_s=180) for run in (owner, borrower, own)] == ["success"] * 3
    first, second = rig.ledger.leases(borrower.job_id)
    assert first.preempted_at is not None
    assert first.released_at <= rig.ledger.leases(owner.job_id)[0].granted_at
    assert_leases_follow_each_other(rig, borrower)
    [attempt] = rig.ledger.attempts(borrower.job_id)
    assert (attempt.lease_epoch, attempt.outcome) == (second.epoch, "succeeded")
    log = rig.airflow.task_log(borrower.dag_id, borrower.run_id, "preflight")
    assert "Preflight stopped: " in log and owner.job_id in log
    assert "Preflight passed" not in log


def test_preempted_between_two_attempts_it_gives_back_its_lease_and_loses_no_retry(
    rig: Rig, platform: Platform
) -> None:
    run = rig.probe("vision", LONG, **WHOLE_NODE)
    rig.wait_job(run, {"PROCESSING"})
    eventually("a checkpoint", lambda: rig.generations(run))
    lease = rig.ledger.lease(run.job_id)
    assert lease is not None
    with suspended(platform, "airflow-scheduler"):  # the trigger ends the attempt; nobody begins the next one
        [pod] = rig.pods(run)
        rig.faults.kill(namespace("vision"), pod, "learner")
        eventually("the attempt's end", lambda: rig.ledger.open_attempt(run.job_id) is None)
        assert rig.ledger.holds(run.job_id, lease.epoch), "it would start again on the same places"
        assert rig.ledger.order_preemption(run.job_id, "Its places are wanted.", "ann", now())
    assert rig.wait_run(run, within_s=180) == "success"
    assert_leases_follow_each_other(rig, run)
    first, second = rig.ledger.attempts(run.job_id)
    assert [one.lease_epoch for one in rig.ledger.attempts(run.job_id)] == [
        one.epoch for one in rig.ledger.leases(run.job_id)
    ]
    assert (first.failure["class"], second.outcome) == ("unknown", "succeeded")
    assert second.restored_generation
    assert rig.ledger.failure_counts(run.job_id) == {"unknown": 1}
