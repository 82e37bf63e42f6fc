"""The decision itself: who starts, who must stop, what is kept for whom, and why the others wait.

The live platform and the simulator call the same code: :func:`decide` over a snapshot, or :func:`run` over an index that is fed
with events. Nothing in it depends on anything but its arguments, so that the same input has the same outcome.

The order of one pass:

1. those for whom places are kept start if they fit;
2. the queue is served: the first in order that fits, until none does;
3. gangs that have a right to what others hold have them stopped, and get their places kept;
4. the gang that has waited longest, and long enough, gets places kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from ffdl_ops.core.scheduling.decisions import Admit, Decision, Preempt, Reserve, Unreserve, Wait
from ffdl_ops.core.scheduling.explaining import waits
from ffdl_ops.core.scheduling.index import Index
from ffdl_ops.core.scheduling.model import GangRequest, Snapshot, TenantLimits
from ffdl_ops.core.scheduling.policy import Policy
from ffdl_ops.core.scheduling.preempting import preempt
from ffdl_ops.core.scheduling.reserving import reserve_for_aged, serve_reserved
from ffdl_ops.core.scheduling.serving import serve

__all__ = ["decide", "explain", "run"]


def decide(
    snapshot: Snapshot,
    queue: Iterable[GangRequest],
    tenants: Mapping[str, TenantLimits],
    policy: Policy,
    now: datetime,
) -> tuple[Decision, ...]:
    """Decide for everything that waits.

    :param snapshot: nodes, live grants and reservations.
    :param queue: what waits, in any order; a job that holds a grant already is left out.
    :param tenants: limits by tenant name; a tenant that is not there may hold nothing.
    :param policy: how the queue is served.
    :param now: the present moment.
    :returns: what is to be done, in the order in which it was decided; then why each of the others waits, in the queue's order.
    """
    index = Index(tenants, policy, snapshot, queue, now)
    return (*run(index, now), *explain(index, now))


def run(index: Index, now: datetime) -> tuple[Admit | Preempt | Reserve | Unreserve, ...]:
    """One pass over an index, which is brought to what was decided.

    What starts is a grant in it from then on; who must stop keeps its grant until :meth:`Index.released` is called.
    """
    index.untried.update({id(lane): lane for lane in index.queue.advance(now)})
    if index.closed is not None or not len(index.queue):
        return ()
    asked = index.queue.requests.copy()
    done: list[Admit | Preempt | Reserve | Unreserve] = [
        *serve_reserved(index, now),
        *serve(index, now),
        *preempt(index, now),
    ]
    admitted = {one.job_id for one in done if isinstance(one, Admit)}
    undone = {one.job_id for one in done if isinstance(one, Preempt) and one.job_id in admitted}
    if undone:
        # It would have started only to be stopped at once: it goes on waiting, and whom it was stopped for may start now.
        done = [one for one in done if one.job_id not in undone or not isinstance(one, Admit | Preempt)]
        for job_id in sorted(undone):
            index.released(job_id)
            index.came(asked[job_id], now)
        done += serve_reserved(index, now)
    return (*done, *reserve_for_aged(index, now))


def explain(index: Index, now: datetime) -> tuple[Wait, ...]:
    """Why everything waits that was not started by the last pass."""
    return tuple(waits(index, now))
