"""The bare arm's process: its image's environment and nothing of ours, its CPUs, and its end with the process that measures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ffdl_ops.adapters.settings import Settings
from ffdl_ops.core.errors import TemporaryError, UserError
from ffdl_ops.core.platform import PlatformConfig
from ffdl_ops.core.tenancy.tenants import Tenants
from ffdl_ops.lab.bench.overhead.arms import Setting, command_of, environment_of
from ffdl_ops.lab.bench.overhead.bare import BareArm, bare_environment
from ffdl_ops.lab.bench.overhead.records import Arm, Configuration
from ffdl_ops.lab.bench.overhead.started import Started, only_one

TABLE = """
images:
  "ffdl/learner:*":
    path_prepend: ["{python_prefix}/bin"]
    env: {OMP_NUM_THREADS: "1", OF_THE_IMAGE: "yes"}
"""
CPU = max(os.sched_getaffinity(0))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "images.yaml").write_text(TABLE)
    return Settings(tmp_path, tmp_path, PlatformConfig.load({}), Tenants.load({"tenants": [{"name": "vision"}]}), {})


@pytest.fixture
def setting(settings: Settings) -> Setting:
    nothing: Any = None
    one = Configuration("x", "pytorch", threads=3)
    return Setting(
        settings,
        one,
        "vision",
        "oh-test-1",
        "1Gi",
        None,
        "python3",
        (CPU,),
        "ffdl/learner:1",
        nothing,
        nothing,
        Started(settings),
    )


@pytest.fixture
def arm(setting: Setting) -> Iterator[BareArm]:
    made = BareArm(setting, Arm.BARE)
    yield made
    made.kill()


def wait_until(look: Any, within_s: float = 15.0) -> None:
    deadline = time.monotonic() + within_s
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.02)


SHOW = "exec python3 -c 'import json, os; print(json.dumps([dict(os.environ), sorted(os.sched_getaffinity(0)), os.getsid(0)]))'"


def test_it_has_what_its_image_gives_it_and_nothing_of_ours(arm: BareArm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_SECRET", "x")
    arm.start(SHOW)
    arm.await_end()
    environment, cpus, session = json.loads(arm.whole_log()[-1])
    assert environment["OF_THE_IMAGE"] == "yes" and environment["OMP_NUM_THREADS"] == "3"
    assert environment["PATH"].startswith(f"{sys.prefix}/bin:") and environment["CUDA_VISIBLE_DEVICES"] == ""
    assert not {"OUR_SECRET", "CHECKPOINT_DIR", "PYTHONPATH"} & set(environment)
    assert (cpus, session) == ([CPU], arm.process.pid)


def test_it_is_stopped_and_goes_on_with_all_its_processes(arm: BareArm) -> None:
    arm.start("sleep 1000 & exec sleep 1000")
    wait_until(lambda: len(arm.pids()) == 2 and {psutil.Process(pid).name() for pid in arm.pids()} == {"sleep"})
    arm.pause()
    wait_until(lambda: {psutil.Process(pid).status() for pid in arm.pids()} == {psutil.STATUS_STOPPED})
    assert arm.problem() is None
    arm.resume()
    wait_until(lambda: {psutil.Process(pid).status() for pid in arm.pids()} == {psutil.STATUS_SLEEPING})
    pids = arm.pids()
    arm.kill()
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids))


def test_how_it_ended_is_told_with_what_it_printed(arm: BareArm) -> None:
    arm.start("echo sorry; exit 7")
    wait_until(lambda: arm.problem() is not None)
    assert arm.problem() == "it has ended with exit code 7" and arm.log() == "sorry"
    with pytest.raises(TemporaryError, match="exit code 7"):
        arm.await_end()


_MEASURES = """
import sys, time
from tests.unit.bench.test_the_bare_program import *
path = Path(sys.argv[1])
settings = Settings(path, path, PlatformConfig.load({}), Tenants.load({"tenants": [{"name": "vision"}]}), {})
arm = BareArm(Setting(settings, Configuration("x", "pytorch"), "vision", "oh-test-2", "1Gi", None, "python3", (CPU,),
    "ffdl/learner:1", None, None, Started(settings)), Arm.BARE)
arm.start("exec sleep 1000")
print(arm.process.pid, flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("stopped", [False, True])
def test_it_does_not_outlive_a_measurement_that_is_killed(settings: Settings, stopped: bool) -> None:
    measuring = subprocess.Popen(
        [sys.executable, "-c", _MEASURES, str(settings.home)], stdout=subprocess.PIPE, text=True
    )
    assert measuring.stdout is not None
    pid = int(measuring.stdout.readline())
    wait_until(lambda: psutil.Process(pid).name() == "sleep")
    if stopped:
        os.kill(pid, signal.SIGSTOP)
    measuring.kill()
    measuring.wait()
    wait_until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_what_an_earlier_one_left_is_killed_and_a_stranger_with_its_number_is_not(settings: Settings) -> None:
    left, stranger = (subprocess.Popen(["sleep", "1000"], start_new_session=True) for _ in range(2))
    started = Started(settings)
    started.note_process(left.pid)
    started.note_process(stranger.pid)
    path = settings.home / "bench" / "overhead" / "started.json"
    entries = json.loads(path.read_text())
    entries[1]["mark"] = "another's"
    path.write_text(json.dumps(entries))
    nothing: Any = None
    try:
        assert Started(settings).end_all(nothing, nothing) == 1
        assert left.wait(10) == -signal.SIGKILL and stranger.poll() is None
        assert Started(settings).end_all(nothing, nothing) == 0
    finally:
        for one in (left, stranger):
            one.kill()
            one.wait()


def test_a_damaged_record_is_told_and_not_passed_over(settings: Settings) -> None:
    path = settings.home / "bench" / "overhead" / "started.json"
    path.parent.mkdir(parents=True)
    path.write_text('[{"kind"')
    nothing: Any = None
    with pytest.raises(UserError, match="started.json is damaged: see that no pod or run"):
        Started(settings).end_all(nothing, nothing)


def test_one_measurement_at_a_time(settings: Settings) -> None:
    with only_one(settings), pytest.raises(TemporaryError, match="Another measurement"), only_one(settings):
        pass
    with only_one(settings):
        pass


def test_an_image_that_is_not_in_the_table_is_named(settings: Settings) -> None:
    with pytest.raises(UserError, match="images.yaml has no pattern for the image 'other:1': add one"):
        bare_environment(settings, "other:1", {}, settings.home)


def test_arms_differ_in_their_command_in_nothing_but_what_they_leave_out(setting: Setting) -> None:
    commands = {arm: command_of(setting, arm, "--arm", "A b") for arm in Arm}
    assert commands[Arm.PLATFORM].startswith("exec python3 --framework pytorch --model x --batch 8 ")
    assert commands[Arm.PLATFORM].endswith("--threads 3 --data jpeg --arm 'A b'")
    assert {command.replace("env -u CHECKPOINT_DIR ", "") for command in commands.values()} == {commands[Arm.PLATFORM]}
    assert "env -u CHECKPOINT_DIR" in commands[Arm.NO_CHECKPOINT] and "env" not in commands[Arm.NO_SIDECAR]
    assert environment_of(setting.configuration) == {"OMP_NUM_THREADS": "3"}
