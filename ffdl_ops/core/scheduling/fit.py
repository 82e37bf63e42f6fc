"""Where a gang fits: free room by node, and the packing of a gang into the fewest nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ffdl_ops.core.scheduling.model import GangRequest, Grant, NodeView, Placement

__all__ = ["Room", "Rooms", "pack", "type_of"]


@dataclass
class Room:
    """What is free on one usable node."""

    node: NodeView
    gpus: int
    cpu_millis: int
    memory_bytes: int

    def slots(self, request: GangRequest) -> int:
        """How many learners of this gang fit here."""
        pairs = (
            (self.gpus, request.gpus),
            (self.cpu_millis, request.cpu_millis),
            (self.memory_bytes, request.memory_bytes),
        )
        limits = [max(free, 0) // need for free, need in pairs if need > 0]
        return min(limits, default=request.learners_max)

    def take(self, gpus: int, cpu_millis: int, memory_bytes: int) -> None:
        """Count a learner as placed here."""
        self.gpus -= gpus
        self.cpu_millis -= cpu_millis
        self.memory_bytes -= memory_bytes


class Rooms:
    """Free room of every usable node. A grant on a node that is gone or closed takes nothing elsewhere."""

    def __init__(self, nodes: Iterable[NodeView], grants: Iterable[Grant] = ()) -> None:
        self._rooms = {
            node.name: Room(node, node.gpus, node.cpu_millis, node.memory_bytes)
            for node in sorted(nodes, key=lambda one: one.name)
            if node.usable
        }
        for grant in grants:
            self.take(grant.placements, grant.gpus, grant.cpu_millis, grant.memory_bytes)

    def take(self, placements: Iterable[Placement], gpus: int, cpu_millis: int, memory_bytes: int) -> None:
        """Count a gang as placed."""
        for placement in placements:
            if placement.node in self._rooms:
                self._rooms[placement.node].take(gpus, cpu_millis, memory_bytes)

    def open_to(self, request: GangRequest, gpu_type: str | None, closed_types: Collection[str] = ()) -> list[Room]:
        """The rooms that this gang may use with GPUs of one type (``None``: it takes no GPU, so any node will do).

        :param closed_types: types whose nodes are kept for a gang that goes first.
        """
        return [
            room
            for room in self._rooms.values()
            if room.node.name not in request.excluded_nodes
            and (gpu_type is None or type_of(room.node) == gpu_type)
            and type_of(room.node) not in closed_types
        ]


def type_of(node: NodeView) -> str | None:
    """The type of a node's GPUs, "" when they have no name; ``None`` when it has no GPU."""
    return (node.gpu_type or "") if node.gpus else None


def pack(request: GangRequest, learners: int, rooms: Sequence[Room]) -> tuple[Placement, ...] | None:
    """Place so many learners on the fewest nodes, and among those on the ones that it fills best.

    :returns: a node for each rank, or ``None`` when they don't all fit.
    """
    slots = {room.node.name: room.slots(request) for room in rooms}
    left = sorted(rooms, key=lambda room: (-slots[room.node.name], *_tightness(room, request)))
    nodes: list[str] = []
    while len(nodes) < learners:
        missing = learners - len(nodes)
        last = [room for room in left if slots[room.node.name] >= missing]
        if last:
            nodes += [min(last, key=lambda room: _tightness(room, request)).node.name] * missing
            break
        if not left or not slots[left[0].node.name]:
            return None
        largest = left.pop(0).node.name
        nodes += [largest] * slots[largest]
    return tuple(Placement(rank, node) for rank, node in enumerate(nodes))


def _tightness(room: Room, request: GangRequest) -> tuple[int, int, int, int, str]:
    """Smaller is a better fit: the fewest free GPUs; a gang without GPUs leaves the nodes that have some alone."""
    gpus = 0 if request.gpus else room.node.gpus
    return (gpus, room.gpus, room.cpu_millis, room.memory_bytes, room.node.name)
