"""The facts that a scheduling decision is made from, and the decision itself; all immutable, all sizes per learner.

Units: CPU in thousandths of a core, memory in bytes, GPUs in whole devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

__all__ = [
    "Admit",
    "Decision",
    "GangRequest",
    "Grant",
    "Holder",
    "NodeView",
    "Placement",
    "Snapshot",
    "TenantLimits",
    "Wait",
    "WaitCause",
    "in_order",
]


class TenantLimits(Protocol):
    """What the scheduler needs of a tenant; `core.tenancy`'s `Tenant` is one."""

    @property
    def name(self) -> str:
        """The tenant's name."""

    @property
    def gpu_quota(self) -> Mapping[str, int]:
        """GPUs it may hold at once, by type; a type that is not named is 0."""

    @property
    def cpu_quota_millis(self) -> int | None:
        """CPU its learners may hold at once, in thousandths of a core; ``None`` is no limit."""

    @property
    def memory_quota_bytes(self) -> int | None:
        """Memory its learners may hold at once; ``None`` is no limit."""

    @property
    def max_running(self) -> int | None:
        """Jobs that may hold a lease at once; ``None`` is no limit."""


@dataclass(frozen=True)
class NodeView:
    """A node of the cluster: what it can give in all, not what is free.

    :param gpu_type: type of its GPUs; ``None`` when it has none, or none that is named.
    :param ready: whether it answers.
    :param schedulable: whether it takes new pods (not cordoned, not tainted against them).
    """

    name: str
    gpu_type: str | None
    gpus: int
    cpu_millis: int
    memory_bytes: int
    ready: bool = True
    schedulable: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Whether a new learner may be put there at all."""
        return self.ready and self.schedulable


@dataclass(frozen=True)
class GangRequest:
    """A job that asks for its learners, all of them at once.

    :param learners_min: learners without which it can't run; ``learners_max`` is what it would like.
    :param gpus: GPUs of each learner; 0 is a gang that needs CPU and memory alone.
    :param gpu_type: the type it needs; ``None`` takes any, but one type for the whole gang.
    :param priority: larger goes first within the tenant.
    :param submitted_at: its arrival; it keeps it when it has to queue again.
    :param excluded_nodes: nodes that it must not be put on.
    """

    job_id: str
    tenant: str
    learners_min: int
    learners_max: int
    gpus: int
    gpu_type: str | None
    cpu_millis: int
    memory_bytes: int
    priority: int
    submitted_at: datetime
    excluded_nodes: frozenset[str] = frozenset()
    user: str = ""


@dataclass(frozen=True, order=True)
class Placement:
    """One learner's place.

    :param rank: from 0.
    """

    rank: int
    node: str


@dataclass(frozen=True)
class Grant:
    """What a job holds: a live lease, as the scheduler sees it. `gpus`, `cpu_millis`, `memory_bytes` are per learner.

    :param epoch: number of the lease; a later grant has a larger one.
    :param gpu_type: type of the GPUs that it was given; ``None`` when it holds none.
    """

    job_id: str
    tenant: str
    epoch: int
    placements: tuple[Placement, ...]
    gpus: int
    cpu_millis: int
    memory_bytes: int
    gpu_type: str | None

    @property
    def learners(self) -> int:
        """How many learners it holds places for."""
        return len(self.placements)

    @property
    def gpus_total(self) -> int:
        """GPUs that it holds in all."""
        return self.gpus * self.learners


@dataclass(frozen=True)
class Snapshot:
    """The cluster and what is held of it, at one moment."""

    nodes: tuple[NodeView, ...]
    grants: tuple[Grant, ...] = ()


class WaitCause(StrEnum):
    """Why a gang waits."""

    QUOTA = "quota"
    CAPACITY = "capacity"
    FRAGMENTATION = "fragmentation"
    ORDER = "order"


@dataclass(frozen=True, order=True)
class Holder:
    """A job that holds what another one waits for (or that goes before it in the queue).

    :param gpus: GPUs of the kind in question that it holds.
    """

    job_id: str
    tenant: str
    gpus: int


@dataclass(frozen=True)
class Admit:
    """The gang starts now.

    :param placements: a node for each rank; as many learners as fit, between the request's minimum and maximum.
    :param gpu_type: type of the GPUs it is given; ``None`` when it takes none.
    """

    job_id: str
    placements: tuple[Placement, ...]
    gpu_type: str | None = None


@dataclass(frozen=True)
class Wait:
    """The gang waits.

    :param position: its place in its tenant's queue, from 1.
    :param message: one sentence for a person: what is needed, what is free, who holds the rest.
    :param holders: who holds it; for :attr:`WaitCause.ORDER` who goes first.
    :param numbers: the same facts for programs; whole numbers.
    """

    job_id: str
    position: int
    cause: WaitCause
    message: str
    holders: tuple[Holder, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)


Decision = Admit | Wait


def in_order(queue: Iterable[GangRequest]) -> list[GangRequest]:
    """The queue in the order it is served: priority, then arrival, then job id."""
    return sorted(queue, key=lambda one: (-one.priority, one.submitted_at, one.job_id))
