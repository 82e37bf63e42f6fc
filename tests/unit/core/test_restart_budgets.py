"""How often a gang is started again: bounded for every class, by the job's own record."""

from __future__ import annotations

import pytest

from ffdl_ops.core.failures.budgets import DEFAULT_BUDGETS, GiveUp, Restart, restart_or_fail
from ffdl_ops.core.failures.classes import FailureClass
from ffdl_ops.core.failures.classify import Failure
from ffdl_ops.core.jobs.manifest import load_manifest


def failure(cls: FailureClass, *, final: bool = False) -> Failure:
    return Failure(cls, 0, "it failed", "do better", (), final=final)


@pytest.mark.parametrize("cls", list(FailureClass))
def test_every_class_is_bounded(cls: FailureClass) -> None:
    """Pitfall 36: unlimited restarts; the budget is counted over the job."""
    budget = DEFAULT_BUDGETS[cls]
    for used in range(budget):
        assert isinstance(restart_or_fail(failure(cls), {cls: used}, {}), Restart)
    end = restart_or_fail(failure(cls), {cls: budget}, {})
    assert isinstance(end, GiveUp)
    assert cls.value in end.reason


def test_the_users_own_errors_and_memory_are_not_retried_unless_asked() -> None:
    for cls in (FailureClass.USER_ERROR, FailureClass.OOM):
        assert isinstance(restart_or_fail(failure(cls), {}, None), GiveUp)
        assert isinstance(restart_or_fail(failure(cls), {}, {cls: 1}), Restart)
        assert isinstance(restart_or_fail(failure(cls), {cls: 1}, {cls: 1}), GiveUp)


def test_each_class_has_a_budget_of_its_own() -> None:
    past = {FailureClass.PREEMPTED: 50, FailureClass.EVICTED: 2}
    assert isinstance(restart_or_fail(failure(FailureClass.NODE_LOST), past, {}), Restart)


def test_a_manifests_retry_is_the_override() -> None:
    retry = load_manifest({"name": "x", "example": "probe", "retry": {"node_lost": 0}}).retry
    assert isinstance(restart_or_fail(failure(FailureClass.NODE_LOST), {}, retry), GiveUp)


@pytest.mark.parametrize(
    "cls", [FailureClass.EVICTED, FailureClass.PREEMPTED, FailureClass.NODE_LOST, FailureClass.STARTUP]
)
def test_what_the_place_caused_starts_again_elsewhere(cls: FailureClass) -> None:
    decision = restart_or_fail(failure(cls), {}, {})
    assert isinstance(decision, Restart)
    assert not decision.keep_lease


def test_delays_grow_and_are_bounded() -> None:
    cls = FailureClass.PLATFORM
    delays = []
    for used in range(20):
        decision = restart_or_fail(failure(cls), {cls: used}, {cls: 20})
        assert isinstance(decision, Restart)
        delays.append(decision.delay_s)
    assert delays == sorted(delays)
    assert 0 < delays[0] < delays[1]
    assert max(delays) <= 60


def test_a_lost_node_costs_no_wait() -> None:
    assert restart_or_fail(failure(FailureClass.NODE_LOST), {}, {}) == Restart(keep_lease=False, delay_s=0)


def test_what_is_final_is_final_whatever_the_budget() -> None:
    assert isinstance(
        restart_or_fail(failure(FailureClass.USER_ERROR, final=True), {}, {FailureClass.USER_ERROR: 5}), GiveUp
    )
