"""A worker, the scheduler, the triggerer or the cluster's server is lost while a gang trains: the gang trains on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from ffdl_ops.core.jobs.ids import namespace
from tests.support.outages import suspended
from tests.support.rig import Rig, Run, eventually
from tests.support.tracking import mlflow_client

pytestmark = pytest.mark.slow

LONG = "--steps 50 --seconds-per-step 0.5"


@contextmanager
def lost(platform: Any, service: str) -> Iterator[None]:
    """Kill a service and all its children without warning; it is back afterwards."""
    process = platform.stack.process(service).find()
    assert process is not None
    for one in [process, *process.children(recursive=True)]:
        try:
            os.kill(one.pid, signal.SIGKILL)
        except (ProcessLookupError, psutil.Error):
            continue
    try:
        yield
    finally:
        platform.stack.up()


def training(rig: Rig, learners: int = 2) -> Run:
    run = rig.probe(flags=LONG, learners=learners)
    rig.wait_job(run, {"PROCESSING"})
    rig.wait_task(run, "learners", {"deferred"})
    return run


@pytest.mark.parametrize("service", ["airflow-triggerer", "airflow-scheduler", "minicluster"])
def test_the_gang_trains_on_and_is_adopted(rig: Rig, platform: Any, service: str) -> None:
    """Pitfalls 4, 12, 13, 26: what loses a worker, scheduler or triggerer never kills, or restarts, a learner."""
    run = training(rig)
    before = {pod["uid"] for pod in rig.ledger.attempts(run.job_id)[-1].pods.values()}
    with lost(platform, service):
        pass
    job = rig.wait_job(run, {"COMPLETED", "FAILED", "HALTED"}, within_s=180)
    assert job.state == "COMPLETED", rig.story(run)
    attempts = rig.ledger.attempts(run.job_id)
    assert len(attempts) == 1
    assert {pod["uid"] for pod in attempts[-1].pods.values()} == before


def test_a_task_that_is_terminated_in_the_middle_never_succeeds(rig: Rig, platform: Any) -> None:
    """Pitfall 1: SIGTERM to a worker in the middle of a task is recorded as success."""
    scheduler = platform.stack.process("airflow-scheduler").find()
    assert scheduler is not None
    before = {one.pid for one in scheduler.children(recursive=True)}
    with suspended(platform, "mlflow"):
        run = rig.probe()
        rig.wait_task(run, "plan", {"running"})
        # The task's own process is the one that was forked last, below its supervisor.
        task = eventually("the task's process", lambda: _newest(scheduler, before))
        task.send_signal(signal.SIGTERM)
        rig.wait_task(run, "plan", {"up_for_retry", "failed", "queued", "scheduled", None}, within_s=60)
        assert rig.task(run, "plan") != "success"
    job = rig.wait_job(run, {"COMPLETED"}, within_s=120)
    assert job.state == "COMPLETED"


def test_metrics_of_an_attempt_that_ended_while_mlflow_was_down_are_written_once(rig: Rig, platform: Any) -> None:
    run = rig.probe(flags="--steps 25 --seconds-per-step 0.4")
    job = rig.wait_job(run, {"PROCESSING"})

    def steps() -> list[int]:
        return sorted(one.step for one in mlflow_client(rig.settings).get_metric_history(str(job.mlflow_run_id), "loss"))

    eventually("some metrics", steps)
    with suspended(platform, "mlflow"):
        reached = max(rig.generations(run), default=0)
        eventually("later checkpoints", lambda: max(rig.generations(run), default=0) > reached + 1)
        [pod] = rig.pods(run)
        rig.faults.evict(namespace(run.tenant), pod)
        eventually("a second attempt", lambda: len(rig.ledger.attempts(run.job_id)) == 2)
    assert rig.wait_job(run, {"COMPLETED", "FAILED", "HALTED"}, within_s=180).state == "COMPLETED", rig.story(run)
    assert rig.wait_run(run) == "success"
    assert steps() == list(range(1, 26))


def _newest(scheduler: psutil.Process, before: set[int]) -> psutil.Process | None:
    """The process that came last among the scheduler's descendants, once there is a new one."""
    new = [one for one in scheduler.children(recursive=True) if one.pid not in before]
    return max(new, key=lambda one: one.create_time(), default=None)
