"""The end of a job: its checkpoint promoted, its results stored, its final state written, its MLflow run closed."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ffdl_ops.core.errors import FfdlError
from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.core.jobs.states import JobState
from ffdl_ops.pipeline.finishing import is_done, release_all
from ffdl_ops.pipeline.follower import drain
from ffdl_ops.pipeline.gang import training_done
from ffdl_ops.pipeline.helpers import run_step
from ffdl_ops.pipeline.reopening import GOES_ON
from ffdl_ops.pipeline.services import Services, now
from ffdl_ops.pipeline.staging import results_of
from ffdl_ops.pipeline.steps import CHECKPOINT, STORE

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord

__all__ = ["JobEnd", "conclude", "still_needed"]

_MLFLOW_STATUS = {JobState.COMPLETED: "FINISHED", JobState.FAILED: "FAILED", JobState.HALTED: "KILLED"}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JobEnd:
    """A job's final state and why."""

    state: JobState
    reason: str


def still_needed(svc: Services, job: JobRecord, dag_id: str, run_id: str) -> bool:
    """Whether stages of this run that the job needs are yet to run (a partial clear may start `conclude` first)."""
    if training_done(svc, job) and is_done(svc, job, "store"):
        return False
    states = svc.airflow.task_states(dag_id, run_id)
    return any(
        states.get(stage) in GOES_ON
        for stage in (
            "plan",
            "fetch_data",
            "admit",
            "preflight",
            "learners",
            "release",
            "checkpoint",
            "store_results",
        )
    )


def conclude(svc: Services, job: JobRecord) -> JobEnd:
    """Write the job's end: do what is missing of its finishing, decide the state, close the MLflow run.

    :returns: the final state; COMPLETED only if it trained to the end and everything is stored.
    """
    missing = _finish_what_is_missing(svc, job)
    job = svc.ledger.job(job.job_id) or job
    end = _decide(svc, job, missing)
    outcome = {JobState.COMPLETED: "completed", JobState.FAILED: "failed"}.get(end.state, "halted")
    failure = {"class": "platform", "stage": "conclude", "summary": end.reason} if missing else None
    svc.ledger.record_outcome(job.job_id, outcome, failure, now())
    svc.ledger.stages_stopped(job.job_id, {"conclude"}, now())
    svc.advance(job.job_id, end.state, end.reason[:500])
    _close_run(svc, job, end)
    return end


def _finish_what_is_missing(svc: Services, job: JobRecord) -> str | None:
    """Release, checkpoint and store, where their own tasks have not; the problem, if one can't be done."""
    try:
        release_all(svc, job)
        run_step(svc, job, CHECKPOINT)
        run_step(svc, job, STORE)
    except FfdlError as error:
        log.error("Not finished: %s", error)
        return str(error)
    return None


def _decide(svc: Services, job: JobRecord, missing: str | None) -> JobEnd:
    if job.outcome == "failed" and job.failure:
        return JobEnd(JobState.FAILED, f"{job.failure.get('class')}: {job.failure.get('summary')}")
    if not training_done(svc, job):
        who = f" by {job.halt_requested_by}" if job.halt_requested_by else ""
        return JobEnd(
            JobState.HALTED,
            f"stopped{who} before training was done; clear the run to go on from its checkpoint",
        )
    if missing:
        return JobEnd(JobState.FAILED, f"trained, but not everything is stored: {missing}")
    return JobEnd(JobState.COMPLETED, "trained to the end; results and logs are stored")


def _close_run(svc: Services, job: JobRecord, end: JobEnd) -> None:
    """Write what is missing in MLflow and close the run.

    An outage is told and does not change what the job is: clearing `conclude` writes it again.
    """
    if not job.mlflow_run_id:
        return
    bucket = svc.tenant(job.tenant).bucket
    results_bucket, results_prefix = results_of(load_manifest(job.manifest), bucket, job.job_id)
    try:
        points = drain(svc, job)
        svc.tracker.log_durations(job.mlflow_run_id, svc.ledger.stage_seconds(job.job_id))
        svc.tracker.tag_uris(
            job.mlflow_run_id,
            {
                "results": f"s3://{results_bucket}/{results_prefix}",
                "checkpoints": f"s3://{bucket}/jobs/{job.job_id}/checkpoints",
                "logs": f"s3://{bucket}/jobs/{job.job_id}/logs",
            },
        )
        svc.tracker.close(job.mlflow_run_id, _MLFLOW_STATUS[end.state])
        log.info("MLflow: %d points from the stored logs; run closed as %s.", points, _MLFLOW_STATUS[end.state])
    except FfdlError as error:
        log.error("The MLflow run could not be closed: %s", error)
