"""`ffdl audit`: who ordered or decided what, and when."""

from __future__ import annotations

import click

from ffdl_ops.cli.options import as_json, pass_session
from ffdl_ops.cli.output import emit_json, say, show_table, show_time
from ffdl_ops.cli.session import Session
from ffdl_ops.core.errors import UserError

__all__ = ["commands"]


@click.command()
@click.option("--job", metavar="JOB", help="Only what concerns this job.  [default: everything]")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="The newest so many.")
@as_json
@pass_session
def audit(session: Session, job: str | None, limit: int, as_json: bool) -> None:
    """Show who ordered or decided what: grants, stops, halts, changed limits, cordons. The newest are the last."""
    lines = session.ledger.audit_lines(job_id=_job_id(session, job) if job else None, limit=limit)
    if as_json:
        emit_json(lines)
        return
    if not lines:
        say("There is nothing in the audit" + (" of this job." if job else " yet."))
        return
    show_table(
        ["WHEN (UTC)", "WHO", "WHAT", "TENANT", "JOB", "WORDS"],
        [(show_time(one.at), one.actor, one.action, one.tenant, one.job_id, one.words) for one in lines],
    )
    if len(lines) == limit:
        say(f"The newest {limit}; --limit shows more.")


def _job_id(session: Session, text: str) -> str:
    """The job's id; the audit of one whose record is gone is found by the whole id alone."""
    try:
        return session.job(text).job_id
    except UserError:
        if not session.ledger.audit_lines(job_id=text.strip(), limit=1):
            raise
        return text.strip()


commands = [audit]
