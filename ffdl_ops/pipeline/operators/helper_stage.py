"""A stage whose work one helper pod does: started, waited for in place for a moment, then deferred."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ffdl_ops.core.jobs.ids import namespace as namespace_of
from ffdl_ops.pipeline import helpers
from ffdl_ops.pipeline.stage import StageOperator
from ffdl_ops.pipeline.triggers.helper import HelperTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.pipeline.services import Services

__all__ = ["HelperStageOperator"]


class HelperStageOperator(StageOperator):
    """Base of the stages that a helper pod works for.

    :cvar work_of: the step that the helper does.
    """

    work_of: helpers.HelperStep

    def work(self, context: Context, svc: Services, job: JobRecord) -> dict[str, Any]:
        """Do the step, or find it done."""
        step = self.work_of
        if not step.needed(svc, job):
            self.log.info("There is nothing to do.")
            return {}
        pod = step.start(svc, job)
        end = helpers.await_helper(svc, namespace_of(job.tenant), pod)
        if end is None:
            self.log.info("Helper pod %s goes on; waiting for it without a worker slot.", pod)
            trigger = HelperTrigger(job.job_id, namespace_of(job.tenant), pod)
            self.defer(trigger=trigger, method_name="resume_stage")
        return self._said(step.finish(svc, job, end))  # type: ignore[arg-type]

    def woken(self, context: Context, svc: Services, job: JobRecord, event: dict[str, Any]) -> dict[str, Any]:
        """Read the helper's result."""
        waited_s = time.time() - event["since"]
        end = helpers.helper_end(svc, namespace_of(job.tenant), event["pod"], age_s=waited_s)
        if end is None:  # it started to run after the trigger had given it up
            end = helpers.HelperEnd(event["pod"], None, {}, "the helper pod started too late")
        return self._said(self.work_of.finish(svc, job, end))

    def _said(self, result: dict[str, Any]) -> dict[str, Any]:
        self.log.info("Done: %s", ", ".join(f"{key} {value}" for key, value in result.items()))
        return result
