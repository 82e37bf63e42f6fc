"""What a program writes of its progress and metrics comes out as events of its log."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ffdl_ops.pod.learner.emetrics import MetricsFile, events_of, metrics_place_of
from ffdl_ops.pod.learner.logs import Log
from ffdl_ops.pod.learner.report import write_termination
from ffdl_ops.pod.learner.watch import Progress
from tests.unit.learner.pods import Job, eventually

PROGRESS = 'f="$JOB_STATE_DIR/progress-$LEARNER_ID.json"'
FFDL_LINE = json.dumps(
    {
        "meta": {"training_id": "t", "time": 1530000000.5, "rindex": 3, "subid": "worker-1"},
        "grouplabel": "train",
        "etimes": {"iteration": {"type": "INT", "value": "30"}, "epoch": {"value": 2}},
        "values": {"loss": {"type": "FLOAT", "value": "0.25"}, "note": {"type": "STRING", "value": "fine"}},
    }
)


def test_progress_is_echoed_while_the_program_runs_and_at_its_end(job: Job) -> None:
    command = f"""{PROGRESS}; echo '{{"step": 3, "epoch": 1}}' > $f; until [ -e go ]; do sleep 0.05; done
        echo '{{"step": 9}}' > $f"""
    learner = job.start(command)
    eventually("the first step", lambda: learner.events("progress") == [{"step": 3, "epoch": 1}])
    (job.root / "code/go").touch()
    assert learner.wait() == 0
    assert learner.events("progress") == [{"step": 3, "epoch": 1}, {"step": 9}]
    assert learner.report["step"] == 9


def test_what_an_earlier_attempt_wrote_is_no_progress_of_this_one(job: Job) -> None:
    (job.root / "state/progress-1.json").write_text('{"step": 77}')
    learner = job.run("true")
    assert learner.events("progress") == []
    assert learner.report["step"] is None


def test_the_step_is_taken_from_the_output_when_there_is_no_progress_file(job: Job) -> None:
    assert job.run("echo step=5 loss=0.1; echo 'step=12 loss=0.1'; echo saved").report["step"] == 12


@pytest.mark.parametrize("text", ['{"step": ', '{"step": "many"}', '{"step": Infinity}', "[" * 60_000, "[1]", "{}", "\udce9"])
def test_progress_that_cannot_be_read_is_looked_at_again(tmp_path: Path, text: str) -> None:
    path = tmp_path / "progress"
    progress = Progress(str(path))
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert progress.news() is None
    path.write_text('{"step": 4}')
    assert progress.news() == {"step": 4}
    assert progress.news() is None


def test_metrics_of_ffdls_file_come_out_once_also_those_written_last(job: Job) -> None:
    spec = json.dumps({"type": "emetrics_file", "in": "$RESULT_DIR/metrics.jsonl"})
    command = f"""echo '{FFDL_LINE}' >> $RESULT_DIR/metrics.jsonl; sleep 1.2
        echo '{{"key": "accuracy", "value": 97.5, "step": 31}}' >> $RESULT_DIR/metrics.jsonl"""
    learner = job.run(command, FFDL_METRICS_SPEC=spec)
    first, second = learner.events("metric")
    assert (first["key"], first["value"], first["step"], first["time"]) == ("loss", 0.25, 30, 1530000000.5)
    assert (first["grouplabel"], first["subid"], first["epoch"]) == ("train", "worker-1", 2)
    assert second == {"key": "accuracy", "value": 97.5, "step": 31}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ('{"type": "emetrics_file"}', "/logs/evaluation-metrics.txt"),
        ('{"type": "emetrics_file", "in": "$LOG_DIR_2/${LOG_DIR}/$OTHER/x"}', "/second//logs/$OTHER/x"),
        ('{"type": "regex_extractor", "in": "$LOG_DIR/x"}', None),
        ("", None),
        ("{broken", None),
        ("[]", None),
    ],
)
def test_the_metrics_file_is_the_manifests_with_variables_put_in(spec: str, path: str | None) -> None:
    assert metrics_place_of({"FFDL_METRICS_SPEC": spec, "LOG_DIR": "/logs", "LOG_DIR_2": "/second"}, "emetrics_file") == path


def test_metrics_of_an_earlier_attempt_are_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_text('{"key": "old", "value": 1}\n')
    file = MetricsFile(str(path))
    assert file.news() == []
    with path.open("a") as more:
        more.write('{"key": "new", "value": 2}\n{"key": "half", ')
    assert file.news() == [{"key": "new", "value": 2.0}]
    with path.open("a") as more:
        more.write('"value": 3}\n')
    assert file.news() == [{"key": "half", "value": 3.0}]


def test_a_metrics_file_that_is_written_anew_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "m"
    file = MetricsFile(str(path))
    path.write_text('{"key": "a", "value": 1}\n')
    assert [event["key"] for event in file.news()] == ["a"]
    path.write_text('{"key": "b", "value": 1}\n{"key": "c", "value": 1}\n')
    assert [event["key"] for event in file.news()] == ["b", "c"]
    path.write_text('{"key": "d", "value": 1}\n')
    assert [event["key"] for event in file.news()] == ["d"]


def test_lines_that_are_no_metrics_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "m"
    file = MetricsFile(str(path))
    path.write_bytes(b'no json\n[1]\n\xff\n{"values": 3}\n' + b"x" * (3 << 20) + b'\n{"key": "a", "value": "1e-3"}\n')
    assert file.news() == [{"key": "a", "value": 0.001}]


@pytest.mark.parametrize("value", [None, True, "much", [], {"type": "FLOAT"}])
def test_what_is_no_number_is_no_metric(value: object) -> None:
    assert events_of({"values": {"a": value}, "etimes": {"iteration": {"value": 1}}}) == []


def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    """A program may lay one anywhere below the job's directory; opening it would wait for a writer for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert Progress(str(pipe)).news() is None
    assert MetricsFile(str(pipe)).news() == []
    log = Log(1, str(pipe), out=os.open(os.devnull, os.O_WRONLY))
    log.say("still here")
    write_termination(str(pipe), {"exit_code": 0})
