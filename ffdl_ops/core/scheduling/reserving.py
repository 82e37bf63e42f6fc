"""Reservations: places that are kept for one waiting gang as they become free.

What is kept counts as held for everybody else, on the nodes and in the accounts. So nobody who starts later can ever hold what
the reserved gang waits for: it starts when those have ended who held its places when they were reserved, and backfill, which
takes only what is neither held nor kept, can't delay it. At most one gang per GPU type has places reserved because it has waited
long (those made for preemptors come on top), so that little of the cluster drains at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from ffdl_ops.core.scheduling.decisions import Admit, Reserve, Unreserve
from ffdl_ops.core.scheduling.index import Index
from ffdl_ops.core.scheduling.model import GangRequest, Grant, Reservation
from ffdl_ops.core.scheduling.queue import ANY, lane_kind
from ffdl_ops.core.scheduling.serving import admit, best_start

__all__ = ["reservation_for", "reserve_for_aged", "serve_reserved"]

_FAR = datetime.max.replace(tzinfo=UTC)


def serve_reserved(index: Index, now: datetime) -> Iterator[Admit | Unreserve]:
    """Start those for whom places are kept and who fit now, anywhere; drop what has no purpose any more."""
    for kept in sorted(index.reservations.values(), key=lambda one: (one.since, one.job_id)):
        request = index.queue.requests[kept.job_id]
        if not _of_use(index, kept, request):
            index.unkeep(kept.job_id)
            yield Unreserve(kept.job_id)
            continue
        with index.without(kept):
            start = best_start(index, request, index.policy.loosest(request))
        if start is not None:
            index.unkeep(kept.job_id)
            admit(index, request, start, now)
            yield Unreserve(kept.job_id)
            yield start


def reserve_for_aged(index: Index, now: datetime) -> Iterator[Reserve]:
    """Keep places for the gang of each GPU type that has waited longest, once it has waited long enough."""
    if not index.queue.due:
        return
    taken = {kept.gpu_type for kept in index.reservations.values() if not kept.preemption}
    due = [index.queue.requests[job_id] for job_id in index.queue.due if job_id not in index.reservations]
    ending: list[Grant] | None = None
    for request in sorted(due, key=lambda one: (-one.priority, one.waits_since, one.job_id)):
        kind = lane_kind(request)
        if request.tenant not in index.tenants or _busy(index, kind, taken):
            continue
        ending = sorted(index.grants.values(), key=_ends) if ending is None else ending
        found = _drain(index, request, ending, now)
        if found is not None:
            taken.add(found.gpu_type)
            index.keep(found)
            yield Reserve(found)


def reservation_for(request: GangRequest, start: Admit, now: datetime, *, preemption: bool) -> Reservation:
    """The places of a start that can't be made yet, kept."""
    return Reservation(
        job_id=request.job_id,
        tenant=request.tenant,
        placements=start.placements,
        gpus=request.gpus,
        cpu_millis=request.cpu_millis,
        memory_bytes=request.memory_bytes,
        gpu_type=start.gpu_type,
        since=now,
        preemption=preemption,
        user=request.user,
    )


def _of_use(index: Index, kept: Reservation, request: GangRequest) -> bool:
    """Whether the gang still asks for these places, and the nodes are still there."""
    return (
        request.tenant in index.tenants
        and (kept.gpus, kept.cpu_millis, kept.memory_bytes) == (request.gpus, request.cpu_millis, request.memory_bytes)
        and request.learners_min <= len(kept.placements) <= request.learners_max
        and (not request.gpus or request.gpu_type in (None, kept.gpu_type))
        and all(
            place.node in index.rooms.rooms and place.node not in request.excluded_nodes for place in kept.placements
        )
    )


def _busy(index: Index, kind: str, taken: set[str | None]) -> bool:
    """Whether every GPU type that the gang could take has its reservation."""
    if kind == "-":
        return None in taken
    if kind == ANY:
        return all(one in taken for one in index.idle.kinds_there())
    return kind in taken


def _drain(index: Index, request: GangRequest, ending: list[Grant], now: datetime) -> Reservation | None:
    """The places that it gets soonest if nobody else starts: those of the first to end.

    Who is not known to end soon: the later it began the sooner it may, since what has run long tends to run on (the run times
    of training jobs are heavy-tailed).

    :param ending: what is held, the first to end in front.
    """
    level = index.policy.loosest(request)
    kinds = set(index.idle.kinds(request)) if request.gpus else None
    lifted: list[Grant] = []
    start = best_start(index, request, level)
    if start is not None:
        return None
    try:
        for grant in ending:
            if kinds is not None and grant.gpu_type not in kinds and grant.tenant != request.tenant:
                continue
            index.lift(grant)
            lifted.append(grant)
            start = best_start(index, request, level)
            if start is not None:
                break
    finally:
        for grant in lifted:
            index.put_back(grant)
    return None if start is None else reservation_for(request, start, now, preemption=False)


def _ends(grant: Grant) -> tuple[bool, datetime, float, str]:
    began = grant.granted_at.timestamp() if grant.granted_at else 0.0
    return (not grant.preempting, grant.expected_end or _FAR, -began, grant.job_id)
