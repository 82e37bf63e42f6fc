"""What is free on the cluster's nodes, kept in order so that the best fit is found without looking at every node.

A :class:`Pool` holds the nodes that are alike for a gang (one GPU type, perhaps one rack), in buckets by their free GPUs, each
bucket sorted by free CPU and memory. :class:`Rooms` keeps every node in its pools.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from ffdl_ops.core.scheduling.model import GangRequest, NodeView, Placement

__all__ = ["Need", "Pool", "Room", "Rooms", "Size", "type_of"]

_MANY = 1 << 30


class Need(NamedTuple):
    """What one learner takes."""

    gpus: int
    cpu_millis: int
    memory_bytes: int

    @classmethod
    def of(cls, request: GangRequest) -> Need:
        """What one learner of this gang takes."""
        return cls(request.gpus, request.cpu_millis, request.memory_bytes)


class Room:
    """What is free on one node, below zero where more is kept or held than it has."""

    __slots__ = ("cpu_millis", "gpus", "kind", "memory_bytes", "node", "rack")

    def __init__(self, node: NodeView) -> None:
        self.node = node
        self.kind = type_of(node)
        self.rack = node.rack
        self.gpus = node.gpus
        self.cpu_millis = node.cpu_millis
        self.memory_bytes = node.memory_bytes

    def give(self, need: Need, count: int) -> None:
        """Let so many learners have what they take."""
        self.gpus -= need.gpus * count
        self.cpu_millis -= need.cpu_millis * count
        self.memory_bytes -= need.memory_bytes * count

    def slots(self, need: Need) -> int:
        """How many such learners fit here."""
        return _slots(self.gpus, self.cpu_millis, self.memory_bytes, need)


class Size(NamedTuple):
    """What a node of a kind can give in all; most clusters have few sizes."""

    kind: str | None
    gpus: int
    cpu_millis: int
    memory_bytes: int

    @classmethod
    def of(cls, node: NodeView) -> Size:
        """The size of a node."""
        return cls(type_of(node), node.gpus, node.cpu_millis, node.memory_bytes)

    def slots(self, need: Need) -> int:
        """How many such learners an idle node of this size holds."""
        return _slots(self.gpus, self.cpu_millis, self.memory_bytes, need)


class Pool:
    """Nodes in buckets: by free GPUs (or by whether they have any at all, for gangs that take none)."""

    __slots__ = ("buckets",)

    def __init__(self) -> None:
        self.buckets: dict[int, list[tuple[int, int, str]]] = {}

    def add(self, bucket: int, room: Room) -> None:
        """Put a node in."""
        insort(self.buckets.setdefault(bucket, []), (room.cpu_millis, room.memory_bytes, room.node.name))

    def remove(self, bucket: int, room: Room) -> None:
        """Take a node out; its room must not have changed since it was put in."""
        entries = self.buckets[bucket]
        del entries[bisect_left(entries, (room.cpu_millis, room.memory_bytes, room.node.name))]
        if not entries:
            del self.buckets[bucket]

    def tightest(self, need: Need, count: int, skip: AbstractSet[str]) -> str | None:
        """The node on which so many learners fit and which they fill best."""
        gpus, cpus, memory = need.gpus * count, need.cpu_millis * count, need.memory_bytes * count
        for bucket in sorted(self.buckets):
            if bucket < gpus:
                continue
            entries = self.buckets[bucket]
            for index in range(bisect_left(entries, (cpus,)), len(entries)):
                entry = entries[index]
                if entry[1] >= memory and entry[2] not in skip:
                    return entry[2]
        return None

    def with_slots(self, need: Need, skip: AbstractSet[str]) -> Iterator[tuple[int, int, str]]:
        """Nodes with room for a learner, those with the most free GPUs first: (slots, slots by GPUs alone, name).

        For a gang that takes no GPU, those with the fewest GPUs first.
        """
        for bucket in sorted(self.buckets, reverse=need.gpus > 0):
            if bucket < need.gpus:
                return
            most = bucket // need.gpus if need.gpus else _MANY
            for cpus, memory, name in self.buckets[bucket]:
                slots = _slots(bucket if need.gpus else 0, cpus, memory, need)
                if slots > 0 and name not in skip:
                    yield slots, most, name

    def room_for(self, need: Need, limit: int, skip: AbstractSet[str]) -> int:
        """How many learners fit in all, counted up to a limit."""
        total = 0
        for slots, _, _ in self.with_slots(need, skip):
            total += slots
            if total >= limit:
                return limit
        return total


class Rooms:
    """Free room of every usable node. What is held on a node that is gone or closed takes nothing elsewhere."""

    def __init__(self, nodes: Iterable[NodeView], held: Iterable[tuple[Iterable[Placement], Need]] = ()) -> None:
        self.rooms: dict[str, Room] = {}
        self.sizes: Counter[Size] = Counter()
        self._everything = Pool()
        self._kinds: dict[str, Pool] = {}
        self._racks: dict[str, dict[str | None, Pool]] = {}
        self._racked = 0
        for node in nodes:
            self.rooms[node.name] = Room(node)
            self.sizes[Size.of(node)] += 1
            self._racked += bool(node.rack)
        for placements, need in held:
            for _, name in placements:
                if name in self.rooms:
                    self.rooms[name].give(need, 1)
        for room in self.rooms.values():
            self._insert(room)

    def add(self, node: NodeView) -> None:
        """A node that can be used, with nothing held on it."""
        if node.rack:
            self._racked += 1
            if self._racked == 1:
                for other in self.rooms.values():
                    self._insert_in_rack(other)
        room = self.rooms[node.name] = Room(node)
        self.sizes[Size.of(node)] += 1
        self._insert(room)

    def remove(self, name: str) -> None:
        """A node that can't be used any more."""
        room = self.rooms.pop(name)
        size = Size.of(room.node)
        self.sizes[size] -= 1
        if not self.sizes[size]:
            del self.sizes[size]
        self._withdraw(room)
        if room.rack:
            self._racked -= 1
            if not self._racked:
                self._racks.clear()

    def take(self, placements: Iterable[Placement], need: Need, sign: int = 1) -> None:
        """Count learners as placed (`sign` 1) or as gone (-1)."""
        counts: dict[str, int] = {}
        for _, name in placements:
            counts[name] = counts.get(name, 0) + sign
        for name, count in counts.items():
            room = self.rooms.get(name)
            if room is not None:
                self._withdraw(room)
                room.give(need, count)
                self._insert(room)

    def kinds(self, request: GangRequest) -> Sequence[str | None]:
        """The GPU types that a gang may run on, of those that there are; ``[None]`` when it takes no GPU."""
        if not request.gpus:
            return [None]
        if request.gpu_type is not None:
            return [request.gpu_type] if self.pool(request.gpu_type).buckets else []
        return self.kinds_there()

    def kinds_there(self) -> list[str]:
        """The GPU types that there are."""
        return sorted(kind for kind, pool in self._kinds.items() if pool.buckets)

    def pool(self, kind: str | None) -> Pool:
        """All nodes for gangs on this GPU type (``None``: gangs that take no GPU)."""
        return self._everything if kind is None else self._kinds.get(kind, _EMPTY)

    def racks(self, kind: str | None) -> list[tuple[str, Pool]]:
        """The same by rack, in order of the racks' names; all nodes together where no node says its rack."""
        if not self._racks:
            return [("", self.pool(kind))]
        return [(rack, kinds[kind]) for rack, kinds in sorted(self._racks.items()) if kind in kinds]

    def _insert(self, room: Room) -> None:
        if room.kind is not None:
            self._pool_of(self._kinds, room.kind).add(room.gpus, room)
        # For gangs that take no GPU: nodes without GPUs first, then those with few, however many are free.
        self._everything.add(room.node.gpus, room)
        if self._racked:
            self._insert_in_rack(room)

    def _insert_in_rack(self, room: Room) -> None:
        rack = self._racks.setdefault(room.rack, {})
        if room.kind is not None:
            self._pool_of(rack, room.kind).add(room.gpus, room)
        self._pool_of(rack, None).add(room.node.gpus, room)

    def _withdraw(self, room: Room) -> None:
        if room.kind is not None:
            self._kinds[room.kind].remove(room.gpus, room)
        self._everything.remove(room.node.gpus, room)
        if self._racked:
            rack = self._racks[room.rack]
            if room.kind is not None:
                rack[room.kind].remove(room.gpus, room)
            rack[None].remove(room.node.gpus, room)

    @staticmethod
    def _pool_of(pools: dict[Any, Pool], kind: str | None) -> Pool:
        pool = pools.get(kind)
        if pool is None:
            pool = pools[kind] = Pool()
        return pool


def type_of(node: NodeView) -> str | None:
    """The type of a node's GPUs, "" when they have no name; ``None`` when it has no GPU."""
    return (node.gpu_type or "") if node.gpus else None


def _slots(gpus: int, cpu_millis: int, memory_bytes: int, need: Need) -> int:
    slots = gpus // need.gpus if need.gpus else _MANY
    if need.cpu_millis:
        slots = min(slots, cpu_millis // need.cpu_millis)
    if need.memory_bytes:
        slots = min(slots, memory_bytes // need.memory_bytes)
    return max(slots, 0)


_EMPTY = Pool()
