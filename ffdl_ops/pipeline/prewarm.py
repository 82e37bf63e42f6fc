"""Imports what tasks and triggers need into the processes that fork them.

Airflow's LocalExecutor forks each task from a worker process, which was forked from the scheduler. What the scheduler has
imported, a task need not: measured on two busy cores, a chain of trivial tasks beside the operators of this package took
0.84 to 1.06 s a task without this, and 0.22 to 0.38 s with it. `components` calls it before it forks Airflow's components;
elsewhere, call it from `airflow_local_settings.py`. Set `FFDL_PREWARM=0` to do without it.
"""

from __future__ import annotations

import importlib
import os
import sys

__all__ = ["warm"]

_MODULES = (
    "airflow.sdk",
    "airflow.sdk.execution_time.task_runner",
    "boto3",
    "kubernetes.client",
    "kubernetes.config",
    "sqlalchemy.dialects.postgresql.psycopg2",
    "ffdl_ops.adapters.airflow_api",
    "ffdl_ops.adapters.ledger",
    "ffdl_ops.adapters.storage.checkpoints",
    "ffdl_ops.adapters.storage.datasets",
    "ffdl_ops.adapters.storage.store",
    "ffdl_ops.adapters.tracking.metrics",
    "ffdl_ops.adapters.tracking.runs",
    "ffdl_ops.pipeline.concluding",
    "ffdl_ops.pipeline.dag_factory",
    "ffdl_ops.pipeline.reopening",
)
_PROCESSES = frozenset({"scheduler", "triggerer"})


def warm() -> None:
    """Import the modules if this is a process that forks tasks or runs triggers; a module that is absent is left out."""
    if os.environ.get("FFDL_PREWARM", "1") == "0" or not _PROCESSES.intersection(sys.argv):
        return
    for module in _MODULES:
        try:
            importlib.import_module(module)
        except ImportError as error:  # the scheduler must start whatever is missing; the task itself will say so
            sys.stderr.write(f"prewarm: {module} was not imported: {error}\n")
