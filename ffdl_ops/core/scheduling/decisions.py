"""What a pass decides. Each decision carries its reason as data; :mod:`~ffdl_ops.core.scheduling.reasons` puts it into words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from ffdl_ops.core.scheduling.model import Placement, Reservation

__all__ = ["Admit", "Decision", "Holder", "Preempt", "Reserve", "Unreserve", "Wait", "WaitCause"]


class WaitCause(StrEnum):
    """Why a gang waits.

    The study of the Philly cluster tells two kinds of delay apart: fair-share (here `quota` and `fair_share`) and
    fragmentation; the others are ours.
    """

    QUOTA = "quota"
    """A limit of its own tenant, or of its user, leaves no room."""
    FAIR_SHARE = "fair_share"
    """It would have to borrow, and nobody has idle quota left to lend."""
    CAPACITY = "capacity"
    """The nodes have not enough free, even in sum."""
    FRAGMENTATION = "fragmentation"
    """Enough is free in sum, but not where whole learners, close enough together, could use it."""
    RESERVATION = "reservation"
    """What it could take is kept for a gang that has waited long, or for which others were preempted."""
    ORDER = "order"
    """Another gang of its tenant goes first (policies that serve a queue strictly in order)."""
    CLOSED = "closed"
    """The administrator lets nothing start."""


@dataclass(frozen=True, order=True)
class Holder:
    """A job that holds what another one waits for (or that goes before it in the queue).

    :param gpus: GPUs of the kind in question that it holds.
    :param until: when it is expected to end, if anybody knows.
    """

    job_id: str
    tenant: str
    gpus: int
    user: str = field(default="", compare=False)
    until: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Admit:
    """The gang starts now.

    :param placements: a node for each rank; as many learners as fit, between the request's minimum and maximum.
    :param gpu_type: type of the GPUs it is given; ``None`` when it takes none.
    :param borrowed: how many of its GPUs are beyond its tenant's quota.
    """

    job_id: str
    placements: tuple[Placement, ...]
    gpu_type: str | None = None
    borrowed: int = 0


@dataclass(frozen=True)
class Preempt:
    """A job must checkpoint and give its places back; it goes into the queue again.

    :param for_job: whose places they become, of `for_tenant`.
    :param why: "borrowed": it holds more than its tenant's quota; "priority": a more important job of its own tenant
        waits; "order": the policy lets a job go first that this one runs before.
    :param lost_gpu_s: GPU time since its last checkpoint, which will be lost if it can't save in time.
    """

    job_id: str
    epoch: int
    for_job: str
    for_tenant: str
    why: str
    lost_gpu_s: float


@dataclass(frozen=True)
class Reserve:
    """Places are kept for a waiting gang from now on."""

    reservation: Reservation

    @property
    def job_id(self) -> str:
        """The gang that they are kept for."""
        return self.reservation.job_id


@dataclass(frozen=True)
class Unreserve:
    """A reservation has no purpose any more: its gang has started, is gone, or can't use the places."""

    job_id: str


@dataclass(frozen=True)
class Wait:
    """The gang waits.

    :param position: its place in its tenant's queue, from 1.
    :param holders: who holds it; for :attr:`WaitCause.ORDER` and :attr:`WaitCause.RESERVATION` who goes first.
    :param earliest: no sooner than this can it start, by what is known of the holders' ends; ``None``: nobody knows.
    :param numbers: what is needed, free and limited, as whole numbers with their units in their names.
    """

    job_id: str
    position: int
    cause: WaitCause
    holders: tuple[Holder, ...] = ()
    earliest: datetime | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)


Decision = Admit | Preempt | Reserve | Unreserve | Wait
