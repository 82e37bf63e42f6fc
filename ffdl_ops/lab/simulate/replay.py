"""A virtual-time loop over the live decision code.

Only moments at which something happens are visited: a job comes, one ends, one that was told to stop has stopped, a waiting
gang is to be treated differently. All of one moment are told to the index, then one pass runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush

from ffdl_ops.core.scheduling.decide import run
from ffdl_ops.core.scheduling.decisions import Admit, Preempt
from ffdl_ops.core.scheduling.index import Index
from ffdl_ops.core.scheduling.model import GangRequest, NodeView, Snapshot, TenantLimits
from ffdl_ops.core.scheduling.policy import Policy

__all__ = ["Outcome", "Replay", "SimJob", "replay"]

_END, _STOPPED, _COMES = range(3)


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
    :param unstarted: jobs that still waited when nothing could happen any more.
    """

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    passes: int = 0
    decisions: int = 0

    @property
    def unstarted(self) -> list[str]:
        """Jobs that never ended."""
        return [job_id for job_id, outcome in self.outcomes.items() if outcome.ended is None]

    def mean_completion_s(self) -> float:
        """Mean job completion time of those that ended."""
        times = [outcome.completion_s for outcome in self.outcomes.values() if outcome.completion_s is not None]
        return sum(times) / len(times)

    def mean_wait_s(self) -> float:
        """Mean time in the queue of those that ended."""
        times = [outcome.waited_s for outcome in self.outcomes.values() if outcome.ended is not None]
        return sum(times) / len(times)


def replay(
    jobs: Iterable[SimJob],
    nodes: Sequence[NodeView],
    tenants: Mapping[str, TenantLimits],
    policy: Policy,
    *,
    stop_s: Callable[[GangRequest], float] = lambda request: 0.0,
    on_pass: Callable[[Index, datetime], None] | None = None,
) -> Replay:
    """Let jobs come, run and end.

    :param stop_s: seconds for which a job that is told to stop still holds its places without getting on (saving, restoring).
    :param on_pass: is called after every pass (to check or to measure).
    """
    return _Loop(jobs, nodes, tenants, policy, stop_s, on_pass).run()


class _Loop:
    def __init__(
        self,
        jobs: Iterable[SimJob],
        nodes: Sequence[NodeView],
        tenants: Mapping[str, TenantLimits],
        policy: Policy,
        stop_s: Callable[[GangRequest], float],
        on_pass: Callable[[Index, datetime], None] | None,
    ) -> None:
        self.result = Replay({job.request.job_id: Outcome(job) for job in jobs})
        outcomes = self.result.outcomes
        self.events = [
            (one.job.request.submitted_at, _COMES, number, job_id, 0)
            for number, (job_id, one) in enumerate(outcomes.items())
        ]
        heapify(self.events)
        first = self.events[0][0] if self.events else datetime.min
        self.index = Index(tenants, policy, Snapshot(tuple(nodes)), (), first)
        self.requests = {job_id: outcome.job.request for job_id, outcome in outcomes.items()}
        self.starts = dict.fromkeys(outcomes, 0)
        self.stop_s, self.on_pass = stop_s, on_pass
        self.number = len(self.events)

    def run(self) -> Replay:
        while self.events:
            change = self.index.queue.next_change()
            now = self.events[0][0]
            if change is not None and change < now:
                now = change
            while self.events and self.events[0][0] == now:
                _, kind, _, job_id, start = heappop(self.events)
                self._happen(kind, job_id, start, now)
            decisions = run(self.index, now)
            self.result.passes += 1
            self.result.decisions += len(decisions)
            for decision in decisions:
                if isinstance(decision, Admit):
                    self._start(decision, now)
                elif isinstance(decision, Preempt):
                    self._stop(decision, now)
            if self.on_pass is not None:
                self.on_pass(self.index, now)
        return self.result

    def _happen(self, kind: int, job_id: str, start: int, now: datetime) -> None:
        if kind == _COMES:
            self.index.came(self.requests[job_id], now)
        elif self.starts[job_id] == start:
            self.index.released(job_id)
            if kind == _END:
                self.result.outcomes[job_id].ended = now
            else:
                self.index.came(self.requests[job_id], now)

    def _start(self, admit: Admit, now: datetime) -> None:
        outcome, request = self.result.outcomes[admit.job_id], self.requests[admit.job_id]
        if outcome.started is None:
            outcome.started, outcome.nodes = now, len({place.node for place in admit.placements})
        outcome.waited_s += (now - request.waits_since).total_seconds()
        left_s = max(outcome.job.duration_s - request.served_s, 0.0)
        self.starts[admit.job_id] += 1
        self._at(now + timedelta(seconds=left_s), _END, admit.job_id)

    def _stop(self, preempt: Preempt, now: datetime) -> None:
        """It has saved, and goes on where it was; until it has stopped it holds its places."""
        outcome, request = self.result.outcomes[preempt.job_id], self.requests[preempt.job_id]
        grant = self.index.grants[preempt.job_id]
        ran_s = (now - (grant.granted_at or now)).total_seconds()
        gone = now + timedelta(seconds=self.stop_s(request))
        outcome.preempted += 1
        self.requests[preempt.job_id] = replace(
            request,
            queued_at=gone,
            served_s=request.served_s + ran_s,
            served_gpu_s=request.served_gpu_s + ran_s * grant.gpus_total,
        )
        self.starts[preempt.job_id] += 1
        self._at(gone, _STOPPED, preempt.job_id)

    def _at(self, moment: datetime, kind: int, job_id: str) -> None:
        self.number += 1
        heappush(self.events, (moment, kind, self.number, job_id, self.starts[job_id]))
