"""Learner pods without a cluster: the launcher's real archive, run as real processes with a pod's environment."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) \[learner (\d+)\] (.*)")


class Job:
    """A job's volume, on which its learners meet.

    :param root: its directory.
    :param launcher: the archive.
    """

    def __init__(self, root: Path, launcher: Path) -> None:
        self.root = root
        self.launcher = launcher
        self.learners: list[Learner] = []
        for name in ("code", "data", "state"):
            (root / name).mkdir(parents=True, exist_ok=True)

    def start(self, command: str, *, rank: int = 0, learners: int = 1, attempt: int = 1, **env: str) -> Learner:
        """Start a learner; further keywords are variables of its environment."""
        learner = Learner(self, command, rank, learners, attempt, env)
        self.learners.append(learner)
        return learner

    def run(self, command: str, **options: Any) -> Learner:
        """Start a learner and wait for its end."""
        learner = self.start(command, **options)
        learner.wait()
        return learner

    def close(self) -> None:
        """End what still runs."""
        for learner in self.learners:
            learner.kill()
            learner.process.wait()


class Learner:
    """One learner's pod."""

    def __init__(self, job: Job, command: str, rank: int, learners: int, attempt: int, env: dict[str, str]) -> None:
        root, self.rank = job.root, rank
        self.log_dir = root / "logs" / f"attempt-{attempt}"
        self.termination = root / f"termination-{rank}"
        self.out = root / f"stdout-{attempt}-{rank}"
        values = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "DATA_DIR": str(root / "data"),
            "RESULT_DIR": str(root / "results"),
            "CHECKPOINT_DIR": str(root / "checkpoints"),
            "MODEL_DIR": str(root / "code"),
            "LOG_DIR": str(self.log_dir),
            "JOB_STATE_DIR": str(root / "state"),
            "LEARNER_ID": str(rank + 1),
            "NUM_LEARNERS": str(learners),
            "TRAINING_ID": "job-0123456789",
            "TRAINING_COMMAND": command,
            "FFDL_ATTEMPT": str(attempt),
            "FFDL_RANK": str(rank),
            "FFDL_BASE_PORT": str(free_port()),
            "FFDL_GRACE_SECONDS": "20",
            "FFDL_START_TIMEOUT_SECONDS": "20",
            "FFDL_TERMINATION_LOG": str(self.termination),
            "POD_IP": f"127.0.0.{rank + 1}",
            "POD_NAME": f"job-0123456789-a{attempt}-l{rank}",
            **env,
        }
        with self.out.open("wb") as out:
            # Isolated and without site-packages, as in an image that holds nothing of ours.
            argv = [sys.executable, "-I", "-S", str(job.launcher)]
            self.process = subprocess.Popen(argv, env=values, stdout=out, stderr=subprocess.STDOUT, cwd="/")

    @property
    def lines(self) -> list[str]:
        """What the program printed, without time stamps and the launcher's own lines."""
        return [text for text in self._texts() if not text.startswith(("ffdl:", "launcher:"))]

    @property
    def said(self) -> list[str]:
        """What the launcher said to people."""
        return [text for text in self._texts() if text.startswith("launcher:")]

    @property
    def report(self) -> dict[str, Any]:
        """The exit report."""
        return json.loads((self.log_dir / f"learner-{self.rank + 1}.exit.json").read_text())

    def events(self, name: str) -> list[dict[str, Any]]:
        """The launcher's structured lines of a kind."""
        head = f"ffdl:{name} "
        return [json.loads(text[len(head) :]) for text in self._texts() if text.startswith(head)]

    def wait(self, within_s: float = 60.0) -> int:
        """Wait for its end; its exit code."""
        return self.process.wait(within_s)

    def stop(self) -> None:
        """Send the launcher SIGTERM, as a cluster does."""
        self.process.terminate()

    def kill(self) -> None:
        """Send the launcher SIGKILL."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)

    def wait_line(self, text: str, within_s: float = 60.0) -> None:
        """Wait until the program has printed a line with this text."""
        eventually(f"a line with {text!r}", lambda: any(text in line for line in self.lines), within_s)

    def _texts(self) -> list[str]:
        found = [_LINE.fullmatch(line) for line in self.out.read_text().splitlines()]
        return [match[3] for match in found if match]


def eventually(what: str, look: Callable[[], Any], within_s: float = 20.0) -> Any:
    """Wait until `look` gives something true."""
    deadline = time.monotonic() + within_s
    while True:
        value = look()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def free_port() -> int:
    """A port on which no one listens."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
