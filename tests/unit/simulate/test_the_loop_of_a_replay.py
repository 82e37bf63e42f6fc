"""Virtual time: which moments are visited, and what becomes of a job that is stopped."""

from __future__ import annotations

import pytest

from ffdl_ops.core.scheduling.model import Level
from ffdl_ops.core.scheduling.policy import Order, Policy
from ffdl_ops.lab.simulate.replay import replay
from ffdl_ops.lab.simulate.results import SimJob
from tests.support.gangs import FIFO, Limits, gang, later, limits, node

ONE = [node("n0", gpus=4)]
OWN = limits(Limits("a", {"V100": 4}))


def job(job_id, seconds, gpus=4, **more):
    return SimJob(gang(job_id, 1, gpus, **{"expected_s": seconds, **more}), seconds)


def test_jobs_run_one_after_the_other_where_they_do_not_fit_together():
    result = replay([job("j1", 10), job("j2", 10, at=1)], ONE, OWN, FIFO)
    assert result.outcomes["j1"].ended == later(10)
    assert (result.outcomes["j2"].started, result.outcomes["j2"].ended) == (later(10), later(20))
    assert (result.mean_completion_s(), result.mean_wait_s(), result.busy_gpu_s) == (14.5, 4.5, 80)
    assert result.makespan_s == 20


def test_a_job_that_never_fits_is_told():
    result = replay([job("j1", 10), job("j2", 10, gpus=8)], ONE, OWN, FIFO)
    assert result.unstarted == ["j2"]
    assert result.long_waits() == 0.5


def test_a_stopped_job_goes_on_from_where_it_was_and_pays_for_the_stop():
    srtf = Policy(Order.SRTF, reserve_after_s=None, age_limit_s=None, level=Level.CLUSTER)
    result = replay([job("long", 100), job("short", 10, at=20)], ONE, OWN, srtf, stop_s=lambda request: 7)
    long, short = result.outcomes["long"], result.outcomes["short"]
    assert (short.started, short.ended) == (later(27), later(37))
    assert (long.started, long.ended, long.preempted) == (later(0), later(117), 1)
    assert long.waited_s == 10
    assert result.busy_gpu_s == 4 * 117


def test_a_gang_is_tried_again_when_its_level_is_relaxed_though_nothing_else_happens():
    policy = Policy(Order.FIFO, reserve_after_s=None, level=Level.NODE, relax_s=60)
    split = [node("n0", gpus=2), node("n1", gpus=2), node("n2", gpus=4)]
    jobs = [job("big", 1_000, gpus=4), SimJob(gang("two", 4, 1, at=1), 5)]
    outcome = replay(jobs, split, limits(Limits("a", {"V100": 8})), policy).outcomes["two"]
    assert outcome.started == later(1 + 60), "no node names its rack, so all stand in one"


def test_who_is_promised_a_time_is_stopped_when_it_is_over_though_nothing_else_happens():
    tenants = limits(Limits("a", {"V100": 4}, cohort="x"), Limits("b", {"V100": 0}, cohort="x", min_run_seconds=50))
    jobs = [job("borrower", 1_000, tenant="b"), job("owner", 10, at=5)]
    result = replay(jobs, ONE, tenants, Policy(reserve_after_s=None))
    assert result.outcomes["owner"].started == later(50)
    assert result.outcomes["borrower"].ended == later(1_010)


def test_a_job_falls_behind_under_las_though_nothing_else_happens():
    las = Policy(Order.LAS, reserve_after_s=None, age_limit_s=None)
    jobs = [job("old", 10_000), job("new", 10, at=5)]
    result = replay(jobs, ONE, OWN, las)
    assert result.outcomes["new"].started == later(900), "an hour of GPU time is 15 minutes on four"


@pytest.mark.parametrize("order", Order)
def test_every_policy_brings_every_job_to_its_end(order):
    jobs = [
        job(f"j{number:02}", 50 + 7 * (number % 5), gpus=1 + number % 4, at=number, priority=number % 2)
        for number in range(40)
    ]
    result = replay(jobs, [*ONE, node("n1", gpus=4)], limits(Limits("a", {"V100": 8})), Policy(order))
    assert result.unstarted == []
    least = sum(one.duration_s * one.request.gpus for one in jobs)
    assert result.busy_gpu_s == pytest.approx(least)
