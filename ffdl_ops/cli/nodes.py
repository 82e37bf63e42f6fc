"""`ffdl cordon`, `ffdl uncordon`, `ffdl drain`: one node, or the whole platform before an upgrade.

The audit is written first: what is then done to the cluster is never without the name of who ordered it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from ffdl_ops.cli.exits import TookTooLong
from ffdl_ops.cli.options import as_json, pass_session, timeout_option
from ffdl_ops.cli.output import emit_json, one_line, say
from ffdl_ops.cli.session import Session
from ffdl_ops.core.errors import UserError

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import LeaseRecord

__all__ = ["commands"]

_POLL_S = 1.0
_NAMED = 5

_node = click.argument("node", metavar="[NODE]", required=False)
_all = click.option("--all", "everything", is_flag=True, help="The whole platform, instead of one node.")
_reason = click.option("--reason", metavar="TEXT", help="Why; shown to whoever waits, and kept in the audit.")


@click.command()
@_node
@_all
@_reason
@as_json
@pass_session
def cordon(session: Session, node: str | None, everything: bool, reason: str | None, as_json: bool) -> None:
    """Let nothing new start on a node, or (--all --reason TEXT) anywhere. What runs goes on."""
    _one_of(node, everything)
    if everything and not reason:
        raise click.UsageError("Give --reason with --all: it is what waiting jobs show.")
    changed = _close(session, reason) if everything else _cordon(session, str(node), reason)
    if as_json:
        emit_json({"node": node, "cordoned": True, "changed": changed, "reason": reason})
        return
    if everything:
        say("Nothing starts from now on; `ffdl uncordon --all` lets jobs start again.")
    else:
        say(f"{node} is cordoned{'' if changed else ' already'}: nothing new is put there.")


@click.command()
@_node
@_all
@as_json
@pass_session
def uncordon(session: Session, node: str | None, everything: bool, as_json: bool) -> None:
    """Let jobs start again: on a node, or (--all) on the platform."""
    _one_of(node, everything)
    if everything:
        changed = session.ledger.open_platform(session.user, session.now())
    else:
        name, schedulable = _looked_up(session, str(node))
        changed = not schedulable
        if changed:
            session.ledger.audit(session.user, "uncordon", session.now(), f"node {name}")
            session.cluster.let_schedule(name, True)
    if as_json:
        emit_json({"node": node, "cordoned": False, "changed": changed})
        return
    what = "Jobs start again" if everything else f"{node} takes learners again"
    say(f"{what}." if changed else f"{'The platform' if everything else node} was not cordoned.")


@click.command()
@_node
@_all
@_reason
@click.option("--wait", is_flag=True, help="Wait until their learners are gone.")
@timeout_option
@as_json
@pass_session
def drain(
    session: Session,
    node: str | None,
    everything: bool,
    reason: str | None,
    wait: bool,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Cordon a node, or (--all) the platform, and tell every gang there to stop, save and queue again.

    The jobs stay in their runs and go on from their checkpoints, elsewhere or after `ffdl uncordon`. Called again, it tells
    only who has not been told.
    """
    _one_of(node, everything)
    if not everything:
        _cordon(session, str(node), reason)
    elif reason or session.ledger.closed() is None:
        _close(session, reason or "the platform is being drained")
    told = _tell(session, node, reason)
    if not as_json:
        say(f"Told to stop, save and queue again: {', '.join(told) or 'nobody'}.")
    if wait:
        told += _wait_until_gone(session, node, reason, timeout)
    left = [one.job_id for one in _there(session, node)]
    if as_json:
        emit_json({"node": node, "cordoned": True, "told": told, "left": left})
    elif left:
        say(f"{_jobs(len(left))} still there; --wait waits until nobody is.")
    else:
        say(f"Nothing runs {f'on {node}' if node else 'anywhere'} any more.")


def _one_of(node: str | None, everything: bool) -> None:
    if bool(node) == everything:
        raise click.UsageError("Give a NODE, or --all for the whole platform.")


def _looked_up(session: Session, node: str) -> tuple[str, bool]:
    """A node's name, and whether it takes new pods.

    :raises UserError: when there is none of that name; with those that are most like it.
    """
    from ffdl_ops.core.jobs.problems import nearest

    nodes = {one.metadata.name: not one.spec.unschedulable for one in session.cluster.nodes()}
    if node not in nodes:
        raise UserError(f"There is no node {node!r}; {nearest(node, nodes) or 'the cluster has no nodes'}")
    return node, nodes[node]


def _cordon(session: Session, node: str, reason: str | None) -> bool:
    """Cordon a node; whether it was not cordoned already."""
    name, schedulable = _looked_up(session, node)
    if schedulable:
        words = f"node {name}" + (f": {reason}" if reason else "")
        session.ledger.audit(session.user, "cordon", session.now(), words)
        session.cluster.let_schedule(name, False)
    return schedulable


def _close(session: Session, reason: str | None) -> bool:
    before = session.ledger.closed()
    session.ledger.close_platform(str(reason), session.user, session.now())
    return before != reason


def _there(session: Session, node: str | None) -> list[LeaseRecord]:
    """Who holds places on a node, or anywhere."""
    leases = session.ledger.live_leases()
    return [one for one in leases if node is None or any(place.node == node for place in one.placements)]


def _tell(session: Session, node: str | None, reason: str | None) -> list[str]:
    """Tell those who hold places there to stop, and who was told by this call."""
    what = f"Node {node}" if node else "The platform"
    why = f" ({reason.rstrip('.')})" if reason else ""
    words = (
        f"{what} is drained by {session.user}{why}. "
        "The job saves, and goes back into the queue; it goes on from its checkpoint."
    )
    order = session.ledger.order_preemption
    return [
        one.job_id
        for one in _there(session, node)
        if one.preempted_at is None and order(one.job_id, words, session.user, session.now())
    ]


def _wait_until_gone(session: Session, node: str | None, reason: str | None, timeout: float | None) -> list[str]:
    """Wait, telling on standard error who is still there.

    A pass that had listed the nodes just before the cordon may grant places there once more: who gets them is told, too.

    :returns: who was told meanwhile.
    """
    started, shown = time.monotonic(), -1
    told: list[str] = []
    while left := _there(session, node):
        names = ", ".join(one.job_id for one in left[:_NAMED]) + (", …" if len(left) > _NAMED else "")
        told += _tell(session, node, reason)
        if len(left) != shown:
            shown = len(left)
            say(f"{_jobs(shown)} still there: {one_line(names)}", err=True)
        if timeout is not None and time.monotonic() - started > timeout:
            where = node or "the platform"
            raise TookTooLong(f"After {timeout:g} s {_jobs(shown)} still on {where}, saving or stopping: {one_line(names)}.")
        time.sleep(_POLL_S)
    return told


def _jobs(count: int) -> str:
    return "1 job is" if count == 1 else f"{count} jobs are"


commands = [cordon, uncordon, drain]
