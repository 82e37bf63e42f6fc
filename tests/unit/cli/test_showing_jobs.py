"""`ffdl list`, `ffdl show`, `ffdl metrics`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from ffdl_ops.adapters.ledger import AttemptRecord, CheckpointRecord, LeaseRecord, StageRecord
from ffdl_ops.adapters.tracking.points import Point
from ffdl_ops.cli.output import clean, plain, show_duration, show_time
from ffdl_ops.core.jobs.states import JobState
from ffdl_ops.core.scheduling.model import Placement

T = datetime(2026, 1, 1, 12, tzinfo=UTC)
ID = "job-aaaa000001"
HOSTILE = (
    "[red]x[/red] [link=http://evil]y[/] \x1b[2J\x1b]8;;http://evil\x07z\x1b]8;;\x07 \u202egpj\x00\r\nDROP :smile:"
)


def lease(**changes: Any) -> LeaseRecord:
    places = (Placement(0, "node-a"), Placement(1, "node-b"))
    fields = {"released_at": None, "release_reason": None, **changes}
    return LeaseRecord(ID, "vision", 12, places, 1, 500, 2**31, "V100", T, **fields)


def attempt(**changes: Any) -> AttemptRecord:
    fields: dict[str, Any] = {
        "restored_generation": 3, "pods": {0: {"pod": "p", "uid": "u", "node": "node-a"}}, "outcome": "failed",
        "failure": {"class": "node_lost"}, "ended_at": T + timedelta(seconds=40), **changes,
    }  # fmt: skip
    return AttemptRecord(
        job_id=ID, number=2, lease_epoch=12, learners=2, base_port=1, started_at=T, resume_count=0, **fields
    )  # fmt: skip


def test_a_list_shows_jobs_with_state_and_size(cli: Any, job: Any) -> None:
    cli.ledger.add(job(ID), job("job-bbbb000001", state=JobState.QUEUED, outcome=None, gpus=0))
    out = cli.ok("list").stdout
    assert ID in out
    assert "COMPLETED" in out
    assert "1 × V100" in out
    assert "1 min 30 s" in out
    assert "2 min 00 s" in out


def test_a_list_may_be_of_one_tenant_or_state(cli: Any, job: Any) -> None:
    cli.ledger.add(job(ID), job("job-bbbb000001", tenant="speech"), job("job-cccc000001", state=JobState.FAILED))

    def ids(*args: str) -> set[str]:
        return {one["job_id"] for one in json.loads(cli.ok("list", "--json", *args).stdout)}

    assert ids("--tenant", "speech") == {"job-bbbb000001"}
    assert ids("--state", "failed") == {"job-cccc000001"}
    assert ids() == {ID, "job-bbbb000001", "job-cccc000001"}
    assert ids("--limit", "1") == {ID}


def test_an_empty_list_says_so_and_is_an_empty_document_for_programs(cli: Any) -> None:
    assert "no jobs yet" in cli.ok("list").stdout
    assert json.loads(cli.ok("list", "--json").stdout) == []


def test_hostile_names_are_shown_as_text(cli: Any, job: Any) -> None:
    cli.ledger.add(job(ID, name=HOSTILE, user=HOSTILE, failure={"class": "oom", "summary": HOSTILE}))
    for command in (("list",), ("show", ID)):
        out = cli.ok(*command).stdout
        assert not {char for char in out if ord(char) < 32 or char in "\x7f\u202e"} - {"\n"}
        assert "[red]x[/red]" in out
        assert ":smile:" in out
    assert json.loads(cli.ok("list", "--json").stdout)[0]["name"] == HOSTILE


def test_show_tells_the_whole_story(cli: Any, job: Any, wait: Any, story: Any) -> None:
    failure = {
        "class": "oom", "summary": "learner 2 needed more than 2 GiB", "advice": "raise memory",
        "evidence": [{"rank": 1, "exit_code": 137, "node": "node-b"}],
    }  # fmt: skip
    cli.ledger.add(job(ID, state=JobState.FAILED, outcome="failed", failure=failure, halt_requested_by="bob"))
    cli.ledger.rows[ID] = {
        "stages": [StageRecord(ID, "plan", 1, 0, T, T + timedelta(seconds=1.5), "success")],
        "transitions": story(ID, "PENDING"),
        "attempts": [attempt()],
        "waits": [wait(ID)],
        "leases": [lease(released_at=T + timedelta(seconds=50), release_reason="released")],
        "checkpoints": [CheckpointRecord(3, 1, 40, 2048, 2, True, True, T)],
    }
    out = cli.ok("show", ID).stdout
    for words in (
        "learner 2 needed more than 2 GiB", "raise memory", "exit_code=137", "plan", "1.5 s", "needs 2 V100, 1 is free",
        "job-bbbb000001 (speech: 3)", "generation 3", "failed: node_lost", "node-a, node-b", "2 KiB", "by bob",
        "http://mlflow/#/experiments/7/runs/run1", "http://airflow/dags/train__vision/runs/run-of-job-aaaa000001",
        "s3://ffdl-vision/jobs/job-aaaa000001/results/",
    ):  # fmt: skip
        assert words in out, words
    told = json.loads(cli.ok("show", ID, "--json").stdout)
    assert told["failure"] == failure
    assert told["waits"][0]["holders"] == [
        {"job_id": "job-bbbb000001", "tenant": "speech", "gpus": 3, "user": "", "until": None}
    ]
    assert told["leases"][0]["granted_at"] == "2026-01-01T12:00:00Z"
    assert told["stage_seconds"] == {"plan": 0.5, "learners": 61.0}


def test_nested_evidence_is_shown_plainly_and_a_traceback_last(cli: Any, job: Any) -> None:
    report = {"signal": None, "exit_code": 1, "last_traceback": "Traceback: " + "x" * 100, "duration_s": 0.1}
    failure = {
        "class": "user_error",
        "summary": "s",
        "evidence": [{"node": "node-b", "exit_code": 1, "exit_report": report}],
    }
    cli.ledger.add(job(ID, state=JobState.FAILED, outcome="failed", failure=failure))
    out = cli.ok("show", ID).stdout
    assert "evidence: node=node-b exit_code=1 duration_s=0.1 last_traceback=Traceback: xxx" in out
    assert "{" not in out


def test_a_job_of_a_tenant_that_is_gone_can_still_be_shown(cli: Any, job: Any) -> None:
    cli.ledger.add(job(ID, tenant="closed"))
    assert "closed" in cli.ok("show", ID).stdout


def test_no_credential_is_shown_should_one_be_in_the_ledger(cli: Any, job: Any) -> None:
    connection = {"auth_url": "http://s3", "user_name": "alice-key-id", "password": "hunter2"}
    cli.ledger.add(job(ID, manifest={"name": "x", "data_stores": [{"connection": connection}]}))
    for command in (["show", ID, "--json"], ["show", ID, "--manifest"]):
        output = cli.ok(*command).output
        assert "hunter2" not in output
        assert "alice-key-id" not in output
        assert "http://s3" in output


@pytest.fixture
def measured(cli: Any, job: Any) -> None:
    cli.ledger.add(job(ID))
    points = [Point("loss", 0.5, 1, 1_767_268_800_000), Point("loss", 0.25, 2, 1_767_268_801_000)]
    latest = {"loss": points[1], "nan": Point("nan", float("nan"), 2, 1_767_268_801_000)}
    cli.tracker.view = SimpleNamespace(ref=SimpleNamespace(run_id="run1"), status="FINISHED", latest=latest)
    cli.tracker.points = {"loss": points}


@pytest.mark.usefixtures("measured")
def test_metrics_show_the_last_point_of_each_or_all_of_one(cli: Any) -> None:
    out = cli.ok("metrics", ID).stdout
    assert "0.25" in out
    assert "0.5" not in out
    assert "2026-01-01 12:00:01Z" in out
    assert "0.5" in cli.ok("metrics", ID, "--key", "loss").stdout
    told = json.loads(cli.ok("metrics", ID, "--key", "loss", "--json").stdout)
    assert [point["value"] for point in told["series"]["loss"]] == [0.5, 0.25]
    assert told["latest"]["nan"]["value"] is None


@pytest.mark.usefixtures("measured")
def test_a_metric_that_is_not_there_is_told_those_that_are(cli: Any) -> None:
    assert "loss, nan" in cli.refused(2, "metrics", ID, "--key", "accuracy")


def test_a_job_without_a_run_says_so(cli: Any, job: Any) -> None:
    cli.ledger.add(job(ID, mlflow_run_id=None, state=JobState.NOT_STARTED))
    assert "no run in MLflow yet" in cli.refused(2, "metrics", ID)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0.0 s"), (1.26, "1.3 s"), (60, "1 min 00 s"), (125.4, "2 min 05 s"), (3599.9, "1 h 00 min"), (11_220, "3 h 07 min"),
     (187_200, "2 d 04 h"), (None, "-"), (-1, "0.0 s")],
)  # fmt: skip
def test_durations_have_units(seconds: float | None, shown: str) -> None:
    assert show_duration(seconds) == shown


def test_times_are_shown_in_utc() -> None:
    from datetime import timezone

    assert show_time(datetime(2026, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))) == "2026-01-01 12:00:00Z"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\x1b[31mb\x1b[0mc", "abc"), ("a\x1b]0;t\x07b", "ab"), ("a\x1b]8;;u\x1b\\b", "ab"), ("tab\tline\n", "tab\tline\n"),
     ("\x9b2Jx", "2Jx"), ("a\rb", "ab"), ("é√", "é√"), ("\x1b", ""), ("x\x1bPq\x1b\\y", "xy"), ("\ud800", "")],
)  # fmt: skip
def test_what_steers_a_terminal_is_taken_out(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_every_number_is_json() -> None:
    assert plain([float("inf"), float("-inf"), float("nan"), 1.5, True]) == [None, None, None, 1.5, True]
