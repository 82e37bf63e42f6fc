"""Starting when something is in the way, and stopping exactly what was started."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest

from ffdl_ops.core.errors import UserError
from ffdl_ops.local.services.errors import ServiceFailed
from tests.support.platform import FFDL, REPOSITORY, Platform, new_platform

pytestmark = pytest.mark.slow


def of_home(platform: Platform) -> list[psutil.Process]:
    """Processes that work for this platform."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cwd().startswith(str(platform.home)):
                found.append(process)
    return found


def test_a_taken_port_is_named_before_anything_starts() -> None:
    with new_platform() as platform, socket.socket() as stranger:
        stack = platform.stack
        stranger.bind(("127.0.0.1", stack.ports["mlflow"]))
        stranger.listen()
        with pytest.raises(UserError) as refused:
            stack.up()
        for word in (str(stack.ports["mlflow"]), "mlflow", "FFDL_PORT_MLFLOW", "platform.yaml"):
            assert word in str(refused.value)
        assert not of_home(platform)
        assert stack.postgres.process is None


def test_when_a_part_fails_what_was_started_is_stopped_again_and_its_log_is_shown() -> None:
    with new_platform() as platform:
        (platform.home / "config" / "nodes.yaml").write_text("nodes: [{name: [}\n")
        stack = platform.stack
        with pytest.raises(ServiceFailed) as failed:
            stack.up()
        assert "minicluster" in str(failed.value)
        assert "nodes" in str(failed.value)
        assert not of_home(platform)
        assert stack.postgres.process is None


def test_only_one_up_or_down_of_a_home_works_at_a_time() -> None:
    with new_platform() as platform:
        with platform.stack._alone(), pytest.raises(UserError, match="wait for it"):
            platform.stack.down()
        assert platform.stack.down() == []


def test_an_interrupted_up_leaves_nothing_behind() -> None:
    with new_platform() as platform:
        command = [*FFDL, "up"]
        child = subprocess.Popen(
            command,
            env=platform.environment,
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert child.stdout is not None
        for line in child.stdout:
            if "minicluster" in line:  # the slow ones are still on their way
                break
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=60) == 130
        assert not of_home(platform)
        assert platform.stack.postgres.process is None


def test_a_pid_that_is_a_strangers_by_now_is_never_touched() -> None:
    with new_platform() as platform:
        stack = platform.stack
        stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
        try:
            process = stack.process("s3")
            process.adopt(stranger.pid, "x")
            record = (platform.home / "run" / "s3.json").read_text()
            boot, _, ticks = process.record()["mark"].rpartition(":")
            (platform.home / "run" / "s3.json").write_text(record.replace(ticks, str(int(ticks) - 1)))
            assert process.find() is None
            assert stack.down() == []
            assert stranger.poll() is None
        finally:
            stranger.kill()
            stranger.wait()


def test_a_killed_test_run_leaves_no_platform() -> None:
    """The guard stops what a test process that was killed has left."""
    program = (
        "import sys, time\n"
        "from tests.support.platform import new_platform\n"
        "with new_platform() as platform:\n"
        "    platform.stack.postgres.start()\n"
        "    print(platform.home, flush=True)\n"
        "    time.sleep(600)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    home = child.stdout.readline().strip()
    assert os.path.isdir(home)
    child.kill()
    child.wait()
    deadline = time.monotonic() + 60
    while os.path.exists(home):
        assert time.monotonic() < deadline
        time.sleep(0.1)
