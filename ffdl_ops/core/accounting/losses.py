"""GPU time that was held and came to nothing. All results are GPU-seconds.

What an attempt did after its last whole checkpoint is lost when it ends otherwise than well: the next one does it again. What it
did before is kept. The time until the lease is given back (stopping, saving) is not in here: it belongs to no attempt's work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from ffdl_ops.core.accounting.holdings import AttemptTimes, LeaseTimes

__all__ = ["EndedAttempt", "SavedAt", "lost_by_class"]

_KEPT = frozenset({"succeeded"})


class EndedAttempt(AttemptTimes, Protocol):
    """An attempt, with how it ended."""

    @property
    def outcome(self) -> str | None:
        """How it ended; ``None`` while it runs."""

    @property
    def failure(self) -> Mapping[str, Any] | None:
        """Its failure, with its class, if it had one."""


class SavedAt(Protocol):
    """A whole checkpoint."""

    @property
    def created_at(self) -> datetime:
        """When it was made."""


def lost_by_class(
    leases: Iterable[LeaseTimes], attempts: Iterable[EndedAttempt], checkpoints: Sequence[SavedAt]
) -> dict[str, float]:
    """GPU-seconds lost, by the class of failure that lost them ("stopped" where a person did).

    :param checkpoints: the whole ones; those that retention has removed make the loss look larger than it was.
    """
    by_epoch = {lease.epoch: lease for lease in leases}
    saved = sorted(one.created_at for one in checkpoints)
    lost: dict[str, float] = {}
    for attempt in attempts:
        lease = by_epoch.get(attempt.lease_epoch)
        if lease is None or attempt.ended_at is None or attempt.outcome in _KEPT:
            continue
        # A checkpoint that was whole only after the end (the last upload) has saved everything of the attempt.
        kept_to = max((moment for moment in saved if moment >= attempt.started_at), default=attempt.started_at)
        seconds = max(attempt.ended_at - min(kept_to, attempt.ended_at), timedelta()).total_seconds()
        cls = str((attempt.failure or {}).get("class", "stopped"))
        lost[cls] = lost.get(cls, 0.0) + seconds * lease.gpus_total
    return lost
