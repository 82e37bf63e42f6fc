"""The facts that a scheduling decision is made from, all immutable. Sizes of gangs and grants are per learner.

Units: CPU in thousandths of a core, memory in bytes, GPUs in whole devices, durations in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import NamedTuple, Protocol

__all__ = [
    "GangRequest",
    "Grant",
    "Level",
    "NodeView",
    "Placement",
    "Reservation",
    "Snapshot",
    "Strategy",
    "TenantLimits",
]


class Strategy(StrEnum):
    """How a gang's learners are laid out."""

    PACK = "pack"
    SPREAD = "spread"
    BSA = "bsa"


class Level(IntEnum):
    """How close together a gang's learners must be; a larger one asks for less."""

    NODE = 0
    RACK = 1
    CLUSTER = 2


class TenantLimits(Protocol):
    """What the scheduler needs of a tenant; `core.tenancy`'s `Tenant` is one. ``None`` is no limit, except where it says so."""

    @property
    def name(self) -> str:
        """The tenant's name."""

    @property
    def weight(self) -> float:
        """Its part of what is shared beyond quotas, against the others' weights."""

    @property
    def gpu_quota(self) -> Mapping[str, int]:
        """GPUs it may always hold at once, by type; a type that is not named is 0."""

    @property
    def cohort(self) -> str | None:
        """Whom it lends to and borrows from; ``None``: nobody."""

    @property
    def borrow_limit(self) -> Mapping[str, int] | None:
        """GPUs beyond its quota that it may borrow, by type; ``None``: whatever its cohort has left."""

    @property
    def lend_limit(self) -> Mapping[str, int] | None:
        """GPUs of its quota that others may borrow while they are idle, by type; ``None``: all of them."""

    @property
    def cpu_quota_millis(self) -> int | None:
        """CPU its learners may hold at once."""

    @property
    def memory_quota_bytes(self) -> int | None:
        """Memory its learners may hold at once."""

    @property
    def max_running(self) -> int | None:
        """Jobs that may hold a lease at once."""

    @property
    def max_running_per_user(self) -> int | None:
        """Jobs of one user that may hold a lease at once."""

    @property
    def max_gpus_per_user(self) -> int | None:
        """GPUs, of all types together, that one user's jobs may hold at once."""

    @property
    def min_run_seconds(self) -> float:
        """How long a job of it runs at least before it is preempted for somebody else."""


@dataclass(frozen=True)
class NodeView:
    """A node of the cluster: what it can give in all, not what is free.

    :param gpu_type: type of its GPUs; ``None`` when it has none, or none that is named.
    :param ready: whether it answers.
    :param schedulable: whether it takes new pods (not cordoned, not tainted against them).
    :param rack: where it stands; nodes without one are in a rack of their own together.
    """

    name: str
    gpu_type: str | None
    gpus: int
    cpu_millis: int
    memory_bytes: int
    ready: bool = True
    schedulable: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    rack: str = ""

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
    :param priority: larger goes first.
    :param submitted_at: its arrival; it keeps it when it has to queue again.
    :param excluded_nodes: nodes that it must not be put on.
    :param user: who submitted it.
    :param queued_at: since when it waits this time; ``None``: since its arrival.
    :param expected_s: how long it is expected to run in all, if anybody knows.
    :param served_s: how long it has run already.
    :param served_gpu_s: GPU time that it has had already.
    :param strategy: and `level`: its own choice; ``None``: the policy's. A level of its own is never relaxed unless
        `relax_s` says after how long.
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
    queued_at: datetime | None = None
    expected_s: float | None = None
    served_s: float = 0.0
    served_gpu_s: float = 0.0
    strategy: Strategy | None = None
    level: Level | None = None
    relax_s: float | None = None

    @property
    def waits_since(self) -> datetime:
        """When this wait began."""
        return self.queued_at or self.submitted_at

    def expected_end(self, start: datetime) -> datetime | None:
        """When it would end if it started at this moment, if anybody knows how long it takes."""
        return None if self.expected_s is None else start + timedelta(seconds=max(self.expected_s - self.served_s, 0.0))


class Placement(NamedTuple):
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
    :param granted_at: since when it is held; ``None``: not known, so long ago.
    :param saved_at: the moment from which its work would be lost: its last checkpoint, else its start.
    :param expected_end: when it is expected to end, if anybody knows.
    :param served_gpu_s: GPU time that the job had had before this grant.
    :param aged: it was started since it had waited too long, so that the policy's order stops it for nobody.
    :param preempting: it has been told to stop, and holds its places until it has.
    """

    job_id: str
    tenant: str
    epoch: int
    placements: tuple[Placement, ...]
    gpus: int
    cpu_millis: int
    memory_bytes: int
    gpu_type: str | None
    priority: int = 0
    user: str = ""
    granted_at: datetime | None = None
    saved_at: datetime | None = None
    expected_end: datetime | None = None
    served_gpu_s: float = 0.0
    aged: bool = False
    preempting: bool = False

    @property
    def learners(self) -> int:
        """How many learners it holds places for."""
        return len(self.placements)

    @property
    def gpus_total(self) -> int:
        """GPUs that it holds in all."""
        return self.gpus * self.learners


@dataclass(frozen=True)
class Reservation:
    """Places that nobody but one waiting gang may take as they become free.

    :param gpus: and `cpu_millis`, `memory_bytes`: per learner, as the gang asks for them.
    :param gpu_type: as in a grant.
    :param since: when it was made.
    :param preemption: whether others were told to stop for it; else it was made because the gang has waited long.
    """

    job_id: str
    tenant: str
    placements: tuple[Placement, ...]
    gpus: int
    cpu_millis: int
    memory_bytes: int
    gpu_type: str | None
    since: datetime
    preemption: bool = False
    user: str = ""


@dataclass(frozen=True)
class Snapshot:
    """The cluster and what is held and kept of it, at one moment.

    :param closed: why nothing may start at all, if so (the platform is being upgraded).
    """

    nodes: tuple[NodeView, ...]
    grants: tuple[Grant, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    closed: str | None = None
