"""Stage durations and GPU time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pytest

from ffdl_ops.core.accounting.durations import stage_seconds
from ffdl_ops.core.accounting.holdings import gpu_seconds, gpu_seconds_by_attempt
from tests.support.gangs import later


@dataclass(frozen=True)
class Run:
    stage: str
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True)
class LeaseFacts:
    epoch: int
    gpus_total: int
    granted_at: datetime
    released_at: datetime | None


@dataclass(frozen=True)
class AttemptFacts:
    number: int
    lease_epoch: int
    started_at: datetime
    ended_at: datetime | None


def test_runs_of_one_stage_are_added_and_the_order_is_that_of_the_job():
    runs = [
        Run("learners", later(10), later(40)),
        Run("plan", later(0), later(2.5)),
        Run("learners", later(50), later(55)),
    ]
    assert list(stage_seconds(runs).items()) == [("plan", 2.5), ("learners", 35.0)]


def test_a_stage_that_runs_counts_up_to_now_or_not_at_all():
    runs = [Run("plan", later(0), None)]
    assert stage_seconds(runs) == {}
    assert stage_seconds(runs, later(7)) == {"plan": 7.0}


def test_a_clock_that_was_set_back_takes_no_time_away():
    runs = [Run("plan", later(5), later(1)), Run("plan", later(6), later(9))]
    assert stage_seconds(runs) == {"plan": 3.0}


def test_gpu_time_is_held_from_grant_to_release():
    leases = [LeaseFacts(1, 4, later(0), later(10)), LeaseFacts(2, 2, later(20), None)]
    assert gpu_seconds(leases, later(25)) == pytest.approx(50.0)


def test_gpu_time_is_told_apart_by_attempt_and_what_lay_between():
    leases = [LeaseFacts(1, 2, later(0), later(100))]
    attempts = [AttemptFacts(1, 1, later(10), later(40)), AttemptFacts(2, 1, later(50), later(110))]
    held = gpu_seconds_by_attempt(leases, attempts, later(200))
    assert held.by_attempt == {1: 60.0, 2: 100.0}
    assert held.between == pytest.approx(40.0)
    assert held.total == pytest.approx(200.0)


def test_an_attempt_that_runs_counts_up_to_now():
    held = gpu_seconds_by_attempt([LeaseFacts(1, 1, later(0), None)], [AttemptFacts(1, 1, later(2), None)], later(5))
    assert held.by_attempt == {1: 3.0}
    assert held.between == pytest.approx(2.0)


def test_an_attempt_of_an_unknown_lease_held_nothing():
    assert gpu_seconds_by_attempt([], [AttemptFacts(1, 9, later(2), None)], later(5)).total == 0.0
