"""`admit`: the whole gang is granted its nodes, now or later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ffdl_ops.core.errors import PermanentError
from ffdl_ops.pipeline import admission
from ffdl_ops.pipeline.links import MlflowRunLink, WaitLink
from ffdl_ops.pipeline.stage import StageOperator
from ffdl_ops.pipeline.triggers.admission import AdmissionTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ffdl_ops.adapters.ledger import JobRecord, LeaseRecord
    from ffdl_ops.pipeline.services import Services

__all__ = ["AdmitOperator"]


class AdmitOperator(StageOperator):
    """Asks for the gang; grants at once when it fits, else waits, deferred, with the reason in its log.

    :param tenant: whose DAG it is in.
    """

    stage = "admit"
    ui_color = "#ffe9c7"
    operator_extra_links = (MlflowRunLink(), WaitLink())

    def work(self, context: Context, svc: Services, job: JobRecord) -> dict[str, Any] | None:
        """Ask; defer when the answer is "wait"."""
        lease, wait = admission.ask(svc, job)
        if lease is not None:
            return self._granted(lease)
        if wait is not None:
            self.log.info("%s", admission.waiting_words(wait))
        trigger = AdmissionTrigger(job.job_id, svc.platform.poll.admission_seconds, ends=self.stage)
        self.defer(trigger=trigger, method_name="resume_stage")
        return None

    def woken(self, context: Context, svc: Services, job: JobRecord, event: dict[str, Any]) -> dict[str, Any]:
        """Go on with the lease, or find out why there is none: a grant ends the stage without waking it."""
        lease = svc.ledger.lease(job.job_id)
        if lease is None:
            raise PermanentError(f"Job {job.job_id} ended while it waited ({event.get('kind')}).")
        return self._granted(lease)

    def _granted(self, lease: LeaseRecord) -> dict[str, Any]:
        self.log.info("%s", admission.granted_words(lease))
        return admission.lease_facts(lease)
