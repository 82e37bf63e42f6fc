"""Why a gang waits, as one sentence for a person and the same facts as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ffdl_ops.core.scheduling.fit import Room, pack
from ffdl_ops.core.scheduling.model import GangRequest, Grant, Holder, NodeView, Wait, WaitCause
from ffdl_ops.core.scheduling.quota import Shortage

__all__ = ["behind", "no_room", "no_tenant", "over_quota"]

_NAMED_HOLDERS = 5


def no_tenant(request: GangRequest, position: int) -> Wait:
    """Its tenant has no quota record (any more)."""
    message = (
        f"Tenant {request.tenant} is not in the tenants' configuration, so it may hold nothing; "
        "an admin adds it there, or the job is halted."
    )
    return Wait(request.job_id, position, WaitCause.QUOTA, message, (), _needs(request))


def behind(request: GangRequest, position: int, ahead: GangRequest) -> Wait:
    """A gang of its own tenant goes first."""
    since = f"priority {ahead.priority}, submitted {ahead.submitted_at:%Y-%m-%d %H:%M:%S} UTC"
    message = (
        f"{ahead.job_id} of the same tenant goes first ({since}) and waits for what this job would take; "
        f"this job is number {position} in its tenant's queue."
    )
    holder = Holder(ahead.job_id, ahead.tenant, 0)
    return Wait(request.job_id, position, WaitCause.ORDER, message, (holder,), _needs(request))


def over_quota(request: GangRequest, position: int, short: Sequence[Shortage], grants: Iterable[Grant]) -> Wait:
    """Its tenant's quota leaves no room, on any of the GPU types that it may run on."""
    whole_tenant = any(one.gpu_type is None for one in short)
    kinds = None if whole_tenant else {one.gpu_type for one in short}
    holders = _holders(
        grant
        for grant in grants
        if grant.tenant == request.tenant and (kinds is None or (grant.gpu_type or "") in kinds)
    )
    facts = "; ".join(dict.fromkeys(str(one) for one in short))
    message = f"Quota of tenant {request.tenant}: {facts}{_held_by(holders)}."
    if all(one.never for one in short):
        message += " It needs more than the quota itself: it never starts unless an admin raises the quota."
    first = short[0]
    numbers = {
        **_needs(request),
        "limit": first.limit,
        "held": first.held,
        "needed": first.needed,
        "limited": first.what,
    }
    return Wait(request.job_id, position, WaitCause.QUOTA, message, holders, numbers)


def no_room(
    request: GangRequest,
    position: int,
    rooms: Mapping[str | None, Sequence[Room]],
    nodes: Sequence[NodeView],
    grants: Iterable[Grant],
) -> Wait:
    """No node, or no set of nodes, has what it needs free.

    :param rooms: by GPU type, what is free on the nodes that it may use.
    """
    usable = [room for some in rooms.values() for room in some]
    names = {room.node.name for room in usable}
    holders = _holders(grants, on=names)
    scattered = any(_enough_in_sum(request, some) for some in rooms.values())
    cause = WaitCause.FRAGMENTATION if scattered else WaitCause.CAPACITY
    free = {"free_gpus": sum(max(room.gpus, 0) for room in usable) if request.gpus else 0, "nodes": len(usable)}
    message = f"{_needed_words(request)} needed on {_kind_words(request, rooms)}; {_free_words(request, usable)}"
    if scattered:
        message += ", enough in sum but not in pieces that hold whole learners"
    message += _held_by(holders) + "." + _left_out(request, nodes) + _never(request, rooms)
    return Wait(request.job_id, position, cause, message, holders, {**_needs(request), **free})


def _needs(request: GangRequest) -> dict[str, Any]:
    """What the gang asks for at least, in numbers."""
    return {
        "learners": request.learners_min,
        "gpus": request.gpus * request.learners_min,
        "cpu_millis": request.cpu_millis * request.learners_min,
        "memory_bytes": request.memory_bytes * request.learners_min,
    }


def _holders(grants: Iterable[Grant], on: set[str] | None = None) -> tuple[Holder, ...]:
    """Who holds how many GPUs (on these nodes), the largest first."""
    found = []
    for grant in grants:
        here = [place for place in grant.placements if on is None or place.node in on]
        if here:
            found.append(Holder(grant.job_id, grant.tenant, grant.gpus * len(here)))
    return tuple(sorted(found, key=lambda one: (-one.gpus, one.job_id)))


def _held_by(holders: Sequence[Holder]) -> str:
    if not holders:
        return ""
    named = [f"{one.job_id} of {one.tenant} ({one.gpus} GPU)" for one in holders[:_NAMED_HOLDERS]]
    more = f" and {len(holders) - _NAMED_HOLDERS} more" if len(holders) > _NAMED_HOLDERS else ""
    return f"; held by {', '.join(named)}{more}"


def _enough_in_sum(request: GangRequest, rooms: Sequence[Room]) -> bool:
    """Whether the free amounts add up to the gang's needs, although they lie so that it can't be placed."""
    count = request.learners_min
    sums = (
        (sum(max(room.gpus, 0) for room in rooms), request.gpus),
        (sum(max(room.cpu_millis, 0) for room in rooms), request.cpu_millis),
        (sum(max(room.memory_bytes, 0) for room in rooms), request.memory_bytes),
    )
    return bool(rooms) and all(free >= need * count for free, need in sums)


def _needed_words(request: GangRequest) -> str:
    size = f"{request.cpu_millis / 1000:g} CPU, {request.memory_bytes / 2**30:.3g} GiB"
    if request.gpus:
        size = f"{request.gpus} GPU, {size}"
    plural = "s" if request.learners_min != 1 else ""
    verb = "are" if request.learners_min != 1 else "is"
    return f"Room for {request.learners_min} learner{plural} of {size} each {verb}"


def _kind_words(request: GangRequest, rooms: Mapping[str | None, Sequence[Room]]) -> str:
    if not request.gpus:
        return "any node"
    kinds = [kind or "unnamed" for kind in rooms] or [request.gpu_type or "any GPU"]
    return f"{' or '.join(kinds)} nodes"


def _free_words(request: GangRequest, usable: Sequence[Room]) -> str:
    if not usable:
        return "no such node is ready"
    words = []
    for room in usable[:_NAMED_HOLDERS]:
        gpus = f"{max(room.gpus, 0)} of {room.node.gpus} GPU, " if request.gpus else ""
        size = f"{max(room.cpu_millis, 0) / 1000:g} CPU, {max(room.memory_bytes, 0) / 2**30:.3g} GiB"
        words.append(f"{room.node.name} has {gpus}{size} free")
    more = f" and {len(usable) - _NAMED_HOLDERS} more nodes" if len(usable) > _NAMED_HOLDERS else ""
    return ", ".join(words) + more


def _left_out(request: GangRequest, nodes: Sequence[NodeView]) -> str:
    """Which nodes it could use but for their state or its own exclusion."""
    mine = [node for node in nodes if not request.gpus or (node.gpus and request.gpu_type in (None, node.gpu_type))]
    excluded = sorted(node.name for node in mine if node.name in request.excluded_nodes)
    closed = sorted(node.name for node in mine if not node.usable and node.name not in request.excluded_nodes)
    text = f" Excluded for this job: {', '.join(excluded)}." if excluded else ""
    return text + (f" Not ready or closed: {', '.join(closed)}." if closed else "")


def _never(request: GangRequest, rooms: Mapping[str | None, Sequence[Room]]) -> str:
    """That waiting alone can't help, when the nodes that are up would be too small even if they were idle."""
    for some in rooms.values():
        idle = [Room(one.node, one.node.gpus, one.node.cpu_millis, one.node.memory_bytes) for one in some]
        if pack(request, request.learners_min, idle) is not None:
            return ""
    return " Even idle, these nodes could not hold it: it waits for another node, or never starts."
