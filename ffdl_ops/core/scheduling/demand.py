"""What waits, as demand for nodes: how many gangs of each shape, and whether more nodes would let them start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from ffdl_ops.core.scheduling.decisions import WaitCause
from ffdl_ops.core.scheduling.model import GangRequest

__all__ = ["NODES_HELP", "NODES_WAIT", "Demand", "Shape", "demands"]

NODES_HELP = frozenset({WaitCause.CAPACITY, WaitCause.FRAGMENTATION})
"""Who waits for these starts when there are more nodes."""
NODES_WAIT = frozenset({WaitCause.RESERVATION, WaitCause.ORDER})
"""Who waits for these waits for another gang to start first, which itself may wait for nodes."""


@dataclass(frozen=True)
class Shape:
    """What gangs that are alike ask for: `learners` of `gpus`, `cpu_millis` and `memory_bytes` each.

    :param gpu_type: ``None``: any type, or none at all when `gpus` is 0.
    :param learners: the fewest that it can start with.
    """

    gpu_type: str | None
    gpus: int
    learners: int
    cpu_millis: int
    memory_bytes: int


@dataclass(frozen=True)
class Demand:
    """The gangs of one shape that wait.

    :param gpus: of all of them together; `gpus_for_nodes` of those that more nodes would let start.
    :param more_nodes: gangs that wait for room on nodes; `behind_others` for a gang that goes first; `limits` for quotas, or
        because the platform is closed, which nodes do not change; `unknown` were not looked at yet. Together they are `gangs`.
    :param oldest: since when the longest of them waits.
    """

    shape: Shape
    gangs: int
    gpus: int
    more_nodes: int
    gpus_for_nodes: int
    behind_others: int
    limits: int
    unknown: int
    oldest: datetime


@dataclass
class _Sum:
    causes: list[WaitCause | None] = field(default_factory=list)
    since: list[datetime] = field(default_factory=list)


def demands(waiting: Iterable[tuple[GangRequest, WaitCause | None]]) -> list[Demand]:
    """The demand by shape, the most GPUs that nodes would help first.

    :param waiting: each gang that waits, with its cause; ``None`` before the first pass.
    """
    sums: dict[Shape, _Sum] = {}
    for request, cause in waiting:
        kind = request.gpu_type if request.gpus else None
        shape = Shape(kind, request.gpus, request.learners_min, request.cpu_millis, request.memory_bytes)
        total = sums.setdefault(shape, _Sum())
        total.causes.append(cause)
        total.since.append(request.waits_since)
    found = [_demand(shape, total) for shape, total in sums.items()]
    return sorted(found, key=lambda one: (-one.gpus_for_nodes, -one.more_nodes, -one.gpus, one.oldest, repr(one.shape)))


def _demand(shape: Shape, total: _Sum) -> Demand:
    causes, each = total.causes, shape.gpus * shape.learners
    helped = sum(cause in NODES_HELP for cause in causes)
    behind = sum(cause in NODES_WAIT for cause in causes)
    unknown = causes.count(None)
    return Demand(
        shape=shape,
        gangs=len(causes),
        gpus=len(causes) * each,
        more_nodes=helped,
        gpus_for_nodes=helped * each,
        behind_others=behind,
        limits=len(causes) - helped - behind - unknown,
        unknown=unknown,
        oldest=min(total.since),
    )
