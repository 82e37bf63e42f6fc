"""A virtual-time loop over the live decision code.

Only moments at which something can change are visited: a job comes, one ends, one that was told to stop has stopped, a waiting
gang is to be treated differently, a running one may be stopped from now on. All of one moment are told to the index, then one
pass runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush

from ffdl_ops.core.scheduling.decide import run
from ffdl_ops.core.scheduling.decisions import Admit, Preempt
from ffdl_ops.core.scheduling.index import Index
from ffdl_ops.core.scheduling.model import GangRequest, NodeView, Snapshot, TenantLimits
from ffdl_ops.core.scheduling.policy import Policy
from ffdl_ops.lab.simulate.results import Outcome, Replay, SimJob

__all__ = ["Outcome", "Replay", "SimJob", "replay"]

_END, _STOPPED, _COMES, _MAY_STOP = range(4)
OnPass = Callable[[Index, datetime, Replay], None]


def replay(
    jobs: Iterable[SimJob],
    nodes: Sequence[NodeView],
    tenants: Mapping[str, TenantLimits],
    policy: Policy,
    *,
    stop_s: Callable[[GangRequest], float] = lambda request: 0.0,
    on_pass: OnPass | None = None,
) -> Replay:
    """Let jobs come, run and end. A job that is stopped goes on later from where it was.

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
        on_pass: OnPass | None,
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
        while (now := self._next()) is not None:
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
                self.on_pass(self.index, now, self.result)
        return self.result

    def _next(self) -> datetime | None:
        """The next moment to visit, as long as anything can still happen."""
        moments = [self.events[0][0]] if self.events else []
        change = self.index.queue.next_change()
        if change is not None:
            moments.append(change)
        return min(moments, default=None)

    def _happen(self, kind: int, job_id: str, start: int, now: datetime) -> None:
        if kind == _COMES:
            self.index.came(self.requests[job_id], now)
        elif kind != _MAY_STOP and self.starts[job_id] == start:
            grant = self.index.grants[job_id]
            held_s = (now - (grant.granted_at or now)).total_seconds()
            self.result.busy_gpu_s += held_s * grant.gpus_total
            self.index.released(job_id)
            if kind == _END:
                self.result.outcomes[job_id].ended = now
                self.result.ended += 1
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
        promised_s = self.index.tenants[request.tenant].min_run_seconds
        if promised_s:
            self._at(now + timedelta(seconds=promised_s), _MAY_STOP, admit.job_id)
        falls = self.index.policy.falls_behind_at(self.index.grants[admit.job_id])
        for moment in falls:
            self._at(moment, _MAY_STOP, admit.job_id)

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
