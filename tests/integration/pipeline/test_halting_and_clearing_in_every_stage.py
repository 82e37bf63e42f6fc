"""A run marked as failed in any stage is halted; cleared in any of Airflow's ways, it goes on to its end.

Each case holds the job in one stage by a real cause (an MLflow that does not answer, a node that takes no pods, a program that
trains on or that ignores SIGTERM), marks the run as failed there, looks at what is left, clears it, and waits for the end.
The cases of one clear go side by side, as they would on a shared platform.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from ffdl_ops.adapters.storage.store import ObjectStore
from ffdl_ops.local.services.process import stop_all
from tests.support.outages import suspended
from tests.support.rig import Rig, Run, eventually
from tests.support.tracking import mlflow_client

pytestmark = pytest.mark.slow

TRAINING = "--steps 100 --seconds-per-step 0.5"
STUBBORN = f"{TRAINING} --ignore-sigterm"


@dataclass(frozen=True)
class Case:
    """A stage, how a job is brought to stand in it, and whether training had begun by then.

    :param flags: the probe's.
    :param cordoned: whether the nodes take no pods while the job gets there.
    :param trained: whether there is a checkpoint by then.
    """

    stage: str
    flags: str
    cordoned: bool = False
    trained: bool = False
    preflight: bool = False
    fresh_data: bool = False


CASES = (
    Case("fetch_data", TRAINING, cordoned=True, fresh_data=True),
    Case("admit", TRAINING, cordoned=True),
    Case("preflight", TRAINING, preflight=True),
    Case("learners", TRAINING, trained=True),
    Case("monitor", TRAINING, trained=True),
    Case("release", STUBBORN, trained=True),
)


PLAN = Case("plan", "--steps 3")
"""Held while MLflow takes calls and does not answer: the job is stored, and has no run there yet."""


@contextmanager
def cordoned(rig: Rig) -> Iterator[None]:
    """No node takes new pods inside."""
    names = [node.metadata.name for node in rig.cluster.nodes()]
    for name in names:
        rig.cluster.core.patch_node(name, {"spec": {"unschedulable": True}})
    try:
        yield
    finally:
        for name in names:
            rig.cluster.core.patch_node(name, {"spec": {"unschedulable": False}})


@contextmanager
def without(platform: Any, service: str | None) -> Iterator[None]:
    """A service is down inside."""
    if service is None:
        yield
        return
    stop_all([platform.stack.process(service)], within_s=10)
    try:
        yield
    finally:
        platform.stack.up()


def fresh_data(rig: Rig) -> str:
    """A data set that no cache holds yet."""
    prefix = f"datasets/{uuid.uuid4().hex[:8]}"
    ObjectStore(rig.settings.store_config("vision")).put_bytes("ffdl-vision", f"{prefix}/one.bin", uuid.uuid4().bytes)
    return f"ffdl-vision/{prefix}"


def bring_to(rig: Rig, case: Case) -> Run:
    """Submit a job and wait until it stands in the case's stage."""
    form: dict[str, object] = {"gpus": 1, "gpu_type": "V100"}
    if case.fresh_data:
        form["data"] = fresh_data(rig)
    if case.preflight:
        form |= {"preflight": "on"}
    run = rig.probe(flags=case.flags, **form)
    if case is PLAN:
        eventually("it is stored", lambda: rig.job(run))
    if case.trained:
        rig.wait_job(run, {"PROCESSING"})
        eventually("a checkpoint", lambda: rig.generations(run))
    if case.stage != "release":  # which a job stands in only once it was halted
        rig.wait_task(run, case.stage, {"running", "deferred"}, within_s=90)
    return run


def mlflow_status(rig: Rig, run: Run) -> str:
    job = rig.job(run)
    assert job is not None
    return str(mlflow_client(rig.settings).get_run(str(job.mlflow_run_id)).info.status)


CLEARS: dict[str, Callable[[Rig, Run, str], None]] = {
    "run": lambda rig, run, stage: rig.airflow.clear_run(run.dag_id, run.run_id),
    "only failed": lambda rig, run, stage: rig.airflow.clear_run(run.dag_id, run.run_id, only_failed=True),
    "one task": lambda rig, run, stage: rig.airflow.clear_tasks(run.dag_id, run.run_id, [stage]),
}


def halt(rig: Rig, case: Case, run: Run) -> None:
    """Mark the run as failed, and look at what is left of it."""
    rig.airflow.mark_run_failed(run.dag_id, run.run_id)
    job = rig.wait_job(run, {"HALTED", "FAILED", "COMPLETED"}, within_s=150)
    assert job.state == "HALTED", rig.story(run)
    assert rig.wait_run(run) == "failed"
    assert rig.pods(run) == []
    assert rig.ledger.lease(run.job_id) is None
    assert job.mlflow_run_id is None if case is PLAN else mlflow_status(rig, run) == "KILLED"
    assert [one.stage for one in rig.ledger.stages(run.job_id) if one.ended_at is None] == []
    if case.trained:
        store = ObjectStore(rig.settings.store_config("vision"))
        assert store.exists("ffdl-vision", f"jobs/{run.job_id}/logs/attempt-1/learner-1.log")
        assert rig.generations(run)


def go_on(rig: Rig, case: Case, run: Run, clear: str) -> None:
    """Clear the run, and look at how it ends."""
    job = rig.job(run)
    assert job is not None
    first_run = job.mlflow_run_id
    CLEARS[clear](rig, run, case.stage)
    eventually("the job is resumed", lambda: (rig.job(run) or job).resume_count == 1, within_s=120)
    job = rig.wait_job(run, {"HALTED", "FAILED", "COMPLETED"}, within_s=300)
    assert job.state == "COMPLETED", rig.story(run)
    assert rig.wait_run(run) == "success"
    assert first_run in (None, job.mlflow_run_id)
    assert mlflow_status(rig, run) == "FINISHED"
    assert rig.pods(run) == []
    if case.trained:
        assert rig.ledger.attempts(run.job_id)[-1].restored_generation is not None


@pytest.mark.parametrize(
    ("clear", "down"),
    [("run", None), ("only failed", None), ("one task", None), ("only failed", "airflow-triggerer")],
    ids=["run", "only-failed", "one-task", "triggerer-down"],
)
def test_halted_in_any_stage_and_cleared_it_ends_completed(
    rig: Rig, platform: Any, clear: str, down: str | None
) -> None:
    """Pitfalls 5 and 6: nothing of a run that a person marked as failed lives on, and nothing of it is tried again."""
    open_to_pods = [case for case in CASES if not case.cordoned]
    closed_to_pods = [case for case in CASES if case.cordoned]
    with without(platform, down), suspended(platform, "mlflow"):
        planned = bring_to(rig, PLAN)
        halt(rig, PLAN, planned)
    with ThreadPoolExecutor(1 + len(CASES)) as pool:
        runs = dict(zip(open_to_pods, pool.map(lambda case: bring_to(rig, case), open_to_pods), strict=True))
        with cordoned(rig):
            runs |= zip(closed_to_pods, pool.map(lambda case: bring_to(rig, case), closed_to_pods), strict=True)
            with without(platform, down):
                list(pool.map(lambda case: halt(rig, case, runs[case]), closed_to_pods))
        stubborn = next(case for case in CASES if case.stage == "release")
        rig.airflow.mark_run_failed(runs[stubborn].dag_id, runs[stubborn].run_id)
        rig.wait_task(runs[stubborn], "release", {"running"})
        with without(platform, down):
            list(pool.map(lambda case: halt(rig, case, runs[case]), open_to_pods))
        runs[PLAN] = planned
        list(pool.map(lambda case: go_on(rig, case, runs[case], clear), (PLAN, *CASES)))
