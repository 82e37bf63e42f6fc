"""Starting, finding and stopping a service's process: never a stranger's, always with its children."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ffdl_ops.adapters.processes import birth_mark
from ffdl_ops.local.services.errors import ServiceFailed
from ffdl_ops.local.services.process import Process, fingerprint, stop_all, tail

PARENT = "import subprocess, time; subprocess.Popen(['sleep', '60']); print('ready', flush=True); time.sleep(60)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    service = Process("thing", tmp_path)
    yield service
    stop_all([service], within_s=0)


def spawn(process: Process, program: str) -> psutil.Process:
    process.spawn([sys.executable, "-S", "-c", program], {"PATH": os.environ["PATH"]}, "mark")
    process.wait_ready(lambda: "ready" in tail(process.log), within_s=20)
    found = process.find()
    assert found is not None
    return found


def test_what_was_started_is_found_by_another_call(process: Process) -> None:
    started = spawn(process, PARENT)
    again = Process("thing", process.home)
    assert again.find() == started
    assert again.runs_as("mark")
    assert not again.runs_as("another mark")


def test_children_end_with_it(process: Process) -> None:
    leader = spawn(process, PARENT)
    children = leader.children(recursive=True)
    assert children
    assert stop_all([process], within_s=5) == ["thing"]
    assert not [one for one in [leader, *children] if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    assert process.record() == {}


def test_children_of_a_killed_leader_end_too(process: Process) -> None:
    leader = spawn(process, PARENT)
    children = leader.children(recursive=True)
    leader.kill()
    leader.wait(5)
    assert process.find() is None
    assert children[0].is_running()
    assert stop_all([process], within_s=5) == ["thing"]
    assert not [one for one in children if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def test_one_that_does_not_listen_is_killed(process: Process) -> None:
    leader = spawn(process, DEAF)
    began = time.monotonic()
    assert stop_all([process], within_s=0.3) == ["thing"]
    assert time.monotonic() - began < 5
    assert not leader.is_running() or leader.status() == psutil.STATUS_ZOMBIE


def test_a_pid_that_was_used_again_is_a_strangers(process: Process) -> None:
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        process.adopt(stranger.pid, "mark")
        assert process.find() is not None
        path = process.home / "run" / "thing.json"
        path.write_text(json.dumps({**process.record(), "mark": "another boot:1"}))
        assert process.find() is None
        assert stop_all([process], within_s=1) == []
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("record", ["", "{", "[]", '{"pid": "x"}', '{"pid": 1}', '{"pid": 999999999, "mark": "m"}'])
def test_a_broken_record_means_that_nothing_runs(process: Process, record: str) -> None:
    path = process.home / "run" / "thing.json"
    path.parent.mkdir()
    path.write_text(record)
    assert process.find() is None
    assert stop_all([process], within_s=0) == []


def test_one_that_ends_while_it_starts_is_an_error_with_the_end_of_its_log(process: Process) -> None:
    process.spawn([sys.executable, "-S", "-c", "raise SystemExit('the reason')"], {}, "mark")
    with pytest.raises(ServiceFailed, match="the reason"):
        process.wait_ready(lambda: False, within_s=20)


def test_one_that_does_not_answer_in_time_is_an_error(process: Process) -> None:
    spawn(process, DEAF)
    with pytest.raises(ServiceFailed, match="does not answer"):
        process.wait_ready(lambda: False, within_s=0.1)


def test_a_process_has_one_mark_for_its_life_and_none_afterwards() -> None:
    child = subprocess.Popen(["sleep", "60"])
    mark = birth_mark(child.pid)
    assert mark is not None
    assert birth_mark(child.pid) == mark
    assert birth_mark(os.getpid()) != mark
    child.kill()
    child.wait()
    assert birth_mark(child.pid) is None


def test_the_fingerprint_changes_with_command_and_settings_and_not_with_order() -> None:
    base = fingerprint(["a", "b"], {"X": "1", "Y": "2"})
    assert base == fingerprint(["a", "b"], {"Y": "2", "X": "1"})
    assert len({base, fingerprint(["a b"], {"X": "1", "Y": "2"}), fingerprint(["a", "b"], {"X": "1", "Y": "3"})}) == 3
