"""The exit report: evidence for what ended a learner."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ffdl_ops.pod.learner.lastwords import last_words
from ffdl_ops.pod.learner.memory import count_oom_kills
from ffdl_ops.pod.learner.report import End, as_report, write_termination
from tests.unit.learner.pods import Job

FAILING = """
def deeper():
    try:
        {}["batch"]
    except KeyError as error:
        raise ValueError("no batch: größe") from error
print("loading")
deeper()
"""


def test_the_last_traceback_is_kept_with_what_it_came_from(job: Job) -> None:
    (job.root / "code/train.py").write_text(FAILING)
    learner = job.run("python3 train.py")
    report = learner.report
    assert (report["exit_code"], report["oom"]) == (1, False)
    words = report["last_traceback"].splitlines()
    assert words[0] == "Traceback (most recent call last):"
    assert "KeyError: 'batch'" in words
    assert words[-1] == "ValueError: no batch: größe"
    assert json.loads(learner.termination.read_text())["last_traceback"].endswith("ValueError: no batch: größe")


def test_a_success_has_no_last_words_whatever_was_printed(job: Job) -> None:
    (job.root / "code/train.py").write_text("import traceback\ntry:\n 1/0\nexcept Exception: traceback.print_exc()")
    report = job.run("python3 train.py").report
    assert (report["exit_code"], report["last_traceback"], report["oom"]) == (0, None, False)
    assert "reason" not in report


def test_an_end_without_traceback_shows_the_last_line(job: Job) -> None:
    report = job.run("echo fine; no-such-command-here").report
    assert report["last_traceback"] is None
    assert "no-such-command-here: not found" in report["reason"] or "command not found" in report["reason"]


def test_a_python_that_runs_out_of_memory_says_so(job: Job) -> None:
    report = job.run("ulimit -v 400000; python3 -c 'x = bytearray(2 << 30)'").report
    assert report["oom"] is True
    assert report["last_traceback"].endswith("MemoryError")


def test_peak_memory_covers_all_processes_together(job: Job) -> None:
    one = "python3 -c 'import time; x = bytearray(60 << 20); time.sleep(1.5)'"
    report = job.run(f"{one} & {one} & wait").report
    assert 120 << 20 < report["peak_rss_bytes"] < 240 << 20


def test_peak_memory_of_a_short_program_is_seen_too(job: Job) -> None:
    assert job.run("python3 -c 'bytearray(80 << 20)'").report["peak_rss_bytes"] > 80 << 20


def test_duration_and_moments_are_told(job: Job) -> None:
    before = time.time()
    report = job.run("sleep 0.3").report
    assert 0.3 <= report["duration_s"] <= time.time() - before
    assert report["started_at"] < report["ended_at"]


def test_the_exit_event_is_the_report(job: Job) -> None:
    learner = job.run("exit 9")
    assert learner.events("exit") == [learner.report]


@pytest.mark.parametrize("filler", ["x", "é", "\U0001f600", '"'])
def test_a_termination_message_fits_and_keeps_the_end(tmp_path: Path, filler: str) -> None:
    path = tmp_path / "termination"
    end = End(1, 0.0, program_exit_code=1)
    lines = ["Traceback (most recent call last):", f"  {filler * 9000}", "ValueError: the end"]
    write_termination(str(path), as_report(end, lines, 1.0))
    report = json.loads(path.read_text())
    assert 3000 < path.stat().st_size <= 4096
    assert report["last_traceback"].endswith("ValueError: the end")
    assert report["exit_code"] == 1


TRACEBACK = ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "    f()"]


@pytest.mark.parametrize(
    ("lines", "last"),
    [
        ([*TRACEBACK, "OSError: [Errno 28] full", "a later line"], "OSError: [Errno 28] full"),
        ([*[f"[rank1]: {line}" for line in TRACEBACK], "[rank1]: RuntimeError: peer"], "RuntimeError: peer"),
        ([*TRACEBACK, "ValueError: old", "epoch 2", *TRACEBACK, "ValueError: new"], "ValueError: new"),
        (["ok", "terminate called after throwing an instance of 'std::bad_alloc'", "  what():  std::bad_alloc"],
         "  what():  std::bad_alloc"),
        (["Fatal Python error: Segmentation fault"], "Fatal Python error: Segmentation fault"),
        ([*TRACEBACK, "ValueError: handled", *["step"] * 50, "Killed"], "Killed"),
    ],
)  # fmt: skip
def test_last_words_are_the_ones_that_came_last(lines: list[str], last: str) -> None:
    words = last_words(lines)
    assert words is not None
    assert words.splitlines()[-1] == last


@pytest.mark.parametrize(
    "lines", [[], ["fine"], ["Killed", *["step=1"] * 60], ["CUDA error: no device, on the CPU then"]]
)
def test_what_a_program_says_in_passing_are_no_last_words(lines: list[str]) -> None:
    assert last_words(lines) is None


@pytest.mark.parametrize(
    ("message", "oom"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", True),
        ("RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 99", True),
        ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 9. GiB", True),
        ("OSError: [Errno 12] Cannot allocate memory", True),
        ("ValueError: memory is a wrong word here", False),
    ],
)
def test_words_of_exhausted_memory_are_known(message: str, oom: bool) -> None:
    assert as_report(End(1, 0.0, program_exit_code=1), [*TRACEBACK, message], 1.0)["oom"] is oom


def test_a_kill_by_the_kernel_is_memory_even_if_the_program_ended_well() -> None:
    """Pitfall 21: a process was killed for memory, and the exit code is 0."""
    assert as_report(End(0, 0.0, program_exit_code=0, oom_kills=1), [], 1.0)["oom"] is True
    assert as_report(End(137, 0.0, program_exit_code=137), ["step=1"], 1.0)["oom"] is False


@pytest.mark.parametrize(
    ("membership", "file", "text"),
    [
        ("0::/pod/c\n", "pod/c/memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 1\n"),
        ("0::/\n", "memory.events", "oom_kill 2\n"),
        ("0::/not/seen/in/the/container\n", "memory.events", "oom_kill 2\n"),
        ("9:pids:/x\n4:memory:/pod\n0::/\n", "memory/pod/memory.oom_control", "under_oom 0\noom_kill 2\n"),
        ("4:memory:/elsewhere\n", "memory/memory.oom_control", "oom_kill 2\n"),
        ("0::/\n", "other", ""),
    ],
)
def test_the_kernels_count_is_found_in_both_kinds_of_cgroups(
    tmp_path: Path, membership: str, file: str, text: str
) -> None:
    (tmp_path / "membership").write_text(membership)
    path = tmp_path / "root" / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    found = count_oom_kills(str(tmp_path / "membership"), str(tmp_path / "root"))
    assert found == (2 if text else 0)
