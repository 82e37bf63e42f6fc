"""The log goes to a file and to standard output; neither can stop the training."""

from __future__ import annotations

import os
import re
import threading
import time
from pathlib import Path

import pytest

from ffdl_ops.pod.learner import logs
from ffdl_ops.pod.learner.logs import Log
from tests.unit.learner.pods import Job, eventually


def test_a_full_disk_is_warned_of_once_and_the_training_goes_on(job: Job) -> None:
    (job.root / "logs/attempt-1").mkdir(parents=True)
    (job.root / "logs/attempt-1/learner-1.log").symlink_to("/dev/full")
    learner = job.run("echo one; sleep 0.1; echo two; sleep 0.1; echo three")
    assert (learner.wait(), learner.lines) == (0, ["one", "two", "three"])
    assert len([line for line in learner.said if "log file can't be written" in line]) == 1


def test_what_was_not_kept_is_told_in_the_file_when_there_is_room_again(tmp_path: Path) -> None:
    out = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    path = tmp_path / "log"
    path.symlink_to("/dev/full")
    log = Log(1, str(path), out)
    log.lines(["lost", "lost too"])
    path.unlink()
    log.lines(["kept"])
    os.close(out)
    note, line = path.read_text().strip().splitlines()
    assert "2 lines are missing here" in note
    assert line.endswith("[learner 1] kept")


def test_a_standard_output_that_no_one_reads_holds_the_program_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_PATIENCE_S", 0.2)
    monkeypatch.setattr(logs, "_QUEUE_BYTES", 10_000)
    read, write = os.pipe()
    log = Log(1, str(tmp_path / "log"), write)
    log.start()
    started = time.monotonic()
    for number in range(300):
        log.lines([f"{number} " + "x" * 1000])
    assert 0.2 <= time.monotonic() - started < 3.0
    got = bytearray()

    def take() -> None:
        while chunk := os.read(read, 1 << 16):
            got.extend(chunk)

    reader = threading.Thread(target=take)
    reader.start()
    eventually("there is room again", lambda: log.lines(["more"]) or b"were left out here" in got)
    log.lines(["now someone reads"])
    log.close()
    os.close(write)
    reader.join()
    os.close(read)
    kept, shown = (tmp_path / "log").read_text(), got.decode()
    assert all(f"] {number} xxx" in kept for number in range(300))
    assert 50 < shown.count("xxx\n") < 300
    left_out = sum(int(count) for count in re.findall(r"launcher: (\d+) lines were left out here", shown))
    assert shown.count("xxx\n") + shown.count("] more\n") + left_out == 300 + kept.count("] more\n")
    assert shown.endswith("[learner 1] now someone reads\n")


def test_a_reader_that_has_gone_does_not_end_the_training(job: Job) -> None:
    learner = job.run(f'sh -c "exec {job.root}/gone" | true; sleep 0.1; seq 5000; exit 7')
    assert learner.wait() == 7
    read, write = os.pipe()
    log = Log(1, str(job.root / "log"), write)
    os.close(read)
    log.lines(["one"])
    log.start()
    log.lines(["two"])
    log.close()
    os.close(write)
    assert [line.rpartition(" ")[2] for line in (job.root / "log").read_text().splitlines()] == ["one", "two"]
