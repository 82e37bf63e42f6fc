"""The end of a job: its checkpoint promoted, its results stored, its final state written, its MLflow run closed."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ffdl_ops.core.errors import FfdlError
from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.core.jobs.states import TERMINAL, JobState
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

__all__ = ["JobEnd", "conclude", "still_needed", "was_interrupted"]

_MLFLOW_STATUS = {JobState.COMPLETED: "FINISHED", JobState.FAILED: "FAILED", JobState.HALTED: "KILLED"}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JobEnd:
    """A job's final state and why."""

    state: JobState
    reason: str


def was_interrupted(svc: Services, job: JobRecord) -> bool:
    """Whether `conclude` has written this job's end and was lost before its own: tried again, it only completes that.

    Taken for a clear by a person, it would bring a job back to life that somebody has halted.
    """
    last = next((one for one in reversed(svc.ledger.stages(job.job_id)) if one.stage == "conclude"), None)
    return (
        job.state in TERMINAL and last is not None and last.ended_at is None and last.resume_count == job.resume_count
    )


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
    except Exception as error:  # whatever it is, the job must come to an end: clearing `conclude` tries again
        log.exception("Not finished")
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
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
    try:
        bucket = svc.tenant(job.tenant).bucket
        results_bucket, results_prefix = results_of(load_manifest(job.manifest), bucket, job.job_id)
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
    except Exception:  # the job's state is written: what fails here must not bring it back to life
        log.exception("The MLflow run could not be closed")
