"""`preflight`: one learner tries the program before the gang starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ffdl_ops.core.errors import TemporaryError
from ffdl_ops.pipeline import admission, preflight
from ffdl_ops.pipeline.operators.learners import JobFailed
from ffdl_ops.pipeline.stage import StageOperator
from ffdl_ops.pipeline.triggers.preflight import PreflightTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.pipeline.services import Services

__all__ = ["PreflightOperator"]


class PreflightOperator(StageOperator):
    """Runs one learner for the manifest's `preflight.seconds` or `preflight.steps`; on by default above two learners.

    A program that fails here fails the job before its gang holds every GPU.

    :param tenant: whose DAG it is in.
    """

    stage = "preflight"
    ui_color = "#ffe9c7"

    def work(self, context: Context, svc: Services, job: JobRecord) -> None:
        """Start the learner and wait, deferred; do nothing when no preflight is wanted."""
        lease = svc.ledger.lease(job.job_id)
        if not preflight.wanted(job):
            self.log.info("No preflight: the gang is small, or its manifest says so.")
            return
        if lease is None or svc.ledger.attempts(job.job_id):
            self.log.info("No preflight: the program has been started before, or the job holds no lease now.")
            return
        if lease.preempted_at is not None:
            self._give_back(svc, job)
            return
        name = preflight.start(svc, job, lease)
        self.log.info("Preflight: %s on %s.", name, lease.placements[0].node)
        self.defer(trigger=PreflightTrigger(job.job_id, name), method_name="resume_stage")

    def woken(self, context: Context, svc: Services, job: JobRecord, event: dict[str, Any]) -> None:
        """Let the gang start, or fail the job."""
        if event.get("preempted"):
            self._give_back(svc, job)
            return
        preflight.stop(svc, job)
        if event.get("failure"):
            raise JobFailed(event["failure"])
        self.log.info("Preflight passed: %s.", event["detail"])

    def _give_back(self, svc: Services, job: JobRecord) -> None:
        """Make room for another job at once: the gang asks again, and then starts without a preflight."""
        if not preflight.stop(svc, job):
            raise TemporaryError("The preflight's pod is still there; what it holds is given back once it is gone.")
        words = admission.give_back(svc, job)
        admission.places_are_free(svc)
        self.log.info(
            "Preflight stopped: %s The gang is admitted again, and starts without one.", words or "it lost its lease."
        )
