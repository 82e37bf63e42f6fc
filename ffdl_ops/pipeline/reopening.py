"""Resuming: a run that was cleared after its job had ended goes on from the checkpoint, in the same MLflow run.

A person may clear the whole run, only what failed, or one task. Whatever the clear left out that the job still needs,
the first task that runs asks Airflow to clear as well, so that every kind of clear means the same: go on.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from ffdl_ops.core.errors import FfdlError
from ffdl_ops.pipeline.gang import training_done
from ffdl_ops.pipeline.services import Services, now

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord

__all__ = ["FINISHING", "GOES_ON", "TRAINING", "reopen", "to_clear"]

TRAINING = ("plan", "fetch_data", "admit", "preflight", "learners", "monitor")
FINISHING = ("release", "checkpoint", "store_results", "conclude")
GOES_ON = frozenset({None, "none", "scheduled", "queued", "running", "deferred", "restarting", "up_for_retry"})

_PAUSES_S = (0.5, 1.0, 2.0, 4.0)

log = logging.getLogger(__name__)


def to_clear(states: dict[str, str | None], *, trained: bool, current: str) -> list[str]:
    """Which stages must run again besides those that already will.

    :param states: the run's task states now.
    :param trained: whether the newest attempt trained to its end.
    :param current: the stage that asks; it never clears itself.
    """
    needed = [stage for stage in TRAINING[:-2] if states.get(stage) not in ("success",)]
    if not trained:
        needed += ["learners", "monitor", "release", "checkpoint", "store_results"]
    elif "plan" in needed:
        needed = []
    if current != "conclude":
        needed.append("conclude")
    return [stage for stage in needed if stage != current and states.get(stage) not in GOES_ON]


def reopen(svc: Services, job: JobRecord, stage: str, ti: Any) -> JobRecord:
    """Re-open an ended job for the run that was cleared, once, and complete the clear.

    :param stage: the stage whose task runs first.
    :param ti: its task instance.
    """
    trained = training_done(svc, job)
    previous = job.state
    job = svc.ledger.resume_job(job.job_id, now())
    log.info("Job %s was %s and is resumed by `%s` (resume %d).", job.job_id, previous, stage, job.resume_count)
    if job.mlflow_run_id:
        try:
            svc.tracker.reopen(job.mlflow_run_id)
        except FfdlError as error:
            log.warning("The MLflow run stays closed for now: %s", error)
    _complete_the_clear(svc, ti, trained=trained, stage=stage)
    return job


def _complete_the_clear(svc: Services, ti: Any, *, trained: bool, stage: str) -> None:
    """Ask Airflow to clear what the job still needs; told when it can't be had, since clearing by hand still helps.

    Airflow refuses a clear (409) that meets another change of the same tasks: it is looked at and asked again.
    """
    for pause_s in (*_PAUSES_S, None):
        missing = to_clear(svc.airflow.task_states(ti.dag_id, ti.run_id), trained=trained, current=stage)
        if not missing:
            return
        log.info("The clear left out what the job still needs; asking Airflow to clear %s too.", ", ".join(missing))
        try:
            svc.airflow.clear_tasks(ti.dag_id, ti.run_id, missing)
            return
        except FfdlError as error:
            log.warning("Airflow did not clear them: %s", error)
        if pause_s is not None:
            time.sleep(pause_s)
    log.error("Clear %s of this run by hand, so that the job goes on.", ", ".join(missing))
