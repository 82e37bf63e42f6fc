"""A reader takes each line once, and one learner that prints without end holds up neither it nor the gang's end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from ffdl_ops.pipeline import reading
from ffdl_ops.pipeline.follower import drain
from ffdl_ops.pipeline.judge import GangState, Verdict
from ffdl_ops.pipeline.reading import LogCursor, new_lines
from ffdl_ops.pipeline.triggers import gang as gang_trigger
from tests.support.s3 import MemoryStore
from tests.unit.pipeline.test_judging_a_gang import pod


class Log:
    """A pod's log on a cluster, and how much of it was asked for."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.most = 0
        self.at = datetime.now(UTC)

    def write(self, count: int, text: str = "step=1 loss=0.5") -> None:
        for _ in range(count):
            self.at += timedelta(microseconds=1)
            stamp = self.at.isoformat(timespec="microseconds").replace("+00:00", "Z")
            self.lines.append(f"{stamp} [learner 1] {len(self.lines)} {text}")

    def pod_log(
        self, namespace: str, name: str, *, since_s: int | None, tail: int | None = None, most_bytes: int | None = None
    ) -> str:
        lines = self.lines if tail is None else self.lines[-tail:]
        answer = "".join(f"{line}\n" for line in lines)[:most_bytes]
        self.most = max(self.most, len(answer))
        return answer


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def svc(log: Log) -> Any:
    return SimpleNamespace(cluster=log)


def numbers(lines: list[str]) -> list[int]:
    return [int(line.split(" ")[3]) for line in lines]


def test_a_burst_is_taken_line_by_line_in_order(log: Log, svc: Any) -> None:
    log.write(1200)
    cursor, got = LogCursor(), []
    for _ in range(4):
        lines, passed_over = new_lines(svc, pod(0), cursor, most=500)
        got += numbers(lines)
        assert not passed_over
    assert got == list(range(1200))


def test_a_reader_that_has_fallen_behind_goes_on_from_the_end_and_knows_where_the_gap_began(log: Log, svc: Any) -> None:
    log.write(100_000)
    cursor = LogCursor()
    lines, passed_over = new_lines(svc, pod(0), cursor, most=500)
    assert passed_over and numbers(lines) == [*range(500), *range(99_900, 100_000)]
    assert log.most <= 1 << 20
    assert cursor.complete[pod(0).name] == log.lines[499].partition(" ")[0]
    log.write(3)
    assert numbers(new_lines(svc, pod(0), cursor, most=500)[0])[-3:] == [100_000, 100_001, 100_002]


def test_the_last_look_has_the_last_lines(log: Log, svc: Any) -> None:
    log.write(2000)
    lines, passed_over = new_lines(svc, pod(0), LogCursor(), most=500, last=True)
    assert passed_over and numbers(lines)[-1] == 1999
    log.lines.clear()
    log.write(500)
    lines, passed_over = new_lines(svc, pod(0), LogCursor(), most=500, last=True)
    assert not passed_over and numbers(lines) == list(range(500))


@pytest.mark.parametrize("stamp", ["9999-99-99T99:99:99.000000Z", "2026-13-01T00:00:00Z", "nonsense", ""])
def test_a_time_that_is_none_stops_no_reader(log: Log, svc: Any, stamp: str) -> None:
    log.lines.append(f"{stamp} [learner 1] 0 forged")
    log.write(1)
    cursor = LogCursor()
    assert new_lines(svc, pod(0), cursor)[0]
    new_lines(svc, pod(0), cursor)


def test_a_log_that_cannot_be_read_does_not_hold_up_the_gangs_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **options: Any) -> Any:
        raise RuntimeError("no log today")

    ended = Verdict(GangState.SUCCEEDED, "all 1 learners exited 0")
    attempt = SimpleNamespace(number=1)
    ledger = SimpleNamespace(job=lambda job_id: SimpleNamespace(), open_attempt=lambda job_id: attempt)
    monkeypatch.setattr(gang_trigger, "services", lambda: SimpleNamespace(ledger=ledger))
    monkeypatch.setattr(gang_trigger, "new_lines", broken)
    monkeypatch.setattr(gang_trigger.gang, "look", lambda *given: (ended, [pod(0)]))
    finished = SimpleNamespace(kind="succeeded", failure=None, delay_s=0.0)
    monkeypatch.setattr(gang_trigger.gang, "finish", lambda *given: finished)
    event = gang_trigger.GangTrigger("job-1", 1).look()
    assert event is not None and event["kind"] == "succeeded"


def test_what_a_reader_passed_over_is_written_from_the_stored_log_batch_by_batch(log: Log) -> None:
    log.write(12_000)
    store = MemoryStore()
    store.objects["jobs/job-1/logs/attempt-1/learner-1.log"] = "\n".join(log.lines).encode()
    batches: list[int] = []
    reached = log.lines[1999].partition(" ")[0]
    job = SimpleNamespace(job_id="job-1", tenant="t", mlflow_run_id="run", manifest={"name": "x", "example": "probe"})
    svc: Any = SimpleNamespace(
        ledger=SimpleNamespace(
            cursor=lambda job_id, name: {"attempt": 1, "newest": {"p": reached}} if name == "metrics" else None,
            attempts=lambda job_id: [SimpleNamespace(number=1, learners=1, pods={0: {"pod": "p"}})],
        ),
        store=lambda tenant: store,
        tenant=lambda name: SimpleNamespace(bucket="b"),
        tracker=SimpleNamespace(log_batch=lambda run_id, points: batches.append(len(points))),
    )
    assert drain(svc, job) == 10_000  # type: ignore[arg-type]
    assert len(batches) > 1 and max(batches) <= 5000


class Watched:
    """The platform around one attempt that runs, and what its trigger has read."""

    def __init__(self, log: Log, monkeypatch: pytest.MonkeyPatch, manifest: dict[str, Any]) -> None:
        self.job = SimpleNamespace(manifest={"name": "x", "example": "probe", **manifest})
        self.verdict = Verdict(GangState.RUNNING, "1 of 1 learners run")
        self.ledger = SimpleNamespace(
            job=lambda job_id: self.job,
            open_attempt=lambda job_id: SimpleNamespace(number=1),
            lease=lambda job_id: None,
        )
        self.shown: list[str] = []
        self.fed: list[str] = []
        trigger = self.trigger = gang_trigger.GangTrigger("job-1", 1)
        monkeypatch.setattr(gang_trigger, "services", lambda: SimpleNamespace(ledger=self.ledger, cluster=log))
        monkeypatch.setattr(gang_trigger, "past_deadline", lambda svc, job, verdict, views: verdict)
        monkeypatch.setattr(gang_trigger.gang, "look", lambda *given: (self.verdict, [pod(0)]))
        finished = SimpleNamespace(kind="succeeded", failure=None, delay_s=0.0)
        monkeypatch.setattr(gang_trigger.gang, "finish", lambda *given: finished)
        monkeypatch.setattr(trigger, "_show", lambda svc, views, last: self.shown.append("last" if last else "more"))
        monkeypatch.setattr(trigger, "_feed", lambda: self.fed.append("fed"))


@pytest.mark.parametrize(("followed", "before"), [(True, ["more"]), (False, [])])
def test_a_job_that_is_not_followed_is_read_when_it_has_ended(
    log: Log, monkeypatch: pytest.MonkeyPatch, followed: bool, before: list[str]
) -> None:
    watched = Watched(log, monkeypatch, {"monitor": {"enabled": followed}})
    assert watched.trigger.look() is None
    assert (watched.shown, bool(watched.fed)) == (before, followed)
    watched.verdict = Verdict(GangState.SUCCEEDED, "all 1 learners exited 0")
    assert watched.trigger.look() is not None
    assert watched.shown == [*before, "last"]


def test_the_attempts_of_a_job_that_was_not_followed_are_told_with_its_stored_log(log: Log) -> None:
    log.write(3)
    store = MemoryStore()
    store.objects["jobs/job-1/logs/attempt-1/learner-1.log"] = "\n".join(log.lines).encode()
    told: list[Any] = []
    manifest = {"name": "x", "example": "probe", "monitor": {"enabled": False}}
    job: Any = SimpleNamespace(job_id="job-1", tenant="t", mlflow_run_id="run", manifest=manifest)
    attempt = SimpleNamespace(number=1, learners=1, pods={0: {"pod": "p", "node": "n"}}, restored_generation=None)
    svc: Any = SimpleNamespace(
        ledger=SimpleNamespace(cursor=lambda job_id, name: None, attempts=lambda job_id: [attempt]),
        store=lambda tenant: store,
        tenant=lambda name: SimpleNamespace(bucket="b"),
        tracker=SimpleNamespace(
            log_batch=lambda run_id, points: told.append(len(points)),
            tag_attempt=lambda run_id, number, facts: told.append((number, facts["nodes"])),
        ),
    )
    assert drain(svc, job) == 3
    assert told == [(1, "n"), 3]


def test_no_line_is_cut_in_two_where_reading_stops(log: Log, svc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_MOST_BYTES", 1000)
    monkeypatch.setattr(reading, "_LAST_LINES", 3)
    log.write(40)
    lines, _ = new_lines(svc, pod(0), LogCursor())
    assert set(lines) <= set(log.lines)
