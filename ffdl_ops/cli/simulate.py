"""`ffdl simulate`: a trace's jobs through the platform's own scheduler, in virtual time."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ffdl_ops.cli.options import as_json
from ffdl_ops.cli.output import emit_json, say, show_duration, show_table
from ffdl_ops.core.errors import UserError

if TYPE_CHECKING:
    from ffdl_ops.core.scheduling.model import NodeView
    from ffdl_ops.core.scheduling.policy import Policy
    from ffdl_ops.lab.simulate.compare import SimTenant, Summary

__all__ = ["commands"]

_DATES = click.DateTime(["%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"])
_SILENT_S = 2.0
_LINE_EVERY_S = 10.0


@click.command()
@click.option("--trace", "trace", required=True, metavar="FILE", help="Philly's job log or merged table, or openb's pods.")
@click.option("--nodes", required=True, metavar="N|FILE", help="So many equal nodes, or openb's table of nodes.")
@click.option("--gpus-per-node", default=8, show_default=True, type=click.IntRange(min=1), help="GPUs of an equal node.")
@click.option("--vc", "vcs", metavar="NAME,...", help="Only these virtual clusters (tenants).")
@click.option("--quotas", metavar="FILE", help="Nodes by virtual cluster (columns: vc, node num).  [default: no quota]")
@click.option("--since", type=_DATES, help="Only jobs that came at this time (UTC) or later.")
@click.option("--before", type=_DATES, help="Only jobs that came before this time (UTC).")
@click.option("--policy", "names", default="fair", show_default=True, metavar="NAME,...", help="fair, fifo, sjf, srtf, las.")
@click.option("--strict", is_flag=True, help="As published replays: the queue blocks at its head, nothing is relaxed.")
@click.option(
    "--stop-seconds", default="7,30,60", show_default=True, metavar="S,S,S",
    help="What stopping a job costs: with 1 GPU, up to a node's, more.",
)  # fmt: skip
@as_json
def simulate(
    trace: str,
    nodes: str,
    gpus_per_node: int,
    vcs: str | None,
    quotas: str | None,
    since: datetime | None,
    before: datetime | None,
    names: str,
    strict: bool,
    stop_seconds: str,
    as_json: bool,
) -> None:
    """Replay a trace's jobs under several policies, by the scheduler that the platform itself uses.

    A job runs as long as the trace says. Tenants with a quota lend each other what is idle.
    """
    from ffdl_ops.lab.simulate.compare import compare, stops_for
    from ffdl_ops.lab.traces.formats import read_jobs

    policies = [_policy(name.strip(), strict) for name in names.split(",")]
    cluster = _nodes(nodes, gpus_per_node)
    wanted = [name.strip() for name in vcs.split(",")] if vcs else None
    load = read_jobs(
        trace, cluster, tenants=wanted, since=_utc(since), before=_utc(before), gpus_per_node=gpus_per_node
    )
    if wanted and not load.format.tenants:
        raise UserError(f"--vc: {trace} ({load.format.name}) does not say whose its jobs are.")
    if not load.jobs:
        raise UserError(f"{trace} has no job to replay: {load.skipped} of those asked for lack GPUs, tenant or run time.")
    tenants = _tenants({job.request.tenant for job in load.jobs}, cluster, quotas, gpus_per_node)
    progress = _Progress()
    found = []
    for summary in compare(
        load.jobs, cluster, tenants, policies, stop_s=stops_for(*_stops(stop_seconds), gpus_per_node), progress=progress
    ):
        progress.clear()
        found.append(summary)
    facts = {
        "trace": load.format.name,
        "jobs": len(load.jobs),
        "skipped": load.skipped,
        "nodes": len(cluster),
        "gpus": sum(node.gpus for node in cluster),
        "tenants": len(tenants),
        "strict": strict,
    }
    if as_json:
        emit_json({**facts, "policies": found})
    else:
        _show(facts, found)


def _policy(name: str, strict: bool) -> Policy:
    from ffdl_ops.core.jobs.problems import nearest
    from ffdl_ops.core.scheduling.policy import Order, Policy
    from ffdl_ops.lab.simulate.compare import strictly

    if name not in set(Order):
        raise UserError(f"--policy: there is no policy {name!r}; {nearest(name, list(Order))}")
    return strictly(Policy(Order(name))) if strict else Policy(Order(name))


def _nodes(given: str, gpus_per_node: int) -> list[NodeView]:
    from ffdl_ops.lab.traces.gangs import equal_nodes
    from ffdl_ops.lab.traces.openb import read_nodes

    if given.isdecimal() and int(given) > 0:
        return equal_nodes(int(given), gpus_per_node)
    if not Path(given).is_file():
        raise UserError(f"--nodes: {given!r} is neither a number of nodes from 1 nor a file.")
    return read_nodes(given)


def _tenants(names: set[str], nodes: list[NodeView], quotas: str | None, gpus_per_node: int) -> dict[str, SimTenant]:
    from ffdl_ops.core.scheduling.rooms import type_of
    from ffdl_ops.lab.simulate.compare import SimTenant
    from ffdl_ops.lab.traces.formats import read_quotas
    from ffdl_ops.lab.traces.gangs import KIND

    if quotas is None:
        everything: dict[str, int] = {}
        for node in nodes:
            if (kind := type_of(node)) is not None:
                everything[kind] = everything.get(kind, 0) + node.gpus
        return {name: SimTenant(name, everything) for name in names}
    shares = read_quotas(quotas)
    unknown = sorted(names - shares.keys())
    if unknown:
        raise UserError(f"--quotas: {quotas} has no line for {', '.join(unknown)}; add them, or choose others with --vc.")
    return {name: SimTenant(name, {KIND: shares[name] * gpus_per_node}, cohort="all") for name in names}


def _stops(given: str) -> tuple[float, float, float]:
    try:
        one, node, more = (float(part) for part in given.split(","))
        if min(one, node, more) < 0:
            raise ValueError
    except ValueError:
        raise UserError(f"--stop-seconds: {given!r} is not three numbers of seconds, as 7,30,60.") from None
    return one, node, more


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC)


def _show(facts: dict[str, Any], found: Sequence[Summary]) -> None:
    skipped = f"; {facts['skipped']:,} more can't be replayed" if facts["skipped"] else ""
    whose = f"{facts['tenants']} tenants" if facts["tenants"] > 1 else "one tenant"
    say(f"{facts['trace']}: {facts['jobs']:,} jobs of {whose}, {facts['nodes']} nodes, {facts['gpus']:,} GPUs{skipped}.")
    show_table(
        [
            "POLICY", ">MEAN JCT", ">MEAN WAIT", ">P90 WAIT", ">WAITED > 15 MIN", ">NEVER STARTED", ">STOPPED", ">GPUS HELD",
            ">DECISIONS", ">PER SECOND", ">TOOK",
        ],
        [
            (
                one.policy,
                f"{one.jct_mean_s:,.0f} s",
                f"{one.wait_mean_s:,.0f} s",
                f"{one.wait_p90_s:,.0f} s",
                f"{100 * one.waited_over_15_min:.1f} %",
                one.never_started,
                one.preemptions,
                f"{100 * one.utilisation:.1f} %",
                f"{one.decisions:,}",
                f"{one.decisions_per_s:,.0f}",
                show_duration(one.wall_s),
            )
            for one in found
        ],
    )  # fmt: skip


class _Progress:
    """Says on standard error how far a replay is, once it takes longer than people like to wait in silence."""

    def __init__(self) -> None:
        self.began = self.said = time.monotonic()
        self.shown = False

    def __call__(self, policy: str, ended: int, jobs: int) -> None:
        now = time.monotonic()
        terminal = sys.stderr.isatty()
        if now - self.began < _SILENT_S or (self.shown and now - self.said < (0.5 if terminal else _LINE_EVERY_S)):
            return
        self.said, self.shown = now, True
        begin = "\r" if terminal else ""
        click.echo(f"{begin}{policy}: {ended:,} of {jobs:,} jobs have ended", err=True, nl=not terminal)

    def clear(self) -> None:
        """Leave no half line behind."""
        if self.shown and sys.stderr.isatty():
            click.echo("\r\033[K", err=True, nl=False)
        self.began, self.shown = time.monotonic(), False


commands: list[click.Command] = [simulate]
