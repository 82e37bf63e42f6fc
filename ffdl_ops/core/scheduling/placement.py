"""Where a gang's learners go: all of them, or none.

Levels, from the closest: at `NODE` a gang lies on one node, or, if it is larger than a node, on whole nodes and one more for
the remainder (the placement that the study of the Philly cluster and its replays call consolidated); at `RACK` on any nodes of
one rack; at `CLUSTER` anywhere.

Strategies: `pack` takes the fewest nodes and of those the ones that it fills best; `spread` as many as there are; `bsa` draws
some layouts at random, biased towards nodes that hold many learners, and keeps the best one (after Tantawi's biased sampling,
which FfDL used): its cost does not grow with the cluster. If it draws none that is whole, it packs.
"""

from __future__ import annotations

import random
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from ffdl_ops.core.scheduling.model import Level, Placement, Strategy
from ffdl_ops.core.scheduling.rooms import Need, Pool, Rooms

__all__ = ["Ask", "place"]

_DRAWS = 8
_CANDIDATES = 64

_Layout = list[tuple[str, int]]


@dataclass(frozen=True)
class Ask:
    """What is to be placed.

    :param least: learners without which there is no use; ``most``: what it would like, as far as its quota goes.
    :param kind: the GPU type to take (``None``: no GPU).
    :param skip: nodes that it must not be put on.
    :param seed: what random draws depend on, so that the same question has the same answer.
    """

    need: Need
    least: int
    most: int
    kind: str | None
    level: Level
    strategy: Strategy
    skip: AbstractSet[str] = frozenset()
    seed: str = ""


def place(rooms: Rooms, ask: Ask, whole: int) -> tuple[Placement, ...] | None:
    """Place as many learners as fit, from `most` down to `least`.

    :param whole: learners that an idle node of this kind holds, at most.
    :returns: a node for each rank, those of one node together; ``None`` when not even the fewest fit.
    """
    if whole <= 0:
        return None
    if ask.level is Level.NODE:
        layout = _consolidated(rooms.pool(ask.kind), ask, whole)
    elif ask.level is Level.RACK:
        layout = _in_one_rack(rooms, ask)
    else:
        layout = _anywhere(rooms.pool(ask.kind), ask)
    if layout is None:
        return None
    nodes = [node for node, count in layout for _ in range(count)]
    return tuple(Placement(rank, node) for rank, node in enumerate(nodes))


def _consolidated(pool: Pool, ask: Ask, whole: int) -> _Layout | None:
    """One node, or whole nodes and one for the remainder."""
    for count in range(ask.most, ask.least - 1, -1):
        layout = _consolidate(pool, ask, count, whole)
        if layout is not None:
            return layout
    return None


def _consolidate(pool: Pool, ask: Ask, count: int, whole: int) -> _Layout | None:
    layout: _Layout = []
    taken = set(ask.skip)
    for share in [whole] * (count // whole) + [count % whole] * (count % whole > 0):
        node = pool.tightest(ask.need, share, taken)
        if node is None:
            return None
        layout.append((node, share))
        taken.add(node)
    return layout


def _in_one_rack(rooms: Rooms, ask: Ask) -> _Layout | None:
    """The rack that holds the most of it; among those the one that it leaves the least room in."""
    best: tuple[int, int, str] | None = None
    pools = dict(rooms.racks(ask.kind))
    for rack, pool in pools.items():
        room = pool.room_for(ask.need, _UNBOUNDED, ask.skip)
        if room >= ask.least:
            candidate = (-min(room, ask.most), room, rack)
            best = candidate if best is None else min(best, candidate)
    return None if best is None else _anywhere(pools[best[2]], ask)


def _anywhere(pool: Pool, ask: Ask) -> _Layout | None:
    if ask.most == 1 and ask.strategy is not Strategy.SPREAD:
        node = pool.tightest(ask.need, 1, ask.skip)
        return None if node is None else [(node, 1)]
    if ask.strategy is Strategy.BSA:
        drawn = _draw(pool, ask)
        if drawn is not None:
            return drawn
    return _spread(pool, ask) if ask.strategy is Strategy.SPREAD else _pack(pool, ask)


def _pack(pool: Pool, ask: Ask) -> _Layout | None:
    """The nodes with the most room first, and at last the one that the rest fills best."""
    layout: _Layout = []
    thin: list[tuple[int, str]] = []
    taken = set(ask.skip)
    left = ask.most
    for slots, most, node in pool.with_slots(ask.need, ask.skip):
        if slots < most and ask.need.gpus:
            thin.append((-slots, node))  # short of CPU or memory: it may hold fewer than a node that comes later
            continue
        if slots >= left:
            break
        layout.append((node, slots))
        taken.add(node)
        left -= slots
    heapify(thin)
    while left:
        last = pool.tightest(ask.need, left, taken)
        if last is not None:
            return [*layout, (last, left)]
        if not thin:
            break
        slots, node = heappop(thin)
        layout.append((node, -slots))
        taken.add(node)
        left += slots
    return layout if ask.most - left >= ask.least else None


def _spread(pool: Pool, ask: Ask) -> _Layout | None:
    """One learner at a time on the node that has the fewest of them, and among those the most room."""
    heap = [(0, -slots, node, slots) for slots, _, node in pool.with_slots(ask.need, ask.skip)]
    heapify(heap)
    counts: dict[str, int] = {}
    for _ in range(ask.most):
        if not heap:
            break
        held, room, node, slots = heappop(heap)
        counts[node] = held + 1
        if held + 1 < slots:
            heappush(heap, (held + 1, room + 1, node, slots))
    return list(counts.items()) if sum(counts.values()) >= ask.least else None


def _draw(pool: Pool, ask: Ask) -> _Layout | None:
    """The best of some random layouts: the fewest nodes, then the least room left on them."""
    random_source = random.Random(ask.seed)
    candidates = []
    for slots, _, node in pool.with_slots(ask.need, ask.skip):
        candidates.append((slots, node))
        if len(candidates) >= _CANDIDATES * ask.most:
            break
    if len(candidates) > _CANDIDATES:
        weights = [slots for slots, _ in candidates]
        candidates = sorted(set(random_source.choices(candidates, weights, k=_CANDIDATES)))
    best: tuple[int, int, _Layout] | None = None
    for _ in range(_DRAWS):
        layout: _Layout = []
        left, room = ask.most, 0
        # Efraimidis-Spirakis keys: an order drawn without replacement, by weight.
        for slots, node in sorted(
            candidates, key=lambda one: random_source.random() ** (1 / one[0] ** 2), reverse=True
        ):
            layout.append((node, min(slots, left)))
            room += slots
            left -= min(slots, left)
            if not left:
                break
        if not left and (best is None or (len(layout), room) < best[:2]):
            best = (len(layout), room, layout)
    return None if best is None else best[2]


_UNBOUNDED = 1 << 30
