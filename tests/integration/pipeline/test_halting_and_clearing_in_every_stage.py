"""A run marked as failed in any stage is halted; cleared in any of Airflow's ways, it goes on to its end.

Each case holds the job in one stage by a real cause (a node that takes no pods, a program that trains on or that ignores
SIGTERM), marks the run as failed there, looks at what is left, clears it, and waits for the end. The cases of one
clear go side by side, as they would on a shared platform.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from mlflow.tracking import MlflowClient

from ffdl_ops.adapters.storage.store import ObjectStore
from tests.support.rig import Rig, Run, eventually

pytestmark = pytest.mark.slow

TRAINING = "--steps 40 --seconds-per-step 0.4"
STUBBORN = f"{TRAINING} --ignore-sigterm"


@dataclass(frozen=True)
class Case:
    """A stage, how a job is brought to stand in it, and whether training had begun by then.

    :param form: form values of the job.
    :param cordoned: whether the nodes take no pods while the job gets there.
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
    Case("release", STUBBORN, trained=True),
)


@contextmanager
def cordoned(rig: Rig, wanted: bool) -> Iterator[None]:
    """No node takes new pods inside."""
    names = [node.metadata.name for node in rig.cluster.nodes()] if wanted else []
    for name in names:
        rig.cluster.core.patch_node(name, {"spec": {"unschedulable": True}})
    try:
        yield
    finally:
        for name in names:
            rig.cluster.core.patch_node(name, {"spec": {"unschedulable": False}})


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
    if case.stage == "release":
        rig.wait_job(run, {"PROCESSING"})
        eventually("a checkpoint", lambda: generations(rig, run))
        rig.airflow.mark_run_failed(run.dag_id, run.run_id)
    if case.stage == "learners":
        rig.wait_job(run, {"PROCESSING"})
        eventually("a checkpoint", lambda: generations(rig, run))
    rig.wait_task(run, case.stage, {"running", "deferred"}, within_s=90)
    return run


def generations(rig: Rig, run: Run) -> list[int]:
    """The complete generations in the bucket."""
    from ffdl_ops.adapters.storage.checkpoints import list_generations

    store = ObjectStore(rig.settings.store_config("vision"))
    return [one.number for one in list_generations(store, "ffdl-vision", run.job_id) if one.complete]


def mlflow_status(rig: Rig, run: Run) -> str:
    job = rig.job(run)
    assert job is not None
    return str(MlflowClient(rig.settings.mlflow_uri).get_run(str(job.mlflow_run_id)).info.status)


CLEARS: dict[str, Callable[[Rig, Run, str], None]] = {
    "run": lambda rig, run, stage: rig.airflow.clear_run(run.dag_id, run.run_id),
    "only failed": lambda rig, run, stage: rig.airflow.clear_run(run.dag_id, run.run_id, only_failed=True),
    "one task": lambda rig, run, stage: rig.airflow.clear_tasks(run.dag_id, run.run_id, [stage]),
}


@pytest.mark.parametrize("clear", sorted(CLEARS))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stage)
def test_halted_in_a_stage_and_cleared_it_ends_completed(rig: Rig, case: Case, clear: str) -> None:
    with cordoned(rig, case.cordoned):
        run = bring_to(rig, case)
        rig.airflow.mark_run_failed(run.dag_id, run.run_id)
        job = rig.wait_job(run, {"HALTED", "FAILED", "COMPLETED"}, within_s=120)
        assert job.state == "HALTED", rig.story(run)
        assert rig.wait_run(run) == "failed"
    assert rig.pods(run) == []
    assert rig.ledger.lease(run.job_id) is None
    assert mlflow_status(rig, run) == "KILLED"
    if case.trained:
        store = ObjectStore(rig.settings.store_config("vision"))
        assert store.exists("ffdl-vision", f"jobs/{run.job_id}/logs/attempt-1/learner-1.log")
        assert generations(rig, run)
    first_run = job.mlflow_run_id

    CLEARS[clear](rig, run, case.stage)
    rig.wait_job(run, {"RESUMED", "PENDING", "DOWNLOADING", "QUEUED", "DEPLOYING", "PROCESSING", "STORING", "COMPLETED"})
    job = rig.wait_job(run, {"HALTED", "FAILED", "COMPLETED"}, within_s=180)
    assert job.state == "COMPLETED", rig.story(run)
    assert rig.wait_run(run) == "success"
    assert job.mlflow_run_id == first_run
    assert mlflow_status(rig, run) == "FINISHED"
    assert rig.pods(run) == []
    attempts = rig.ledger.attempts(run.job_id)
    if case.trained:
        assert attempts[-1].restored_generation is not None
