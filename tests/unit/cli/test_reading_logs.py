"""`ffdl logs`: stored, living, followed; nothing twice, nothing that steers a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ffdl_ops.cli.loglines import Seen, as_record, log_file_of, merged
from ffdl_ops.cli.logs import _printer
from ffdl_ops.core.jobs.states import JobState

ID = "job-aaaa000001"
LOGS = f"jobs/{ID}/logs"


def line(second: float, learner: int, text: str) -> str:
    return f"2026-01-01T12:00:{second:09.6f}Z [learner {learner}] {text}"


@pytest.fixture
def stored(cli: Any, job: Any) -> None:
    cli.ledger.add(job(ID))
    files = {
        "attempt-1/learner-1.log": [line(1, 1, "first"), line(4, 1, "killed")],
        "attempt-1/learner-2.log": [line(2, 2, "second"), "a line without time", line(3, 2, "third")],
        "attempt-2/learner-1.log": [line(9, 1, "again")],
        "attempt-10/learner-1.log": [line(20, 1, "last")],
        "attempt-1/learner-1.exit.json": ["{}"],
        "helpers/store.log": ["helper"],
    }
    for name, lines in files.items():
        cli.store.put("ffdl-vision", f"{LOGS}/{name}", "".join(f"{one}\n" for one in lines).encode())


@pytest.mark.usefixtures("stored")
def test_after_the_end_logs_come_from_the_bucket_in_the_order_of_attempts_and_times(cli: Any) -> None:
    shown = [one.partition("] ")[2] or one for one in cli.ok("logs", ID).stdout.splitlines()]
    assert shown == ["first", "second", "a line without time", "third", "killed", "again", "last"]


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--learner", "2"], ["second", "a line without time", "third"]),
        (["--attempt", "2"], ["again"]),
        (["--attempt", "1", "--learner", "1"], ["first", "killed"]),
        (["-f"], ["first", "second", "a line without time", "third", "killed", "again", "last"]),
    ],
)
def test_one_learner_or_attempt_may_be_chosen(cli: Any, options: list[str], words: list[str]) -> None:
    shown = [one.partition("] ")[2] or one for one in cli.ok("logs", ID, *options).stdout.splitlines()]
    assert shown == words


@pytest.mark.usefixtures("stored")
def test_programs_get_an_object_per_line(cli: Any) -> None:
    told = [json.loads(one) for one in cli.ok("logs", ID, "--attempt", "1", "--json").stdout.splitlines()]
    assert told[0] == {"time": "2026-01-01T12:00:01Z", "learner": 1, "text": "first"}
    assert told[2] == {"time": None, "learner": None, "text": "a line without time"}


def test_a_job_without_logs_says_why(cli: Any, job: Any) -> None:
    cli.ledger.add(job(ID, state=JobState.FAILED, failure={"class": "image", "summary": "no such image"}))
    result = cli.ok("logs", ID)
    assert result.stdout == ""
    assert "image: no such image" in result.stderr


@pytest.mark.usefixtures("stored")
def test_following_shows_each_line_once_over_restarts_broken_streams_and_the_end(
    cli: Any, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pitfalls 22 and 23: a follow that breaks is opened again from its beginning, and no line is shown twice."""
    streams = [
        [line(1, 1, "first"), line(2, 2, "second")],
        [],
        [line(1, 1, "first"), line(2, 2, "second"), line(3, 2, "third"), line(4, 1, "killed")],
        [line(9, 1, "again")],
    ]
    running = job(ID, state=JobState.PROCESSING)
    cli.ledger.script[ID] = [running] * 5 + [job(ID)]

    def stream(settings: Any, record: Any, learner: int | None = None) -> Iterator[str]:
        return iter(streams.pop(0) if streams else [])

    monkeypatch.setattr("ffdl_ops.adapters.cluster.logs.stream_job_logs", stream)
    shown = [one.partition("] ")[2] for one in cli.ok("logs", "-f", ID).stdout.splitlines() if "] " in one]
    assert shown == ["first", "second", "third", "killed", "again", "last"]


def test_a_job_that_waits_is_not_looked_for_on_the_cluster(cli: Any, job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.ledger.script[ID] = [job(ID, state=JobState.QUEUED)] * 3 + [job(ID, state=JobState.PROCESSING), job(ID)]
    asked: list[str] = []

    def stream(settings: Any, record: Any, learner: int | None = None) -> Iterator[str]:
        asked.append(record.state)
        return iter([])

    monkeypatch.setattr("ffdl_ops.adapters.cluster.logs.stream_job_logs", stream)
    result = cli.ok("logs", "-f", ID)
    assert asked == ["PROCESSING", "COMPLETED"]
    assert "is QUEUED" in result.stderr


def test_following_waits_out_a_short_outage_of_the_cluster(cli: Any, job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from ffdl_ops.adapters.cluster.client import ClusterUnreachable

    outage = [True, True]
    cli.ledger.script[ID] = [job(ID, state=JobState.PROCESSING)] * 5 + [job(ID)]

    def stream(settings: Any, record: Any, learner: int | None = None) -> Iterator[str]:
        if outage:
            outage.pop()
            raise ClusterUnreachable("restarting")
        return iter([line(1, 1, "alive")])

    monkeypatch.setattr("ffdl_ops.adapters.cluster.logs.stream_job_logs", stream)
    assert cli.ok("logs", "-f", ID).stdout.count("alive") == 1


def test_a_living_job_without_follow_shows_what_there_is_and_returns(
    cli: Any, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ledger.add(job(ID, state=JobState.PROCESSING, outcome=None))
    monkeypatch.setattr("ffdl_ops.cli.logs._living", lambda *_: iter([line(1, 1, "now")]))
    assert "now" in cli.ok("logs", ID).stdout


def test_a_living_job_that_has_printed_nothing_says_so(cli: Any, job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.ledger.add(job(ID, state=JobState.QUEUED, outcome=None))
    monkeypatch.setattr("ffdl_ops.cli.logs._living", lambda *_: iter([]))
    assert "QUEUED" in cli.ok("logs", ID).stderr


def test_a_pipe_gets_lines_as_they_are(cli: Any, job: Any) -> None:
    cli.ledger.add(job(ID))
    cli.store.put("ffdl-vision", f"{LOGS}/attempt-1/learner-1.log", f"{line(1, 1, chr(27) + '[31mred')}\n".encode())
    assert "\x1b[31mred" in cli.ok("logs", ID).stdout


def test_a_terminal_gets_no_control_characters(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    _printer(as_json=False)(line(1, 1, "\x1b]0;title\x07red\x1b[2J\rloss\t1"))
    assert capsys.readouterr().out == line(1, 1, "redloss\t1") + "\n"


def test_bytes_that_are_no_text_do_not_end_the_reading(cli: Any, job: Any) -> None:
    cli.ledger.add(job(ID))
    cli.store.put("ffdl-vision", f"{LOGS}/attempt-1/learner-1.log", line(1, 1, "").encode() + b"\xff\xfe\x00\n")
    assert cli.ok("logs", ID).stdout.count("\n") == 1


def test_a_line_is_new_once_and_late_lines_of_another_learner_still_are() -> None:
    seen = Seen()
    lines = [line(2, 1, "a"), line(2, 1, "b"), line(1, 2, "c")]
    assert [seen.is_new(one) for one in lines] == [True, True, True]
    assert [seen.is_new(one) for one in lines] == [False, False, False]
    assert seen.is_new(line(3, 1, "a"))
    assert not seen.is_new(line(2, 1, "b"))
    assert seen.is_new("no time")


def test_merging_keeps_each_logs_own_order(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"before any time\n{line(5, 1, 'x')}\n{line(2, 1, 'clock went back')}\n")
    (tmp_path / "b").write_text(f"{line(3, 2, 'y')}\n")
    got = list(merged([tmp_path / "a", tmp_path / "b"]))
    own = [one for one in got if "learner 2" not in one]
    assert own == ["before any time", line(5, 1, "x"), line(2, 1, "clock went back")]
    assert len(got) == 4


@pytest.mark.parametrize(
    "name", ["attempt-1/learner-1.exit.json", "helpers/x.log", "attempt-x/learner-1.log", "attempt-1/a/learner-1.log"]
)
def test_other_files_are_no_learners_logs(name: str) -> None:
    assert log_file_of(name) is None


def test_structured_lines_carry_their_values() -> None:
    record = as_record(line(1, 2, 'ffdl:progress {"step": 3}'))
    assert (record["event"], record["values"]) == ("progress", {"step": 3})
    long = as_record(line(1, 2, "x" * 10_000))
    assert len(str(long["text"])) == 10_000
