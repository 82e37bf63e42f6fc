"""What the platform does when Airflow tells of a run's change, in the scheduler's own process and transaction."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.listeners import hookimpl

from ffdl_ops.core.jobs.passable import passable

if TYPE_CHECKING:
    from airflow.models import DagRun

__all__ = ["ConfListener"]

_log = logging.getLogger(__name__)


class ConfListener:
    """Makes a run's configuration one that its tasks can be given, before the first of them starts.

    However a run was triggered (form, REST API, Airflow's command line, another DAG), it starts in the scheduler.
    """

    @hookimpl
    def on_dag_run_running(self, dag_run: DagRun) -> None:
        """Put a note in place of each value that would end every task of the run before its first line."""
        safe = passable(dag_run.conf or {})
        if safe is not None:
            dag_run.conf = safe
            _log.warning(
                "Run %s of %s: values of its configuration can't be passed on.", dag_run.run_id, dag_run.dag_id
            )
