"""Policies: in which order the queue is served, and how gangs are laid out.

- ``fair`` (the default): the tenant with the smallest weighted dominant share first (Ghodsi et al., "Dominant Resource
  Fairness", NSDI 2011), then arrival. A gang that can't start lets others pass until it has waited long; then places are
  reserved for it.
- ``fifo``: arrival; what a gang waits for is kept from those of its tenant behind it.
- ``sjf``, ``srtf``: shortest expected time, or remaining time, first. ``srtf`` also stops jobs of the same tenant that have
  longer to go.
- ``las``: the least attained GPU time first, in classes, and stops jobs of the same tenant that have had more (after Gu et
  al., "Tiresias", NSDI 2019).

`sjf`, `srtf` and `las` can starve long jobs; a gang that has waited longer than `age_limit_s` goes before all others of its
priority. In every policy a gang within its tenant's quota goes before one that must borrow, and a higher priority before a
lower one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from ffdl_ops.core.scheduling.model import GangRequest, Grant, Level, Strategy

__all__ = ["Order", "Policy", "Treatment"]

_LAS_CLASSES_GPU_S = (3_600.0, 36_000.0)
"""GPU time at which a job falls into the next class: an hour, then ten."""
_UNKNOWN_S = float("inf")


class Order(StrEnum):
    """The order in which gangs of one priority are served."""

    FAIR = "fair"
    FIFO = "fifo"
    SJF = "sjf"
    SRTF = "srtf"
    LAS = "las"


class Treatment(NamedTuple):
    """How a waiting gang is treated.

    :param aged: whether it goes before all of its priority.
    :param due: whether places are to be reserved for it.
    :param level: how close together its learners must be.
    :param until: when this changes; ``None``: never.
    """

    aged: bool
    due: bool
    level: Level
    until: datetime | None


@dataclass(frozen=True)
class Policy:
    """How the queue is served.

    :param backfill: whether gangs pass one that can't start yet; ``None``: all policies but ``fifo``.
    :param reserve_after_s: waiting so long, a gang has places reserved; ``None``: never.
    :param age_limit_s: waiting so long, a gang goes before all of its priority (``sjf``, ``srtf``, ``las``); ``None``: never.
    :param strategy: how learners are laid out, unless the job says.
    :param level: how close together they must be at first, unless the job says; a gang that is too large for it asks for
        the next. It is relaxed by one after every `relax_s` of waiting; ``None``: never.
    """

    order: Order = Order.FAIR
    backfill: bool | None = None
    reserve_after_s: float | None = 900.0
    age_limit_s: float | None = 86_400.0
    strategy: Strategy = Strategy.PACK
    level: Level = Level.NODE
    relax_s: float | None = 60.0

    @property
    def strict(self) -> bool:
        """Whether a gang that waits holds up those of its tenant behind it."""
        return not (self.backfill if self.backfill is not None else self.order is not Order.FIFO)

    @property
    def shares(self) -> bool:
        """Whether tenants take turns by their shares."""
        return self.order is Order.FAIR

    @property
    def preempts(self) -> bool:
        """Whether running jobs are stopped for waiting ones of the same tenant that go first by the policy's order."""
        return self.order in (Order.SRTF, Order.LAS)

    def ages(self, request: GangRequest, now: datetime) -> bool:
        """Whether it goes before all of its priority by now."""
        return self._ages and (now - request.waits_since).total_seconds() >= self._age_limit_s

    def rank(self, request: GangRequest) -> float:
        """What the order sorts by before arrival; smaller goes first. It does not change while the gang waits."""
        if self.order is Order.SJF:
            return _UNKNOWN_S if request.expected_s is None else request.expected_s
        if self.order is Order.SRTF:
            return _UNKNOWN_S if request.expected_s is None else max(request.expected_s - request.served_s, 0.0)
        if self.order is Order.LAS:
            return float(_las_class(request.served_gpu_s))
        return 0.0

    def running_rank(self, grant: Grant, now: datetime) -> float:
        """The same for a job that runs, at this moment."""
        if self.order is Order.SRTF:
            if grant.expected_end is None:
                return _UNKNOWN_S
            return max((grant.expected_end - now).total_seconds(), 0.0)
        if self.order is Order.LAS:
            ran_s = (now - grant.granted_at).total_seconds() if grant.granted_at else 0.0
            return float(_las_class(grant.served_gpu_s + ran_s * grant.gpus_total))
        return 0.0

    def falls_behind_at(self, grant: Grant) -> list[datetime]:
        """The moments at which a running job comes to be treated as less urgent (``las``: it falls into the next class)."""
        if self.order is not Order.LAS or grant.granted_at is None or not grant.gpus_total:
            return []
        left = [(limit - grant.served_gpu_s) / grant.gpus_total for limit in _LAS_CLASSES_GPU_S]
        return [grant.granted_at + timedelta(seconds=seconds) for seconds in left if seconds > 0]

    def level_of(self, request: GangRequest, now: datetime) -> Level:
        """How close together its learners must be by now."""
        first, step_s = self._levels(request)
        if step_s is None or first is Level.CLUSTER:
            return first
        steps = (now - request.waits_since).total_seconds() // step_s if step_s > 0 else Level.CLUSTER
        return Level(min(max(first + int(steps), first), Level.CLUSTER))

    def strategy_of(self, request: GangRequest) -> Strategy:
        """How its learners are laid out."""
        return request.strategy or self.strategy

    def treatment(self, request: GangRequest, now: datetime) -> Treatment:
        """How a waiting gang is treated by now, and until when."""
        since = request.waits_since
        waited_s = (now - since).total_seconds()
        ordinary = request.level is None and request.relax_s is None and request.strategy is None
        moments_s = self._moments if ordinary else self._moments_of(request)
        aged = self._ages and waited_s >= self._age_limit_s
        due = self.reserve_after_s is not None and waited_s >= self.reserve_after_s
        if not moments_s or waited_s >= moments_s[-1]:
            return Treatment(aged, due, self.loosest(request), None)
        nearest_s = next(moment for moment in moments_s if moment > waited_s)
        return Treatment(aged, due, self.level_of(request, now), since + timedelta(seconds=nearest_s))

    def loosest(self, request: GangRequest) -> Level:
        """How close together its learners must be when it has waited long enough."""
        first, step_s = self._levels(request)
        return first if step_s is None else Level.CLUSTER

    @cached_property
    def _ages(self) -> bool:
        return self.age_limit_s is not None and self.order not in (Order.FAIR, Order.FIFO)

    @cached_property
    def _age_limit_s(self) -> float:
        return _UNKNOWN_S if self.age_limit_s is None else self.age_limit_s

    @cached_property
    def _moments(self) -> list[float]:
        """The waiting times, in order, after which a gang that has no wishes of its own is treated differently."""
        return self._moments_after(self._first_level(self.strategy), self.relax_s)

    def _moments_of(self, request: GangRequest) -> list[float]:
        return self._moments_after(*self._levels(request))

    def _moments_after(self, first: Level, step_s: float | None) -> list[float]:
        moments_s = [step_s * (step + 1) for step in range(Level.CLUSTER - first)] if step_s else []
        if self.reserve_after_s is not None:
            moments_s.append(self.reserve_after_s)
        if self._ages:
            moments_s.append(self._age_limit_s)
        return sorted(moments_s)

    def _first_level(self, strategy: Strategy) -> Level:
        """Learners that are to be spread are not kept on one node first."""
        return max(self.level, Level.RACK) if strategy is Strategy.SPREAD else self.level

    def _levels(self, request: GangRequest) -> tuple[Level, float | None]:
        if request.level is None:
            first = self._first_level(self.strategy_of(request))
            return first, self.relax_s if request.relax_s is None else request.relax_s
        return request.level, request.relax_s


def _las_class(gpu_s: float) -> int:
    return sum(gpu_s >= limit for limit in _LAS_CLASSES_GPU_S)
