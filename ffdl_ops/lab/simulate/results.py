"""What goes into a replay, and what it came to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from ffdl_ops.core.scheduling.model import GangRequest

__all__ = ["LONG_WAIT_S", "Outcome", "Replay", "SimJob"]

LONG_WAIT_S = 15 * 60
"""FfDL's evaluation counts the jobs that are queued for more than 15 minutes."""


@dataclass(frozen=True)
class SimJob:
    """A job of a replay.

    :param request: what it asks for, with its arrival.
    :param duration_s: how long it runs, once it does.
    """

    request: GangRequest
    duration_s: float


@dataclass
class Outcome:
    """How a job fared; moments are ``None`` when it was not reached.

    :param waited_s: time in the queue, over all its waits.
    :param preempted: how often it was stopped for somebody else.
    :param nodes: by how many nodes it lay on at first.
    """

    job: SimJob
    started: datetime | None = None
    ended: datetime | None = None
    waited_s: float = 0.0
    preempted: int = 0
    nodes: int = 0

    @property
    def completion_s(self) -> float | None:
        """Job completion time (JCT): from arrival to end."""
        return None if self.ended is None else (self.ended - self.job.request.submitted_at).total_seconds()


@dataclass
class Replay:
    """What a replay came to.

    :param passes: how often the decision code ran; `decisions` how many it took.
    :param ended: how many jobs have come to their end.
    :param busy_gpu_s: GPU time that was held.
    """

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    passes: int = 0
    decisions: int = 0
    ended: int = 0
    busy_gpu_s: float = 0.0

    @property
    def unstarted(self) -> list[str]:
        """Jobs that still waited when nothing could happen any more."""
        return [job_id for job_id, outcome in self.outcomes.items() if outcome.ended is None]

    @property
    def preemptions(self) -> int:
        """How often a job was stopped for another."""
        return sum(outcome.preempted for outcome in self.outcomes.values())

    @property
    def makespan_s(self) -> float:
        """From the first arrival to the last end."""
        if not self.ended:
            return 0.0
        first = min(outcome.job.request.submitted_at for outcome in self.outcomes.values())
        last = max(outcome.ended for outcome in self.outcomes.values() if outcome.ended is not None)
        return (last - first).total_seconds()

    def completions_s(self) -> list[float]:
        """Completion times of the jobs that ended, in ascending order."""
        return sorted(time for one in self.outcomes.values() if (time := one.completion_s) is not None)

    def waits_s(self) -> list[float]:
        """Times in the queue of the jobs that ended, in ascending order."""
        return sorted(outcome.waited_s for outcome in self._ended())

    def mean_completion_s(self) -> float:
        """Mean job completion time of those that ended."""
        return _mean(self.completions_s())

    def mean_wait_s(self) -> float:
        """Mean time in the queue of those that ended."""
        return _mean(self.waits_s())

    def long_waits(self) -> float:
        """The part of all jobs that waited longer than :data:`LONG_WAIT_S`, or never started."""
        long = sum(outcome.ended is None or outcome.waited_s > LONG_WAIT_S for outcome in self.outcomes.values())
        return long / len(self.outcomes) if self.outcomes else 0.0

    def _ended(self) -> Iterator[Outcome]:
        return (outcome for outcome in self.outcomes.values() if outcome.ended is not None)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
