"""One load under several policies: what each comes to, as numbers for a table or for programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from ffdl_ops.core.scheduling.index import Index
from ffdl_ops.core.scheduling.model import GangRequest, NodeView, TenantLimits
from ffdl_ops.core.scheduling.policy import Policy
from ffdl_ops.lab.simulate.replay import replay
from ffdl_ops.lab.simulate.results import Replay, SimJob
from ffdl_ops.lab.traces.figures import percentile

__all__ = ["SimTenant", "Summary", "compare", "stops_for", "strictly"]

Progress = Callable[[str, int, int], None]
_EVERY_PASSES = 256


@dataclass(frozen=True)
class SimTenant:
    """A tenant of a replay; see `TenantLimits` for the fields."""

    name: str
    gpu_quota: Mapping[str, int] = field(default_factory=dict)
    cohort: str | None = None
    weight: float = 1.0
    borrow_limit: Mapping[str, int] | None = None
    lend_limit: Mapping[str, int] | None = None
    cpu_quota_millis: int | None = None
    memory_quota_bytes: int | None = None
    max_running: int | None = None
    max_running_per_user: int | None = None
    max_gpus_per_user: int | None = None
    min_run_seconds: float = 0.0


@dataclass(frozen=True)
class Summary:
    """What a replay under one policy came to. Times in seconds of virtual time, but for `wall_s`.

    :param jct_mean_s: job completion time, from arrival to end.
    :param wait_mean_s: time in the queue.
    :param waited_over_15_min: part of the jobs that waited so long, from 0 to 1.
    :param never_started: jobs that the cluster could not take at all.
    :param utilisation: part of the GPU time from the first arrival to the last end that was held.
    :param decisions_per_s: decisions by seconds of wall time, all of the replay counted.
    """

    policy: str
    jobs: int
    jct_mean_s: float
    jct_p50_s: float
    wait_mean_s: float
    wait_p50_s: float
    wait_p90_s: float
    wait_max_s: float
    waited_over_15_min: float
    never_started: int
    preemptions: int
    makespan_s: float
    utilisation: float
    passes: int
    decisions: int
    wall_s: float
    decisions_per_s: float


def compare(
    jobs: Sequence[SimJob],
    nodes: Sequence[NodeView],
    tenants: Mapping[str, TenantLimits],
    policies: Sequence[Policy],
    *,
    stop_s: Callable[[GangRequest], float] = lambda request: 0.0,
    progress: Progress = lambda policy, ended, jobs: None,
) -> Iterator[Summary]:
    """Replay the jobs under one policy after the other.

    :param progress: is told now and then: policy, jobs that have ended, jobs in all.
    """
    for policy in policies:
        name = policy.order.value

        def on_pass(index: Index, now: datetime, result: Replay, name: str = name) -> None:
            if not result.passes % _EVERY_PASSES:
                progress(name, result.ended, len(jobs))

        began = time.monotonic()
        result = replay(jobs, nodes, tenants, policy, stop_s=stop_s, on_pass=on_pass)
        yield _summary(name, result, sum(node.gpus for node in nodes), time.monotonic() - began)


def strictly(policy: Policy) -> Policy:
    """As published replays have it: the queue blocks at its head; nothing is reserved, relaxed or aged."""
    return replace(policy, backfill=False, reserve_after_s=None, age_limit_s=None, relax_s=None)


def stops_for(one: float, node: float, more: float, node_gpus: int = 8) -> Callable[[GangRequest], float]:
    """What stopping a job costs, in seconds: with one GPU, with up to a node's, with more."""

    def stop_s(request: GangRequest) -> float:
        gpus = request.gpus * request.learners_min
        return one if gpus <= 1 else node if gpus <= node_gpus else more

    return stop_s


def _summary(name: str, result: Replay, gpus: int, wall_s: float) -> Summary:
    completions, waits = result.completions_s() or [0.0], result.waits_s() or [0.0]
    capacity = gpus * result.makespan_s
    return Summary(
        policy=name,
        jobs=len(result.outcomes),
        jct_mean_s=result.mean_completion_s(),
        jct_p50_s=percentile(completions, 50),
        wait_mean_s=result.mean_wait_s(),
        wait_p50_s=percentile(waits, 50),
        wait_p90_s=percentile(waits, 90),
        wait_max_s=waits[-1],
        waited_over_15_min=result.long_waits(),
        never_started=len(result.unstarted),
        preemptions=result.preemptions,
        makespan_s=result.makespan_s,
        utilisation=result.busy_gpu_s / capacity if capacity else 0.0,
        passes=result.passes,
        decisions=result.decisions,
        wall_s=wall_s,
        decisions_per_s=result.decisions / wall_s if wall_s else 0.0,
    )
