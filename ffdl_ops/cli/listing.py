"""`ffdl list`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from ffdl_ops.cli.options import as_json, pass_session
from ffdl_ops.cli.output import emit_json, say, show_duration, show_table, show_time
from ffdl_ops.cli.session import Session
from ffdl_ops.core.jobs.states import JobState

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord

__all__ = ["commands", "job_summary"]

_STATES = [state.value for state in JobState]


def job_summary(job: JobRecord) -> dict[str, object]:
    """What a list shows of a job."""
    return {
        "job_id": job.job_id,
        "name": job.name,
        "tenant": job.tenant,
        "state": job.state,
        "outcome": job.outcome,
        "user": job.user,
        "framework": job.framework,
        "learners": job.learners,
        "gpus": job.gpus,
        "gpu_type": job.gpu_type,
        "priority": job.priority,
        "submitted_at": job.created_at,
        "updated_at": job.updated_at,
        "dag_id": job.dag_id,
        "run_id": job.run_id,
    }


@click.command(name="list")
@click.option("--tenant", metavar="NAME", help="Only this tenant's jobs.  [default: all]")
@click.option(
    "--state", "states", multiple=True, type=click.Choice(_STATES, case_sensitive=False), help="Only in this state."
)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
@as_json
@pass_session
def list_jobs(session: Session, tenant: str | None, states: tuple[str, ...], limit: int, as_json: bool) -> None:
    """List jobs, the newest first."""
    wanted = [JobState(state) for state in states] or None
    name = session.tenant(tenant).name if tenant else None
    jobs = session.ledger.jobs(tenant=name, states=wanted, limit=limit)
    if as_json:
        emit_json([job_summary(job) for job in jobs])
        return
    if not jobs:
        say("There are no such jobs." if tenant or states else "There are no jobs yet; `ffdl submit` makes one.")
        return
    now = session.now()
    show_table(
        ["JOB", "NAME", "TENANT", "STATE", "USER", "FRAMEWORK", ">LEARNERS", "GPUS EACH", "SUBMITTED (UTC)", ">TAKES"],
        [
            (job.job_id, job.name, job.tenant, job.state, job.user, job.framework, job.learners, _gpus(job),
             show_time(job.created_at), _age(job.created_at, job.updated_at if job.outcome else now))
            for job in jobs
        ],
    )  # fmt: skip
    if len(jobs) == limit:
        say(f"The newest {limit}; --limit shows more.")


def _age(start: datetime, end: datetime) -> str:
    return show_duration((end - start).total_seconds())


def _gpus(job: JobRecord) -> str:
    return f"{job.gpus} × {job.gpu_type or 'any'}" if job.gpus else "-"


commands = [list_jobs]
