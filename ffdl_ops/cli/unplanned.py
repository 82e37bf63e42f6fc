"""Halting a run whose `plan` has not stored its job yet: the ledger does not know it, Airflow does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ffdl_ops.adapters.airflow_api import AirflowApiError
from ffdl_ops.cli.exits import Exit, Refusal
from ffdl_ops.core.errors import UserError
from ffdl_ops.core.jobs.ids import dag_id as dag_id_of
from ffdl_ops.core.jobs.ids import job_id as job_id_of

if TYPE_CHECKING:
    from ffdl_ops.cli.session import Session

__all__ = ["UnplannedRun", "find_run", "halt_run", "wait_for_run"]

_ENDED = ("success", "failed")
_HIDDEN = (403, 404)


@dataclass(frozen=True)
class UnplannedRun:
    """A run of a tenant's DAG that no job was stored for.

    :param job_id: the id that its job will have.
    :param state: Airflow's word for the run's.
    """

    tenant: str
    dag_id: str
    run_id: str
    job_id: str
    state: str

    def summary(self) -> dict[str, str | None]:
        """As a job's summary, as far as there is anything."""
        return {
            "job_id": self.job_id, "tenant": self.tenant, "state": None, "dag_id": self.dag_id, "run_id": self.run_id,
        }  # fmt: skip


def find_run(session: Session, text: str) -> UnplannedRun | None:
    """The run that a person means by its id or by the id of its job to be (or an unambiguous beginning of that).

    Runs that this account may not see are as if they were not there.

    :raises UserError: when there is more than one.
    """
    text = text.strip()
    if not text.removeprefix("job-"):
        return None
    found = [one for tenant in session.settings.tenants for one in _runs(session, tenant.name, text)]
    if len(found) > 1:
        raise UserError(
            f"{text!r} stands for runs of {', '.join(sorted({one.dag_id for one in found}))}; give the job's id."
        )
    return found[0] if found else None


def halt_run(session: Session, run: UnplannedRun) -> None:
    """Mark the run as failed, so that its `plan` stores nothing more and nothing after it starts.

    :raises Refusal: when it had ended before.
    """
    if run.state in _ENDED:
        raise Refusal(f"Run {run.run_id} of {run.dag_id} ended without a job; there is nothing to halt.")
    session.airflow.mark_run_failed(run.dag_id, run.run_id)
    if session.ledger.job(run.job_id) is not None:  # stored at this very moment: its end is to say who wanted it
        session.ledger.request_halt(run.job_id, session.user, session.now())
        return
    words = f"run {run.run_id} stopped before its job was stored"
    session.ledger.audit(session.user, "halt", session.now(), words, tenant=run.tenant, job_id=run.job_id)


def wait_for_run(session: Session, run: UnplannedRun, timeout_s: float | None) -> Exit:
    """Wait until the run, and the job if it was stored after all, has ended."""
    from ffdl_ops.cli.follow import Followed, wait_for_end

    try:
        job = wait_for_end(session, Followed(run.dag_id, run.run_id, run.job_id), timeout_s=timeout_s)
    except Refusal:  # it ended without a job, as it should
        return Exit.OK
    return Exit.JOB_FAILED if job.state == "FAILED" else Exit.OK


def _runs(session: Session, tenant: str, text: str) -> Iterator[UnplannedRun]:
    dag_id = dag_id_of(tenant)
    try:
        by_id = session.airflow.run_state(dag_id, text)
        if by_id is not None:
            yield UnplannedRun(tenant, dag_id, text, job_id_of(dag_id, text), by_id)
            return
        beginning = "job-" + text.removeprefix("job-")
        for run_id, state in session.airflow.active_runs(dag_id):
            job_id = job_id_of(dag_id, run_id)
            if job_id.startswith(beginning):
                yield UnplannedRun(tenant, dag_id, run_id, job_id, state)
    except AirflowApiError as error:
        if error.status not in _HIDDEN:
            raise
