"""Two experiments of FfDL's evaluation, in virtual time over the live decision code: gang scheduling, and packing."""

from __future__ import annotations

import random
from datetime import datetime

from ffdl_ops.core.scheduling.index import Index
from ffdl_ops.core.scheduling.model import Level, Strategy
from ffdl_ops.core.scheduling.policy import Order, Policy
from ffdl_ops.lab.simulate.replay import replay
from ffdl_ops.lab.simulate.results import Replay, SimJob
from tests.support.gangs import Limits, gang, limits, node

CLUSTER = Policy(Order.FIFO, backfill=True, reserve_after_s=None, level=Level.CLUSTER)
NODES = [node(f"n{number}", gpus=4, cpus=64, gib=64) for number in range(4)]
TENANTS = limits(Limits("a", {"V100": 16}))
GANG = 4
"""Learners of each synchronous job; each with one GPU."""


def idle_in_deadlock(index: Index) -> float:
    """The part of all GPUs that is held by learners which wait for siblings that can't come."""
    held: dict[str, int] = {}
    for grant in index.grants.values():
        job = grant.job_id.split("/")[0]
        held[job] = held.get(job, 0) + grant.learners
    return sum(count for count in held.values() if count < GANG) / 16


def synchronous_jobs(*, together: bool) -> list[SimJob]:
    """Twelve jobs of four learners that arrive at once; learners of their own come in the order in which pods happen to."""
    if together:
        return [SimJob(gang(f"j{number:02}", GANG, 1), 100.0) for number in range(12)]
    pods = [(number, rank) for number in range(12) for rank in range(GANG)]
    random.Random(3).shuffle(pods)
    # One that has its place holds it until its siblings have come; in a deadlock that is for ever.
    return [SimJob(gang(f"j{number:02}/{rank}", 1, 1, at=at / 1000), 1e9) for at, (number, rank) in enumerate(pods)]


def test_a_gang_is_never_in_deadlock_and_pod_by_pod_is():
    worst: dict[bool, float] = {True: 0.0, False: 0.0}
    for together in worst:

        def watch(index: Index, now: datetime, so_far: Replay, together: bool = together) -> None:
            worst[together] = max(worst[together], idle_in_deadlock(index))

        result = replay(synchronous_jobs(together=together), NODES, TENANTS, CLUSTER, on_pass=watch)
        if together:
            assert result.unstarted == []
            assert result.makespan_s == 300, "twelve jobs, four at a time"
    assert worst[True] == 0
    assert worst[False] >= 0.5


def mixed_load(seed: int) -> list[SimJob]:
    """Many jobs of one GPU, and some that need a whole node, at about seven tenths of the cluster's GPUs."""
    source = random.Random(seed)
    jobs, at = [], 0.0
    for number in range(600):
        at += source.expovariate(1 / 47)
        gpus = source.choices((1, 2, 4), (80, 8, 12))[0]
        jobs.append(SimJob(gang(f"j{number:03}", 1, gpus, at=at), source.uniform(300, 2_700)))
    return jobs


def test_packing_leaves_far_fewer_jobs_queued_than_spreading():
    nodes = [node(f"n{number:02}", gpus=4, cpus=64, gib=256) for number in range(15)]
    tenants = limits(Limits("a", {"V100": 60}))
    queued = {}
    for strategy in (Strategy.PACK, Strategy.SPREAD):
        policy = Policy(Order.FIFO, backfill=True, reserve_after_s=None, level=Level.CLUSTER, strategy=strategy)
        results = [replay(mixed_load(seed), nodes, tenants, policy) for seed in range(3)]
        queued[strategy] = sum(result.long_waits() for result in results) / len(results)
    assert queued[Strategy.SPREAD] > 0.01
    assert queued[Strategy.SPREAD] >= 3 * queued[Strategy.PACK], queued
