"""How long the stages of a job took. All results are seconds."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

__all__ = ["StageTimes", "stage_seconds"]


class StageTimes(Protocol):
    """One run of one stage."""

    @property
    def stage(self) -> str:
        """The stage's name."""

    @property
    def started_at(self) -> datetime:
        """When it began."""

    @property
    def ended_at(self) -> datetime | None:
        """When it ended; ``None`` while it runs."""


def stage_seconds(runs: Iterable[StageTimes], now: datetime | None = None) -> dict[str, float]:
    """Seconds by stage, in the order in which the stages first began; runs of one stage are added up.

    :param now: until when a stage that still runs is counted; ``None`` leaves it out.
    """
    seconds: dict[str, float] = {}
    for run in sorted(runs, key=lambda one: one.started_at):
        end = run.ended_at or now
        if end is not None:
            seconds[run.stage] = seconds.get(run.stage, 0.0) + max((end - run.started_at).total_seconds(), 0.0)
    return seconds
