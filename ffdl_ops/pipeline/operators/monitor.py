"""`monitor`: the job's metrics, while it trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.pipeline.stage import StageOperator
from ffdl_ops.pipeline.triggers.monitor import MonitorTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.pipeline.services import Services

__all__ = ["MonitorOperator"]


class MonitorOperator(StageOperator):
    """Follows the learners' output, deferred, and writes the metrics to MLflow; it holds up nobody.

    :param tenant: whose DAG it is in.
    """

    stage = "monitor"
    ui_color = "#d5f2d5"

    def work(self, context: Context, svc: Services, job: JobRecord) -> None:
        """Start to follow, unless the manifest says not to."""
        if not load_manifest(job.manifest).monitor.enabled:
            self.log.info("monitor.enabled is false: metrics are written when training has ended.")
            return
        self.defer(trigger=MonitorTrigger(job.job_id, svc.platform.poll.monitor_seconds), method_name="resume_stage")

    def woken(self, context: Context, svc: Services, job: JobRecord, event: dict[str, Any]) -> None:
        """Training has ended; what the follower had not read yet is written by `conclude`."""
        self.log.info("The job no longer trains.")
