"""How much GPU time a job held, whether it used it or not. All results are GPU-seconds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

__all__ = ["AttemptTimes", "Held", "LeaseTimes", "gpu_seconds", "gpu_seconds_by_attempt"]


class LeaseTimes(Protocol):
    """A lease, as far as time and GPUs go."""

    @property
    def epoch(self) -> int:
        """Its number."""

    @property
    def gpus_total(self) -> int:
        """GPUs that it holds in all."""

    @property
    def granted_at(self) -> datetime:
        """When it began."""

    @property
    def released_at(self) -> datetime | None:
        """When it ended; ``None`` while it is held."""


class AttemptTimes(Protocol):
    """An attempt, as far as time goes."""

    @property
    def number(self) -> int:
        """Its number."""

    @property
    def lease_epoch(self) -> int:
        """The lease that it ran under."""

    @property
    def started_at(self) -> datetime:
        """When it began."""

    @property
    def ended_at(self) -> datetime | None:
        """When it ended; ``None`` while it runs."""


@dataclass(frozen=True)
class Held:
    """GPU-seconds that leases held.

    :param by_attempt: while an attempt ran, by its number.
    :param between: while none did: granted and not yet started, between two attempts, ended and not yet released.
    """

    by_attempt: dict[int, float]
    between: float

    @property
    def total(self) -> float:
        """All of it."""
        return sum(self.by_attempt.values()) + self.between


def gpu_seconds(leases: Iterable[LeaseTimes], now: datetime) -> float:
    """GPU-seconds from grant to release, over all leases; one that is still held counts up to ``now``."""
    return sum(_seconds(lease.granted_at, lease.released_at or now) * lease.gpus_total for lease in leases)


def gpu_seconds_by_attempt(leases: Iterable[LeaseTimes], attempts: Iterable[AttemptTimes], now: datetime) -> Held:
    """The same, told apart by what the GPUs were held for."""
    by_epoch = {lease.epoch: lease for lease in leases}
    by_attempt: dict[int, float] = {}
    for attempt in attempts:
        lease = by_epoch.get(attempt.lease_epoch)
        if lease is not None:
            start = max(attempt.started_at, lease.granted_at)
            end = min(attempt.ended_at or now, lease.released_at or now)
            by_attempt[attempt.number] = _seconds(start, end) * lease.gpus_total
    return Held(by_attempt, gpu_seconds(by_epoch.values(), now) - sum(by_attempt.values()))


def _seconds(start: datetime, end: datetime) -> float:
    return max(end - start, timedelta()).total_seconds()
