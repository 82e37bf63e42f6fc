"""Who of the queue starts now: lane by lane, the first in order that fits.

Order: gangs within their tenant's quota before those that must borrow (what is lent is taken back anyway, so it is better not
lent), then priority, then the tenants' shares, then the policy's own rank, arrival, and the larger gang among equals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from heapq import heappop, heappush
from typing import Any

from ffdl_ops.core.scheduling.decisions import Admit
from ffdl_ops.core.scheduling.index import Index
from ffdl_ops.core.scheduling.model import GangRequest, Grant, Level
from ffdl_ops.core.scheduling.queue import Entry, Lane, lane_kind
from ffdl_ops.core.scheduling.rooms import type_of

__all__ = ["Line", "admit", "best_start", "holds_up", "serve", "short_of_everything", "urgency"]

_Key = tuple[Any, ...]
_NOTHING: frozenset[str] = frozenset()


class Line:
    """What gangs of one tenant keep from those behind them, under a policy that lets nobody pass.

    :param kinds: by GPU type, the gang that waits for it.
    :param whole: the gang that waits for something that any other might take.
    """

    __slots__ = ("kinds", "whole")

    def __init__(self) -> None:
        self.kinds: dict[str, GangRequest] = {}
        self.whole: GangRequest | None = None

    def ahead_of(self, request: GangRequest) -> GangRequest | None:
        """Who goes before this gang, if somebody does and leaves it nothing."""
        return self.whole or self.kinds.get(lane_kind(request))

    def keep(self, request: GangRequest, *, everything: bool) -> None:
        """A gang waits: those behind it must leave what it waits for."""
        if everything or not request.gpus or request.gpu_type is None:
            self.whole = self.whole or request
        else:
            self.kinds.setdefault(request.gpu_type, request)


class _Stream:
    """Lanes that are served in one order: a lane alone, or, where nobody passes, all of a tenant."""

    __slots__ = ("cursors",)

    def __init__(self, lanes: list[Lane]) -> None:
        self.cursors = [(lane, 0) for lane in lanes]

    def head(self) -> tuple[Entry, Lane] | None:
        """The next to be tried."""
        self.cursors = [(lane, at) for lane, at in self.cursors if at < len(lane.entries)]
        return min(((lane.entries[at], lane) for lane, at in self.cursors), key=lambda one: one[0], default=None)

    def move(self, lane: Lane, steps: int) -> None:
        """Go on in a lane."""
        self.cursors = [(one, at + steps if one is lane else at) for one, at in self.cursors]


class _Turn:
    """What one tenant wants, the most urgent first.

    The tenant's share, which changes with everything that it is given, orders tenants and not what is within one: so only its
    first has to be looked at again, not each of its lanes.
    """

    __slots__ = ("heap",)

    def __init__(self) -> None:
        self.heap: list[tuple[_Key, int, _Stream]] = []

    def push(self, index: Index, number: int, stream: _Stream) -> None:
        """Put a stream in, or back, unless nothing of it is left."""
        head = stream.head()
        if head is not None:
            entry = head[0]
            heappush(self.heap, ((not _within_quota(index, entry.request), *entry[:_FACTS]), number, stream))

    def head(self, index: Index) -> Entry | None:
        """The next to be tried. What gangs are ordered by only ever grows while others are served."""
        while self.heap:
            key, number, stream = self.heap[0]
            head = stream.head()
            if head is not None and (key[0] or _within_quota(index, head[0].request)):
                return head[0]
            heappop(self.heap)
            self.push(index, number, stream)
        return None


def serve(index: Index, now: datetime) -> Iterator[Admit]:
    """Start what can start, among the lanes that have not been tried since something changed."""
    lines: dict[str, Line] = {}
    heap: list[tuple[_Key, int, _Turn]] = []
    for position, turn in enumerate(_turns(index)):
        _push(index, heap, position, turn)
    while heap:
        key, position, turn = heappop(heap)
        first = turn.head(index)
        if first is None:
            continue
        if urgency(index, first) > key:
            _push(index, heap, position, turn)
            continue
        _, number, stream = heappop(turn.heap)
        found = _serve_first(index, stream, now, lines)
        if found is not None:
            yield found
        if stream.cursors:
            turn.push(index, number, stream)
        _push(index, heap, position, turn)


def _serve_first(index: Index, stream: _Stream, now: datetime, lines: dict[str, Line]) -> Admit | None:
    """Try the next of a stream; one that must wait is passed by, or ends the stream."""
    head = stream.head()
    if head is None:
        return None
    entry, lane = head
    found = _start(index, lane, entry.request, now, lines)
    if found is not None:
        return found
    if entry.job_id in index.reservations:
        stream.move(lane, 1)  # it has its own way to start; those behind it may take what is kept for nobody
    elif index.policy.strict:
        stream.move(lane, _pass_by(index, entry.request, lines))
    else:
        stream.cursors = []
    return None


def _turns(index: Index) -> Iterable[_Turn]:
    turns: dict[str, _Turn] = {}
    for number, stream in enumerate(_streams(index)):
        tenant = stream.cursors[0][0].tenant
        turns.setdefault(tenant, _Turn()).push(index, number, stream)
    return turns.values()


def _streams(index: Index) -> list[_Stream]:
    full: dict[_Key, bool] = {}
    lanes = [lane for lane in index.untried.values() if lane.entries and index.queue.lanes.get(lane.key) is lane]
    index.untried.clear()
    if not index.policy.strict:
        return [_Stream([lane]) for lane in lanes if not _hopeless(index, lane, full)]
    tenants: dict[str, list[Lane]] = {}
    for lane in lanes:
        tenants.setdefault(lane.tenant, []).append(lane)
    return [_Stream(mine) for mine in tenants.values()]


def _push(index: Index, heap: list[tuple[_Key, int, _Turn]], position: int, turn: _Turn) -> None:
    first = turn.head(index)
    if first is not None:
        heappush(heap, (urgency(index, first), position, turn))


def urgency(index: Index, entry: Entry) -> _Key:
    """What gangs of all tenants are ordered by; it only ever grows while others are served."""
    request = entry.request
    order = (not _within_quota(index, request), *entry.order)
    share = index.share(request.tenant) if index.policy.shares else 0.0
    return (*order, share, entry.rank, entry.arrival, entry.size, entry.job_id)


def best_start(
    index: Index, request: GangRequest, level: Level, *, borrow: bool = True, line: Line | None = None
) -> Admit | None:
    """How the gang would start now: within its quota if it can, in as many learners as fit, on the fewest nodes."""
    best: tuple[_Key, Admit] | None = None
    for kind in index.rooms.kinds(request):
        if line is not None and kind in line.kinds:
            continue
        most = _most_learners(index, request, kind, borrow=borrow)
        if most < request.learners_min:
            continue
        skip = _kept_nodes(index, line) if line is not None and kind is None and line.kinds else _NOTHING
        layout = index.layout(request, kind, most, level, skip)
        if layout is None:
            continue
        before = index.accounts.borrowed(request.tenant, kind) if kind is not None else 0
        beyond = 0
        if kind is not None:
            held = index.accounts.of(request.tenant).gpus.get(kind, 0) + request.gpus * len(layout)
            beyond = max(held - index.accounts.quota(request.tenant, kind), 0) - before
        key = (beyond > 0, -len(layout), len({place.node for place in layout}), kind or "")
        if best is None or key < best[0]:
            best = (key, Admit(request.job_id, layout, kind, beyond))
    return None if best is None else best[1]


def admit(index: Index, request: GangRequest, start: Admit, now: datetime) -> None:
    """Count a gang as started."""
    index.granted(
        Grant(
            job_id=request.job_id,
            tenant=request.tenant,
            epoch=index.next_epoch(),
            placements=start.placements,
            gpus=request.gpus,
            cpu_millis=request.cpu_millis,
            memory_bytes=request.memory_bytes,
            gpu_type=start.gpu_type,
            priority=request.priority,
            user=request.user,
            granted_at=now,
            saved_at=now,
            expected_end=request.expected_end(now),
            served_gpu_s=request.served_gpu_s,
            aged=index.policy.ages(request, now),
        )
    )


def _start(index: Index, lane: Lane, request: GangRequest, now: datetime, lines: dict[str, Line]) -> Admit | None:
    if request.tenant not in index.tenants or request.job_id in index.reservations:
        return None
    line = lines.get(request.tenant)
    if line is not None and line.ahead_of(request) is not None:
        return None
    level = index.policy.level_of(request, now) if index.policy.strict else lane.level
    start = best_start(index, request, level, line=line)
    if start is not None:
        admit(index, request, start, now)
    return start


def _pass_by(index: Index, request: GangRequest, lines: dict[str, Line]) -> int:
    """Under a policy that lets nobody pass: keep what the gang waits for, unless it could not start on an idle cluster.

    :returns: how many places its lane moves on: 1 if the next in it may be tried, else the lane is done.
    """
    line = lines.setdefault(request.tenant, Line())
    if line.ahead_of(request) is not None:
        return _DONE
    if holds_up(index, request):
        line.keep(request, everything=short_of_everything(index, request))
        return _DONE
    return 1


def holds_up(index: Index, request: GangRequest) -> bool:
    """Whether others must wait for this gang: not if it could never start, or if only its own user's limit stops it."""
    if request.tenant not in index.tenants:
        return False
    kinds = index.idle.kinds(request)
    shortages = [index.accounts.shortage(request, kind) for kind in kinds]
    if any(one is not None and one.user for one in shortages):
        return False
    return any(
        index.possible(request, kind) and not (short is not None and short.never)
        for kind, short in zip(kinds, shortages, strict=True)
    )


def short_of_everything(index: Index, request: GangRequest) -> bool:
    """Whether what it lacks is something that every gang of its tenant takes, not only GPUs of a type."""
    shortages = [index.accounts.shortage(request, kind) for kind in index.idle.kinds(request)]
    return any(one is not None and one.gpu_type is None for one in shortages)


def _hopeless(index: Index, lane: Lane, full: dict[_Key, bool]) -> bool:
    """Whether the nodes have no room for any gang of the lane; asked once for all tenants' lanes that are alike."""
    if index.policy.strict:
        return False
    key = lane.key[1:-1]
    known = full.get(key)
    if known is None:
        request = lane.entries[0].request
        known = full[key] = all(
            index.layout(request, kind, request.learners_min, lane.level) is None for kind in index.rooms.kinds(request)
        )
    return known


def _within_quota(index: Index, request: GangRequest) -> bool:
    return any(index.accounts.within_quota(request, request.learners_min, kind) for kind in index.rooms.kinds(request))


def _most_learners(index: Index, request: GangRequest, kind: str | None, *, borrow: bool) -> int:
    """How many learners the limits allow; an elastic gang borrows for more than its fewest only what nobody else waits for."""
    accounts = index.accounts
    most = accounts.most_learners(request, kind, borrow=borrow)
    if request.learners_max == request.learners_min or most <= request.learners_min or not borrow:
        return most
    own = accounts.most_learners(request, kind, borrow=False)
    if own < most and index.queue.others_wait(request.tenant, kind):
        return max(own, request.learners_min)
    return most


def _kept_nodes(index: Index, line: Line) -> frozenset[str]:
    """The nodes of the GPU types that gangs in front wait for."""
    return frozenset(name for name, node in index.nodes.items() if type_of(node) in line.kinds)


_DONE = 1 << 30
_FACTS = 5
"""So many fields of an entry order it; the last is the gang itself."""
