"""Why each gang waits, who holds what it needs, and how soon it may start: facts, that `reasons` puts into words.

Gangs of one lane wait for the same, so what is found for the first of a lane holds for those behind it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from ffdl_ops.core.scheduling.decisions import Admit, Holder, Wait, WaitCause
from ffdl_ops.core.scheduling.index import Index
from ffdl_ops.core.scheduling.model import GangRequest, Grant, Level
from ffdl_ops.core.scheduling.queue import Lane
from ffdl_ops.core.scheduling.quota import Shortage
from ffdl_ops.core.scheduling.serving import Line, best_start, holds_up, short_of_everything

__all__ = ["HOLDERS_NAMED", "waits"]

HOLDERS_NAMED = 20
"""So many holders a wait names at most, the largest."""


@dataclass(frozen=True)
class _Why:
    """What the gangs of a lane have in common."""

    cause: WaitCause
    holders: tuple[Holder, ...] = ()
    earliest: datetime | None = None
    numbers: Mapping[str, Any] | None = None


def waits(index: Index, now: datetime) -> Iterator[Wait]:
    """Why everything waits that still does after a pass, in the order of the queue."""
    return _Explanation(index, now).waits()


class _Part(NamedTuple):
    """Nodes that are alike for a gang; `free` of them, in all: GPUs, CPU in thousandths of a core, bytes of memory."""

    nodes: frozenset[str]
    free: tuple[int, int, int]


class _Explanation:
    def __init__(self, index: Index, now: datetime) -> None:
        self.index = index
        self.now = now
        self._known: dict[int, _Why] = {}
        self._lines: dict[str, Line] = {}
        self._positions: dict[str, int] = {}
        self._ordered: dict[Any, list[tuple[datetime | None, int]]] = {}
        self._holders: dict[Any, tuple[Holder, ...]] = {}
        self._parts: dict[Any, _Part] = {}
        self._lifted = ""
        self._unkept: dict[int, Admit | None] = {}

    def waits(self) -> Iterator[Wait]:
        if not self.index.policy.strict:
            self._unkept = self._starts_without_reservations()
        for request in self.index.queue.in_order():
            position = self._positions.get(request.tenant, 0) + 1
            self._positions[request.tenant] = position
            why = self._strict(request) if self.index.policy.strict else self._of_lane(request)
            yield Wait(request.job_id, position, why.cause, why.holders, why.earliest, why.numbers or {})

    def _of_lane(self, request: GangRequest) -> _Why:
        lane = self.index.queue.lane_of(request.job_id)
        why = self._known.get(id(lane))
        if why is None or request.job_id in self.index.reservations:
            why = self._why(request, lane.level, None, lane)
            if request.job_id not in self.index.reservations:
                self._known[id(lane)] = why
        return why

    def _starts_without_reservations(self) -> dict[int, Admit | None]:
        """How the first of each lane would start if nothing were kept for anybody; all lanes at once, since lifting costs."""
        index = self.index
        found: dict[int, Admit | None] = {}
        kept = index.reservations
        if kept and index.closed is None:
            with index.without(*kept.values()):
                for lane in index.queue.lanes.values():
                    first = next((one.request for one in lane.entries if one.job_id not in kept), None)
                    if first is not None and first.tenant in index.tenants:
                        found[id(lane)] = best_start(index, first, lane.level)
        return found

    def _strict(self, request: GangRequest) -> _Why:
        """In strict order: the first of a line has its own reason, those behind it wait for the first."""
        line = self._lines.setdefault(request.tenant, Line())
        ahead = line.ahead_of(request)
        if ahead is not None:
            return self._behind(request, ahead)
        level = self.index.policy.level_of(request, self.now)
        if line.kinds and best_start(self.index, request, level) is not None:
            return self._behind(request, next(iter(line.kinds.values())))
        why = self._why(request, level, line)
        if holds_up(self.index, request):
            line.keep(request, everything=short_of_everything(self.index, request))
        return why

    def _behind(self, request: GangRequest, ahead: GangRequest) -> _Why:
        holder = Holder(ahead.job_id, ahead.tenant, 0, ahead.user)
        return _Why(WaitCause.ORDER, (holder,), None, _needs(request))

    def _why(self, request: GangRequest, level: Level, line: Line | None, lane: Lane | None = None) -> _Why:
        index = self.index
        if index.closed is not None:
            return _Why(WaitCause.CLOSED, (), None, {**_needs(request), "closed": index.closed})
        if request.tenant not in index.tenants:
            return _Why(WaitCause.QUOTA, (), None, {**_needs(request), "no_tenant": True})
        mine = index.reservations.get(request.job_id)
        if mine is not None:
            self._lifted = request.job_id
            try:
                with index.without(mine):
                    return self._plainly(request, index.policy.loosest(request), line)
            finally:
                self._lifted = ""
        kept = list(index.reservations.values())
        if kept:
            if lane is not None:
                start = self._unkept.get(id(lane))
            else:
                with index.without(*kept):
                    start = best_start(index, request, level, line=line)
            if start is not None:
                return self._reserved(request, {place.node for place in start.placements})
        return self._plainly(request, level, line)

    def _reserved(self, request: GangRequest, nodes: set[str]) -> _Why:
        """What it would take is kept for others: those whose places are on these nodes, or in its own tenant's quota."""
        kept = [
            one
            for one in self.index.reservations.values()
            if one.tenant == request.tenant or any(place.node in nodes for place in one.placements)
        ] or list(self.index.reservations.values())
        holders = tuple(
            sorted(Holder(one.job_id, one.tenant, one.gpus * len(one.placements), one.user) for one in kept)
        )
        return _Why(WaitCause.RESERVATION, holders[:HOLDERS_NAMED], None, _needs(request))

    def _plainly(self, request: GangRequest, level: Level, line: Line | None) -> _Why:
        """By what is held, whatever is kept for whom."""
        kinds = [kind for kind in self.index.idle.kinds(request) if line is None or kind not in line.kinds]
        shortages = {kind: self.index.accounts.shortage(request, kind) for kind in kinds}
        short = [one for one in shortages.values() if one is not None]
        if short and len(short) == len(kinds):
            return self._short(request, short)
        return self._no_room(request, [kind for kind, one in shortages.items() if one is None], level)

    def _short(self, request: GangRequest, short: Sequence[Shortage]) -> _Why:
        first = min(short, key=lambda one: (one.never, one.cause is WaitCause.QUOTA))
        numbers = {
            **_needs(request),
            "limited": first.what,
            "limit": first.limit,
            "held": first.held,
            "needed": first.needed,
        }
        if first.user:
            numbers["user"] = first.user
        if all(one.never for one in short):
            numbers["never"] = True
        lenders = first.cause is WaitCause.FAIR_SHARE
        cohort = self.index.tenants[request.tenant].cohort
        whose = ("cohort", cohort) if lenders else ("tenant", request.tenant)
        scope = (*whose, first.gpu_type, first.user)

        def grants() -> Iterator[Grant]:
            return self._accountable(request.tenant, first, lenders=lenders)

        earliest = None
        if first.gpu_type is not None and not first.never:
            missing = first.held + first.needed - first.limit
            earliest = self._when_free(scope, grants, int(missing))
        return _Why(first.cause, self._named(scope, grants), earliest, numbers)

    def _accountable(self, tenant: str, short: Shortage, *, lenders: bool) -> Iterator[Grant]:
        """Whose grants count against the limit: its own tenant's (or user's), or those of everybody in its cohort."""
        index = self.index
        cohort = index.tenants[tenant].cohort
        names = [one.name for one in index.tenants.values() if one.cohort == cohort] if lenders else [tenant]
        for grant in (grant for name in names for grant in index.grants_of(name)):
            if short.user and grant.user != short.user:
                continue
            if short.gpu_type is None or (grant.gpus and (grant.gpu_type or "") == short.gpu_type):
                yield grant

    def _no_room(self, request: GangRequest, kinds: Sequence[str | None], level: Level) -> _Why:
        index = self.index
        free, scattered, never = 0, False, True
        parts = [self._part(kind, request.excluded_nodes) for kind in kinds]
        for kind, part in zip(kinds, parts, strict=True):
            needs = (request.gpus, request.cpu_millis, request.memory_bytes)
            free += part.free[0] if request.gpus else 0
            enough = all(have >= need * request.learners_min for have, need in zip(part.free, needs, strict=True))
            scattered = scattered or (bool(part.nodes) and enough)
            never = never and not index.possible(request, kind)
        closed = [
            node.name
            for node in index.nodes.values()
            if not node.usable and (not request.gpus or (node.gpus and request.gpu_type in (None, node.gpu_type)))
        ]
        numbers = {
            **_needs(request),
            "kinds": [kind or ("any" if kind is None else "unnamed") for kind in kinds or [request.gpu_type]],
            "nodes": sum(len(part.nodes) for part in parts),
            "free_gpus": free,
            "level": level.name.lower(),
        }
        if never:
            numbers["never"] = True
        if closed:
            numbers["closed_nodes"] = sorted(closed)[:HOLDERS_NAMED]
        if request.excluded_nodes:
            numbers["excluded_nodes"] = sorted(request.excluded_nodes)[:HOLDERS_NAMED]
        scope = ("nodes", tuple(kinds), request.excluded_nodes)

        def grants() -> Iterator[Grant]:
            return self._on(frozenset[str]().union(*(part.nodes for part in parts)))

        missing = request.gpus * request.learners_min - free
        earliest = None if never or not request.gpus else self._when_free(scope, grants, max(missing, 1))
        cause = WaitCause.FRAGMENTATION if scattered else WaitCause.CAPACITY
        return _Why(cause, self._named(scope, grants), earliest, numbers)

    def _part(self, kind: str | None, excluded: frozenset[str]) -> _Part:
        """The usable nodes with GPUs of a type."""
        known = self._parts.get((kind, excluded, self._lifted))
        if known is None:
            rooms = [
                room
                for room in self.index.rooms.rooms.values()
                if (kind is None or room.kind == kind) and room.node.name not in excluded
            ]
            free = (
                sum(max(room.gpus, 0) for room in rooms),
                sum(max(room.cpu_millis, 0) for room in rooms),
                sum(max(room.memory_bytes, 0) for room in rooms),
            )
            known = self._parts[kind, excluded, self._lifted] = _Part(frozenset(room.node.name for room in rooms), free)
        return known

    def _on(self, nodes: frozenset[str]) -> Iterator[Grant]:
        """Who holds something of these nodes."""
        return (one for one in self.index.grants.values() if any(place.node in nodes for place in one.placements))

    def _named(self, scope: Any, grants: Callable[[], Iterable[Grant]]) -> tuple[Holder, ...]:
        """The largest holders."""
        known = self._holders.get(scope)
        if known is None:
            largest = sorted(grants(), key=lambda one: (-one.gpus_total, one.job_id))[:HOLDERS_NAMED]
            known = self._holders[scope] = tuple(
                Holder(one.job_id, one.tenant, one.gpus_total, one.user, one.expected_end) for one in largest
            )
        return known

    def _when_free(self, scope: Any, grants: Callable[[], Iterable[Grant]], missing: int) -> datetime | None:
        """When so many GPUs have become free, if everybody ends as expected and nobody else starts; a lower bound."""
        ends = self._ordered.get(scope)
        if ends is None:
            known = sorted((one.expected_end, one.gpus_total) for one in grants() if one.expected_end is not None)
            ends = self._ordered[scope] = [(end, gpus) for end, gpus in known]
        for end, gpus in ends:
            missing -= gpus
            if missing <= 0:
                return max(end, self.now) if end is not None else None
        return None


def _needs(request: GangRequest) -> dict[str, Any]:
    """What the gang asks for at least."""
    return {
        "tenant": request.tenant,
        "learners": request.learners_min,
        "gpus_each": request.gpus,
        "cpu_millis_each": request.cpu_millis,
        "memory_bytes_each": request.memory_bytes,
    }
