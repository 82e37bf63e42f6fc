"""A job that waits, for tests of who is told what about it: vision's, for what speech and vision hold."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from ffdl_ops.adapters.ledger import JobRecord, QueuedRecord, WaitRecord
from ffdl_ops.core.jobs.states import JobState
from ffdl_ops.core.scheduling.decisions import Holder, WaitCause
from tests.support.gangs import START, gang

__all__ = ["HOLDERS", "JOB", "everybody", "own_tenant", "queued", "stored", "wait"]

JOB = "job-00000000c0"
HOLDERS = (
    Holder("job-00000000a0", "speech", 4, "sally", START + timedelta(hours=2)),
    Holder("job-00000000b0", "vision", 4, "ben"),
)
_NUMBERS = {"learners": 1, "gpus_each": 4, "kinds": ["V100"], "nodes": 2, "free_gpus": 0, "tenant": "vision"}


def everybody(dag_id: str) -> bool:
    """Whether somebody may read a DAG who may read all."""
    return True


def own_tenant(dag_id: str) -> bool:
    """Whether somebody of tenant `vision` may read a DAG."""
    return dag_id == "train__vision"


def stored(state: JobState = JobState.QUEUED, *, name: str = "digits", user: str = "ann") -> JobRecord:
    """The job's record."""
    return JobRecord(
        job_id=JOB, tenant="vision", dag_id="train__vision", run_id="run/1 of <b>", user=user, name=name, manifest={},
        framework="pytorch", learners=1, gpus=4, gpu_type="V100", priority=50, state=state, outcome=None, failure=None,
        halt_requested_by=None, halt_requested_at=None, created_at=START, updated_at=START, resume_count=0,
        mlflow_run_id=None, mlflow_experiment_id=None, code_uri=None, dataset_key=None, dataset=None, excluded_nodes=(),
    )  # fmt: skip


def queued(position: int = 2) -> QueuedRecord:
    """Its place in the queue."""
    return QueuedRecord(gang(JOB, 1, 4, tenant="vision"), position, START, None, None)


def wait(
    cause: WaitCause = WaitCause.CAPACITY,
    *,
    at: datetime = START,
    until: datetime | None = None,
    holders: Sequence[Holder] = HOLDERS,
    message: str = "as the ledger says it",
) -> WaitRecord:
    """One of its waits."""
    reason = "the cause changed" if until else None
    return WaitRecord(JOB, cause, message, tuple(holders), dict(_NUMBERS), at, until, reason)
