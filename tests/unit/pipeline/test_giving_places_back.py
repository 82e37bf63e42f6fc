"""A job that is told to stop while no attempt of it runs makes room soon, and never while a pod of it may hold a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ffdl_ops.core.errors import TemporaryError
from ffdl_ops.pipeline import admission, preflight
from ffdl_ops.pipeline.operators import learners
from ffdl_ops.pipeline.operators.learners import LearnerGangOperator
from ffdl_ops.pipeline.operators.preflight import PreflightOperator

JOB: Any = SimpleNamespace(
    job_id="job-1", tenant="t", manifest={"name": "x", "example": "probe", "preflight": {"enabled": True}}
)


class Ledger:
    """One lease, told to stop or not."""

    def __init__(self, *, told: bool = True, open_attempt: Any = None) -> None:
        words = {"words": "For job-2."}
        self.held: Any = SimpleNamespace(epoch=3, preempted_at=object() if told else None, preemption=words)
        self.attempt = open_attempt
        self.released: list[int] = []

    def lease(self, job_id: str) -> Any:
        return self.held

    def open_attempt(self, job_id: str) -> Any:
        return self.attempt

    def attempts(self, job_id: str) -> list[Any]:
        return []

    def release_lease(self, job_id: str, epoch: int, words: str, now: Any) -> bool:
        self.released.append(epoch)
        self.held = None
        return True


@pytest.fixture(autouse=True)
def no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "places_are_free", lambda svc: None)


def svc(**of: Any) -> Any:
    return SimpleNamespace(ledger=Ledger(**of))


def test_a_lease_is_given_back_once_and_its_reason_told() -> None:
    one = svc()
    assert admission.give_back(one, JOB) == "For job-2."
    assert admission.give_back(one, JOB) is None
    assert one.ledger.released == [3]


@pytest.mark.parametrize("of", [{"told": False}, {"open_attempt": object()}])
def test_a_lease_that_is_not_wanted_or_still_trains_is_kept(of: dict[str, Any]) -> None:
    one = svc(**of)
    assert admission.give_back(one, JOB) is None
    assert one.ledger.released == []


def test_nothing_is_given_back_while_a_learner_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    one = svc()
    monkeypatch.setattr(learners.gang, "stop_learners", lambda *given: False)
    with pytest.raises(TemporaryError, match="Learners are still there"):
        LearnerGangOperator(task_id="learners", tenant="t")._start({}, one, JOB)  # type: ignore[typeddict-item]
    assert one.ledger.released == []


def test_nothing_is_given_back_while_the_preflight_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    one = svc()
    monkeypatch.setattr(preflight, "stop", lambda *given: False)
    operator = PreflightOperator(task_id="preflight", tenant="t")
    event = {"pod": "p", "detail": "", "failure": None, "preempted": True}
    for work in (lambda: operator.woken({}, one, JOB, event), lambda: operator.work({}, one, JOB)):  # type: ignore[typeddict-item]
        with pytest.raises(TemporaryError, match="pod is still there"):
            work()
    assert one.ledger.released == []


def test_no_preflight_is_started_on_places_that_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    one = svc()
    monkeypatch.setattr(preflight, "stop", lambda *given: True)
    monkeypatch.setattr(preflight, "start", lambda *given: pytest.fail("it was started"))
    PreflightOperator(task_id="preflight", tenant="t").work({}, one, JOB)  # type: ignore[typeddict-item]
    assert one.ledger.released == [3]


def test_the_pause_before_the_next_attempt_ends_when_the_places_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    one, slept = svc(told=False), []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            one.ledger.held.preempted_at = object()
        assert len(slept) < 3, "it sleeps on"

    monkeypatch.setattr(learners.time, "sleep", sleep)
    LearnerGangOperator._pause(one, JOB, 30.0)
    assert len(slept) == 2
    LearnerGangOperator._pause(svc(told=False), JOB, 0.0)
    assert len(slept) == 2
