"""`ffdl demand`: what waits, as demand for nodes; for a cluster autoscaler and for whoever buys machines."""

from __future__ import annotations

import click

from ffdl_ops.cli.options import as_json, pass_session
from ffdl_ops.cli.output import emit_json, say, show_duration, show_table
from ffdl_ops.cli.session import Session

__all__ = ["commands"]


@click.command()
@as_json
@pass_session
def demand(session: Session, as_json: bool) -> None:
    """Show what waits by GPU type and shape, and how much of it more nodes would let start.

    More nodes help gangs that wait for capacity or because of fragmentation; they do not help against a quota, for lack of
    anything to borrow, or while the platform is closed.
    """
    from ffdl_ops.core.jobs.units import format_memory
    from ffdl_ops.core.scheduling.demand import demands

    found = demands((one.request, one.cause) for one in session.ledger.queue())
    if as_json:
        emit_json({"demand": found})
        return
    if not found:
        say("Nobody waits.")
        return
    now = session.now()
    show_table(
        ["GPU TYPE", ">GPUS EACH", ">LEARNERS", ">CPU EACH", ">MEMORY EACH", ">GANGS", ">GPUS", ">MORE NODES HELP",
         ">GPUS FOR THEM", ">BEHIND OTHERS", ">LIMITS", ">NOT LOOKED AT", ">LONGEST WAIT"],
        [
            ((one.shape.gpu_type or "any") if one.shape.gpus else "none", one.shape.gpus, one.shape.learners,
             f"{one.shape.cpu_millis / 1000:g}", format_memory(one.shape.memory_bytes), one.gangs, one.gpus,
             one.more_nodes, one.gpus_for_nodes, one.behind_others, one.limits, one.unknown,
             show_duration((now - one.oldest).total_seconds()))
            for one in found
        ],
        title="Gangs that wait, by shape",
    )  # fmt: skip


commands = [demand]
