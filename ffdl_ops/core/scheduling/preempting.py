"""Who must give back what it holds, and to whom.

Only two kinds of holders are ever stopped for somebody else: those that hold more than their tenant's quota, for a gang that
stays within its own tenant's quota; and those of the same tenant with a lower priority (or, under a policy that preempts, behind
it in the policy's order). What they free is kept for the gang that they were stopped for, so nobody else, the stopped ones
included, can take it and be stopped for it again. A gang that was started within its quota is never stopped for another tenant.

Victims are chosen by the work that is lost (GPU time since the last checkpoint), the least first, and of those that were chosen
every one that turns out to be unnecessary is spared, the costliest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from ffdl_ops.core.scheduling.decisions import Admit, Preempt, Reserve
from ffdl_ops.core.scheduling.index import Index
from ffdl_ops.core.scheduling.model import GangRequest, Grant
from ffdl_ops.core.scheduling.queue import Entry, Lane
from ffdl_ops.core.scheduling.reserving import reservation_for
from ffdl_ops.core.scheduling.serving import best_start, holds_up, urgency

_NOBODY = float("inf")

__all__ = ["lost_gpu_seconds", "preempt"]


def preempt(index: Index, now: datetime) -> Iterator[Preempt | Reserve]:
    """Find for each gang that has a right to it who must stop for it, in the order of the queue."""
    borrowed = _borrowed(index)
    if not borrowed and not index.policy.preempts and not index.some_outrank():
        return
    lowest: dict[str, float] = {}
    lanes = [lane for lane in index.queue.lanes.values() if _may(index, _leader(index, lane), borrowed, lowest)]
    if not lanes:
        return
    lanes.sort(key=lambda one: urgency(index, one.entries[0]))
    # Whoever stops already is as good as gone to all of these.
    stopping = [grant for grant in index.grants.values() if grant.preempting]
    for grant in stopping:
        index.lift(grant)
    try:
        hopeless = _hopeless(index, lanes, borrowed)
        for lane in lanes:
            yield from _serve_lane(index, lane, borrowed, now, stopping, hopeless=id(lane) in hopeless)
    finally:
        for grant in stopping:
            index.put_back(grant)


def _leader(index: Index, lane: Lane) -> Entry:
    """Who goes first in a lane: where nobody passes, the first that holds up those behind it."""
    if index.policy.strict:
        return next((one for one in lane.entries if holds_up(index, one.request)), lane.entries[0])
    return lane.entries[0]


def lost_gpu_seconds(grant: Grant, now: datetime) -> float:
    """GPU time that is lost if the job stops now without saving: since its last checkpoint, else its start."""
    since = grant.saved_at or grant.granted_at
    return 0.0 if since is None else max((now - since).total_seconds(), 0.0) * grant.gpus_total


def _serve_lane(
    index: Index, lane: Lane, borrowed: set[str], now: datetime, stopping: list[Grant], *, hopeless: bool
) -> Iterator[Preempt | Reserve]:
    """One gang after the other, until nobody is left who could stop for the next."""
    for entry in list(lane.entries):
        request = entry.request
        if request.job_id in index.reservations:
            continue
        victims = _victims(index, entry, borrowed, now, hopeless=hopeless)
        if victims is None and index.policy.strict and not holds_up(index, request):
            continue  # those behind it ask for something else, and need not wait for it
        if victims is None:
            return
        start, stopped = victims
        for grant, why in stopped:
            index.changed(_told(grant))
            index.lift(grant)
            stopping.append(grant)
            yield Preempt(grant.job_id, grant.epoch, request.job_id, request.tenant, why, lost_gpu_seconds(grant, now))
        kept = reservation_for(request, start, now, preemption=True)
        index.keep(kept)
        yield Reserve(kept)


def _victims(
    index: Index, entry: Entry, borrowed: set[str], now: datetime, *, hopeless: bool
) -> tuple[Admit, list[tuple[Grant, str]]] | None:
    """Whom to stop, and where the gang then goes.

    Nobody is stopped for a gang that will fit anyway: when its learners may be farther apart, or when those have gone who stop
    already.
    """
    request = entry.request
    own = {grant.job_id: why for grant, why in _own(index, entry, now)}
    if hopeless and not own:
        return None
    others = {job_id: "borrowed" for job_id in borrowed if index.grants[job_id].tenant != request.tenant}
    if best_start(index, request, index.policy.loosest(request)) is not None:
        return None
    for reasons, borrow in (({**others, **own}, False), (own, True)):
        found = _fewest(index, request, reasons, now, borrow=borrow) if reasons else None
        if found is not None:
            return found
    return None


def _hopeless(index: Index, lanes: list[Lane], borrowed: set[str]) -> set[int]:
    """Lanes whose gangs would not fit even if all stopped who borrow; asked for all lanes at once, since lifting costs."""
    if index.policy.strict:
        return set()  # the gangs of a lane are not alike
    with index.without(*(index.grants[job_id] for job_id in borrowed)):
        return {
            id(lane)
            for lane in lanes
            if best_start(index, lane.entries[0].request, index.policy.loosest(lane.entries[0].request), borrow=False) is None
        }


def _fewest(
    index: Index, request: GangRequest, reasons: dict[str, str], now: datetime, *, borrow: bool
) -> tuple[Admit, list[tuple[Grant, str]]] | None:
    candidates = sorted(
        (grant for job_id in reasons if _stoppable(index, grant := index.grants[job_id], now)),
        key=lambda grant: (lost_gpu_seconds(grant, now), -grant.epoch, grant.job_id),
    )
    level = index.policy.loosest(request)
    chosen: list[Grant] = []
    start = None
    for grant in candidates:
        index.lift(grant)
        chosen.append(grant)
        start = best_start(index, request, level, borrow=borrow)
        if start is not None:
            break
    if start is not None:
        chosen = list(_without_spared(index, request, chosen, borrow=borrow))
        start = best_start(index, request, level, borrow=borrow)
    for grant in chosen:
        index.put_back(grant)
    return None if start is None else (start, [(grant, reasons[grant.job_id]) for grant in chosen])


def _without_spared(index: Index, request: GangRequest, chosen: Iterable[Grant], *, borrow: bool) -> Iterator[Grant]:
    """Put back, the costliest first, whoever need not go; those who must stay lifted."""
    for grant in reversed(list(chosen)):
        index.put_back(grant)
        if best_start(index, request, index.policy.loosest(request), borrow=borrow) is None:
            index.lift(grant)
            yield grant


def _may(index: Index, entry: Entry, borrowed: set[str], lowest: dict[str, float]) -> bool:
    """Whether there is anybody at all who might have to stop for the first of a lane."""
    request = entry.request
    if request.tenant not in index.tenants or not (borrowed or index.grants):
        return False
    others = any(index.grants[job_id].tenant != request.tenant for job_id in borrowed)
    if others and any(
        index.accounts.within_quota(request, request.learners_min, kind) for kind in index.rooms.kinds(request)
    ):
        return True
    if request.tenant not in lowest:
        lowest[request.tenant] = min((grant.priority for grant in index.grants_of(request.tenant)), default=_NOBODY)
    least = lowest[request.tenant]
    return least < request.priority or (index.policy.preempts and least is not _NOBODY)


def _own(index: Index, entry: Entry, now: datetime) -> Iterator[tuple[Grant, str]]:
    """Jobs of the gang's own tenant that are less important."""
    request = entry.request
    for grant in index.grants_of(request.tenant):
        if grant.priority < request.priority:
            yield grant, "priority"
        elif (
            grant.priority == request.priority
            and index.policy.preempts
            and not grant.aged
            and index.policy.running_rank(grant, now) > entry.rank
        ):
            yield grant, "order"


def _borrowed(index: Index) -> set[str]:
    """Jobs that hold what is beyond their tenant's quota: of its jobs on a GPU type, the least important and the newest."""
    found: set[str] = set()
    for tenant, usage in index.accounts.usage.items():
        for kind, held in usage.gpus.items():
            quota = index.accounts.quota(tenant, kind)
            if held <= quota:
                continue
            total = 0
            mine = [one for one in index.grants_of(tenant) if one.gpus and (one.gpu_type or "") == kind]
            for grant in sorted(mine, key=lambda one: (-one.priority, one.epoch)):
                total += grant.gpus_total
                if total > quota and not grant.preempting:
                    found.add(grant.job_id)
    return found


def _stoppable(index: Index, grant: Grant, now: datetime) -> bool:
    """Whether it has not been told yet, and has run as long as its tenant is promised."""
    tenant = index.tenants.get(grant.tenant)
    if grant.preempting:
        return False
    if tenant is None or not tenant.min_run_seconds or grant.granted_at is None:
        return True
    return (now - grant.granted_at).total_seconds() >= tenant.min_run_seconds


def _told(grant: Grant) -> Grant:
    return replace(grant, preempting=True)
