"""The queue in lanes: gangs that are alike, in the order in which they are served.

All gangs of one lane are of one tenant and ask for the same, so if the first can't start now, none of them can. Where the policy
lets nobody pass a waiting gang, a lane is all that a tenant wants of one GPU type.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterator
from datetime import datetime
from heapq import heappop, heappush
from typing import Any, NamedTuple

from ffdl_ops.core.scheduling.model import GangRequest, Level
from ffdl_ops.core.scheduling.policy import Policy

__all__ = ["ANY", "Entry", "Lane", "Queue", "lane_kind"]

ANY = "*"
"""Stands for every GPU type, where a gang takes any."""

_LaneKey = tuple[Any, ...]


class Entry(NamedTuple):
    """A waiting gang in its lane: entries sort by the order in which they are served.

    :param order: minus its priority, then whether it has *not* aged.
    """

    order: tuple[int, bool]
    rank: float
    arrival: datetime
    size: int
    job_id: str
    request: GangRequest


class Lane:
    """One tenant's gangs that ask for the same; `level` is how close together their learners must be."""

    __slots__ = ("entries", "key", "level", "tenant")

    def __init__(self, tenant: str, key: _LaneKey, level: Level) -> None:
        self.tenant = tenant
        self.key = key
        self.level = level
        self.entries: list[Entry] = []


class Queue:
    """All that waits.

    :param policy: decides the order, and how finely lanes tell gangs apart.
    :param by_user: tenants whose users have limits of their own: what one of them may take says nothing of another.
    """

    def __init__(self, policy: Policy, by_user: Collection[str] = ()) -> None:
        self.policy = policy
        self.by_user = by_user
        self.lanes: dict[_LaneKey, Lane] = {}
        self.requests: dict[str, GangRequest] = {}
        self.due: set[str] = set()
        self.priorities: Counter[int] = Counter()
        self.waiting: dict[str, dict[str, int]] = {}
        self._places: dict[str, tuple[_LaneKey, Entry]] = {}
        self._timers: list[tuple[datetime, str]] = []

    def __len__(self) -> int:
        return len(self.requests)

    def add(self, request: GangRequest, now: datetime) -> Lane:
        """Put a gang in; one that is in already is replaced."""
        if request.job_id in self.requests:
            self.remove(request.job_id)
        self.requests[request.job_id] = request
        self.priorities[request.priority] += 1
        kinds = self.waiting.setdefault(request.tenant, {})
        kind = lane_kind(request)
        kinds[kind] = kinds.get(kind, 0) + 1
        return self._place(request, now)

    def remove(self, job_id: str) -> GangRequest | None:
        """Take a gang out, if it is in."""
        request = self.requests.pop(job_id, None)
        if request is not None:
            self._displace(job_id)
            self.waiting[request.tenant][lane_kind(request)] -= 1
            self.due.discard(job_id)
            self.priorities[request.priority] -= 1
        return request

    def lane_of(self, job_id: str) -> Lane:
        """The lane that a waiting gang is in."""
        return self.lanes[self._places[job_id][0]]

    def advance(self, now: datetime) -> list[Lane]:
        """Bring gangs that are treated differently by now into their new lanes.

        :returns: the lanes that they came into.
        """
        changed = []
        while self._timers and self._timers[0][0] <= now:
            _, job_id = heappop(self._timers)
            request = self.requests.get(job_id)
            if request is not None:
                self._displace(job_id)
                changed.append(self._place(request, now))
        return changed

    def next_change(self) -> datetime | None:
        """When a gang is next treated differently."""
        while self._timers and self._timers[0][1] not in self.requests:
            heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def others_wait(self, tenant: str, kind: str | None) -> bool:
        """Whether another tenant waits for GPUs of this type."""
        return any(
            name != tenant and (kinds.get(kind or "", 0) or kinds.get(ANY, 0)) for name, kinds in self.waiting.items()
        )

    def in_order(self) -> Iterator[GangRequest]:
        """Everything that waits, as far as its own facts order it: priority, age, rank, arrival, size."""
        return (entry.request for entry in sorted(entry for _, entry in self._places.values()))

    def _place(self, request: GangRequest, now: datetime) -> Lane:
        policy = self.policy
        aged, due, level, until = policy.treatment(request, now)
        key = self._lane_key(request, level, aged)
        lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = Lane(request.tenant, key, level)
        rank = 0.0 if aged else policy.rank(request)
        size = -request.gpus * request.learners_min
        order = (-request.priority, not aged)
        entry = Entry(order, rank, request.submitted_at, size, request.job_id, request)
        entries = lane.entries
        if not entries or entries[-1] < entry:
            entries.append(entry)
        else:
            insort(entries, entry)
        self._places[request.job_id] = (key, entry)
        if due:
            self.due.add(request.job_id)
        if until is not None:
            heappush(self._timers, (until, request.job_id))
        return lane

    def _displace(self, job_id: str) -> None:
        key, entry = self._places.pop(job_id)
        lane = self.lanes[key]
        index = bisect_left(lane.entries, entry)
        del lane.entries[index]
        if not lane.entries:
            del self.lanes[key]

    def _lane_key(self, request: GangRequest, level: Level, aged: bool) -> _LaneKey:
        kind = lane_kind(request)
        if self.policy.strict:
            return (request.tenant, kind)
        return (
            request.tenant,
            kind,
            request.gpus,
            request.cpu_millis,
            request.memory_bytes,
            request.learners_min,
            request.learners_max,
            request.excluded_nodes,
            request.strategy,
            request.relax_s,
            level,
            aged,
            request.user if request.tenant in self.by_user else "",
        )


def lane_kind(request: GangRequest) -> str:
    """The GPU type that a gang waits for; :data:`ANY` for any, "-" for none."""
    if not request.gpus:
        return "-"
    return ANY if request.gpu_type is None else request.gpu_type
