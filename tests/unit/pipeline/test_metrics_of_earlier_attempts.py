"""No metric is lost when MLflow or the follower was down while an attempt ran, and another attempt began since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from ffdl_ops.adapters.tracking.metrics import Point
from ffdl_ops.core.errors import TemporaryError
from ffdl_ops.pipeline import follower
from ffdl_ops.pipeline.follower import Follower, drain
from tests.support.s3 import MemoryStore
from tests.unit.pipeline.test_judging_a_gang import pod

T0 = datetime(2026, 1, 1, tzinfo=UTC)
JOB: Any = SimpleNamespace(job_id="job-1", tenant="t", mlflow_run_id="run", manifest={"name": "x", "example": "probe"})


class Tracker:
    """Keeps what was written, as MLflow would; down when told so."""

    def __init__(self) -> None:
        self.down = False
        self.points: list[Point] = []
        self.late: list[Point] = []
        self.tagged: list[int] = []

    def tag_attempt(self, run_id: str, attempt: int, facts: Mapping[str, Any]) -> None:
        self._reached()
        self.tagged.append(attempt)

    def log_batch(self, run_id: str, points: Sequence[Point]) -> None:
        self._reached()
        self.points += points

    def log_absent(self, run_id: str, points: Sequence[Point], logged: dict[str, set[int]]) -> None:
        self._reached()
        self.late += points

    def _reached(self) -> None:
        if self.down:
            raise TemporaryError("MLflow is down")


class Platform:
    """A ledger, a cluster and a store with one job of one learner."""

    def __init__(self) -> None:
        self.cursors: dict[str, dict[str, Any]] = {}
        self.attempt = 1
        self.logs: dict[int, list[str]] = {}
        self.at = T0
        self.tracker, self.objects = Tracker(), MemoryStore()
        self.ledger = self.cluster = self

    def train(self, *steps: int) -> None:
        for step in steps:
            self.at += timedelta(seconds=1)
            line = (
                f"{self.at.isoformat(timespec='microseconds').replace('+00:00', 'Z')} [learner 1] step={step} loss=0.5"
            )
            self.logs.setdefault(self.attempt, []).append(line)

    def store_logs(self) -> None:
        for attempt, lines in self.logs.items():
            self.objects.objects[f"jobs/job-1/logs/attempt-{attempt}/learner-1.log"] = "\n".join(lines).encode()

    def job(self, job_id: str) -> Any:
        return JOB

    def claim_follower(self, *given: Any) -> int:
        return 1

    def open_attempt(self, job_id: str) -> Any:
        return self.attempts(job_id)[-1]

    def attempts(self, job_id: str) -> list[Any]:
        return [
            SimpleNamespace(number=n, learners=1, restored_generation=None, pods={0: {"pod": f"a{n}", "node": "n"}})
            for n in range(1, self.attempt + 1)
        ]

    def cursor(self, job_id: str, name: str) -> dict[str, Any] | None:
        return self.cursors.get(name)

    def save_cursor(self, job_id: str, name: str, value: dict[str, Any], epoch: int) -> bool:
        self.cursors[name] = value
        return True

    def pods(self, namespace: str, selector: str) -> list[Any]:
        return [self.attempt]

    def pod_log(self, namespace: str, name: str, **how: Any) -> str:
        return "".join(f"{line}\n" for line in self.logs.get(self.attempt, []))

    def store(self, tenant: str) -> MemoryStore:
        return self.objects

    def tenant(self, name: str) -> Any:
        return SimpleNamespace(bucket="b")


@pytest.fixture
def svc(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(follower, "pod_view", lambda number: pod(0, name=f"a{number}"))
    return Platform()


def steps(points: list[Point]) -> list[int]:
    return [point.step for point in points]


def test_what_mlflow_did_not_take_is_written_when_it_is_back(svc: Any) -> None:
    reader = Follower("job-1", "me")
    svc.train(1, 2)
    reader.step(svc)
    svc.tracker.down = True
    svc.train(3)
    for _ in range(3):
        with pytest.raises(TemporaryError):
            reader.step(svc)
        svc.train(4 + len(svc.logs[1]) - 3)
    assert svc.cursors["metrics"]["newest"]["a1"] == svc.logs[1][1].partition(" ")[0]
    svc.tracker.down = False
    reader.step(svc)
    assert steps(svc.tracker.points) == [1, 2, 3, 4, 5, 6]
    reader.step(svc)
    assert steps(svc.tracker.points) == [1, 2, 3, 4, 5, 6]


def test_what_was_read_of_an_attempt_is_written_before_the_next_is_begun(svc: Any) -> None:
    reader = Follower("job-1", "me")
    svc.train(1)
    reader.step(svc)
    svc.tracker.down = True
    svc.train(2)
    with pytest.raises(TemporaryError):
        reader.step(svc)
    svc.attempt = 2
    svc.train(2, 3)
    with pytest.raises(TemporaryError):
        reader.step(svc)
    svc.tracker.down = False
    reader.step(svc)
    assert steps(svc.tracker.points) == [1, 2, 2, 3]
    assert svc.tracker.tagged == [1, 2]


def test_an_attempt_that_could_not_be_begun_is_begun_again(svc: Any) -> None:
    reader = Follower("job-1", "me")
    svc.train(1)
    svc.tracker.down = True
    with pytest.raises(TemporaryError):
        reader.step(svc)
    svc.tracker.down = False
    reader.step(svc)
    assert svc.tracker.tagged == [1]
    assert steps(svc.tracker.points) == [1]


def test_the_unread_end_of_an_earlier_attempt_is_written_from_its_stored_log(svc: Any) -> None:
    svc.train(1, 2)
    Follower("job-1", "me").step(svc)
    svc.train(3, 4)
    svc.attempt = 2
    svc.train(4, 5)
    Follower("job-1", "another").step(svc)
    svc.train(6)
    svc.store_logs()
    drain(svc, JOB)
    assert steps(svc.tracker.points) == [1, 2, 4, 5, 6]
    assert steps(svc.tracker.late) == [3, 4]  # what of these is there already, the tracker leaves out


def test_an_attempt_that_nobody_followed_is_written_and_marked_with_its_facts(svc: Any) -> None:
    svc.train(1, 2)
    svc.attempt = 2
    svc.train(3)
    svc.attempt = 3
    svc.train(4)
    Follower("job-1", "me").step(svc)
    svc.store_logs()
    drain(svc, JOB)
    assert (steps(svc.tracker.points), steps(svc.tracker.late)) == ([4], [1, 2, 3])
    assert sorted(svc.tracker.tagged) == [1, 2, 3]


def test_a_job_without_an_attempt_has_nothing_to_write(svc: Any) -> None:
    svc.attempt = 0
    assert drain(svc, JOB) == 0
