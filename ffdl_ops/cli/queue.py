"""`ffdl queue`: who waits, where in the order, why, and how soon; and who holds what."""

from __future__ import annotations

import click

from ffdl_ops.cli.options import as_json, pass_session
from ffdl_ops.cli.output import emit_json, say, show_duration, show_table, show_time
from ffdl_ops.cli.session import Session

__all__ = ["commands"]


@click.command()
@click.option("--tenant", metavar="NAME", help="Only what this tenant waits for and holds.  [default: all]")
@as_json
@pass_session
def queue(session: Session, tenant: str | None, as_json: bool) -> None:
    """Show who waits and why, and who holds GPUs.

    Why a job waits names the largest holders with their users, and until when they hold it as far as that is known.
    """
    name = session.tenant(tenant).name if tenant else None
    waiting = [one for one in session.ledger.queue() if name in (None, one.request.tenant)]
    leases = [one for one in session.ledger.live_leases() if name in (None, one.tenant)]
    closed = session.ledger.closed()
    if as_json:
        emit_json({"closed": closed, "waiting": waiting, "holding": leases})
        return
    now = session.now()
    if closed:
        say(f"Nothing starts at present: {closed}. `ffdl uncordon --all` ends that.")
    if waiting:
        show_table(
            ["JOB", "TENANT", "USER", ">PLACE", "NEEDS", ">PRIORITY", "SINCE (UTC)", ">WAITS", "CAUSE",
             "NOT BEFORE (UTC)", "WHY"],
            [
                (one.request.job_id, one.request.tenant, one.request.user, one.position,
                 _need(one.request.learners_min, one.request.gpus, one.request.gpu_type, one.request.learners_max),
                 one.request.priority, show_time(one.enqueued_at), show_duration((now - one.enqueued_at).total_seconds()),
                 one.cause, show_time(one.earliest), one.message or "not looked at yet")
                for one in waiting
            ],
            title="Waiting (place: in the tenant's own queue)",
        )  # fmt: skip
    else:
        say("Nobody waits.")
    if leases:
        show_table(
            ["JOB", "TENANT", "USER", ">LEASE", "HOLDS", ">GPUS", "NODES", ">FOR", "UNTIL ABOUT (UTC)", "TOLD TO STOP (UTC)"],
            [
                (one.job_id, one.tenant, one.user, one.epoch, _need(len(one.placements), one.gpus, one.gpu_type),
                 one.gpus_total, ", ".join(sorted({place.node for place in one.placements})),
                 show_duration((now - one.granted_at).total_seconds()), show_time(one.expected_end),
                 show_time(one.preempted_at))
                for one in leases
            ],
            title="Holding",
        )  # fmt: skip
    else:
        say("Nobody holds anything.")


def _need(learners: int, gpus: int, gpu_type: str | None, most: int = 0) -> str:
    """``2 learners × 1 V100``; ``2-4 learners`` for an elastic gang."""
    each = f"{gpus} {gpu_type or 'GPU'}" if gpus else "CPU only"
    count = f"{learners}-{most}" if most > learners else str(learners)
    return f"{count} learner{'s' * (max(learners, most) != 1)} × {each}"


commands = [queue]
