"""`reconcile`: leases and the queue brought to what lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["ReconcileOperator"]


class ReconcileOperator(BaseOperator):
    """Compares what jobs hold with the pods that live, puts right what the stages could not, and says what it was."""

    ui_color = "#eeeeee"

    def execute(self, context: Context) -> list[str]:
        """Reconcile."""
        from ffdl_ops.pipeline.housekeeping import reconcile
        from ffdl_ops.pipeline.services import services

        done = reconcile(services())
        for line in done or ["everything is as it should be"]:
            self.log.info("%s", line)
        return done
