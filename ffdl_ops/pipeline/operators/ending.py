"""The teardowns: they run whatever happened, in this order: release, checkpoint, store_results, conclude."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from ffdl_ops.core.errors import FfdlError
from ffdl_ops.pipeline import concluding, finishing
from ffdl_ops.pipeline.operators.helper_stage import HelperStageOperator
from ffdl_ops.pipeline.services import Services, now
from ffdl_ops.pipeline.stage import StageOperator, job_id_in
from ffdl_ops.pipeline.steps import CHECKPOINT, STORE

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ffdl_ops.adapters.ledger import JobRecord

__all__ = ["CheckpointOperator", "ConcludeOperator", "ReleaseOperator", "StoreResultsOperator"]


class ReleaseOperator(StageOperator):
    """Stops whatever of the job lives and frees its lease once every pod is confirmed gone."""

    stage = "release"
    teardown = True
    ui_color = "#eeeeee"

    def work(self, context: Context, svc: Services, job: JobRecord) -> None:
        """Release."""
        for line in finishing.release_all(svc, job) or ["nothing was held"]:
            self.log.info("%s", line)


class CheckpointOperator(HelperStageOperator):
    """Completes the upload of the newest checkpoint, promotes it, prunes the older ones."""

    stage = "checkpoint"
    teardown = True
    ui_color = "#eeeeee"
    work_of = CHECKPOINT


class StoreResultsOperator(HelperStageOperator):
    """Uploads results and all logs, verified, after success and failure alike."""

    stage = "store_results"
    teardown = True
    ui_color = "#eeeeee"
    work_of = STORE


class ConcludeOperator(StageOperator):
    """Writes the job's final state, closes its MLflow run, and fails the DAG run unless the job completed."""

    stage = "conclude"
    teardown = True
    ui_color = "#eeeeee"

    def work(self, context: Context, svc: Services, job: JobRecord) -> dict[str, Any]:
        """Conclude."""
        ti = context["ti"]
        if not job.outcome and concluding.still_needed(svc, job, ti.dag_id, ti.run_id):
            raise AirflowException("The job goes on: it was cleared and its stages run first; concluding later.")
        end = concluding.conclude(svc, job)
        self.log.info("Job %s is %s: %s", job.job_id, end.state, end.reason)
        svc.ledger.stage_ended(job.job_id, self.stage, now(), "success")
        if end.state != "COMPLETED":
            raise AirflowFailException(f"Job {job.job_id} is {end.state}: {end.reason}")
        return {"job_id": job.job_id, "state": str(end.state)}

    def _job(self, context: Context, svc: Services, job_id: str) -> JobRecord | None:
        job = svc.ledger.job(job_id)
        if job is not None and concluding.was_interrupted(svc, job):
            return job
        job = super()._job(context, svc, job_id)
        if job is None:
            raise FfdlError(
                f"Run {job_id_in(context)} has no job: `plan` refused it (its log says why), or it was stopped before."
            )
        return job
