"""A service as a process of ours: in a session of its own, known by pid and birth mark, stopped with its children.

What is running is read from `FFDL_HOME/run/<service>.json`, so any later call (of another `ffdl`, after a crash of the
first) finds, reuses and stops it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ffdl_ops.adapters.processes import birth_mark, living, members_of_session
from ffdl_ops.local.services.errors import ServiceFailed

__all__ = ["Process", "fingerprint", "stop_all", "tail"]

_POLL_S = 0.05
_KILL_S = 5.0
_TAIL_LINES = 15


def fingerprint(command: Sequence[str], settings: Mapping[str, str]) -> str:
    """A digest of what a service was started with; the platform restarts one that differs from the configuration."""
    text = json.dumps([list(command), sorted(settings.items())])
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Process:
    """One service's process.

    :param name: the service.
    :param home: FFDL_HOME.
    """

    name: str
    home: Path

    @property
    def log(self) -> Path:
        """Where its output goes."""
        return self.home / "logs" / f"{self.name}.log"

    @property
    def _record(self) -> Path:
        return self.home / "run" / f"{self.name}.json"

    def find(self) -> psutil.Process | None:
        """The living process that was started for this service, or ``None``."""
        pid = living(self.record())
        with contextlib.suppress(psutil.Error):
            return psutil.Process(pid) if pid is not None else None
        return None

    def record(self) -> dict[str, Any]:
        """What was kept of its start; empty when there is nothing."""
        try:
            record = json.loads(self._record.read_text())
        except (OSError, ValueError):
            return {}
        return record if isinstance(record, dict) else {}

    def runs_as(self, mark: str) -> bool:
        """Whether it lives and was started with what the fingerprint stands for."""
        return self.find() is not None and self.record().get("fingerprint") == mark

    def spawn(self, command: Sequence[str], environment: Mapping[str, str], mark: str) -> None:
        """Start the process, in FFDL_HOME as its directory, by which its children are known.

        :param mark: the fingerprint to keep with it.
        """
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                list(command), env=dict(environment), cwd=self.home,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.adopt(child.pid, mark)

    def adopt(self, pid: int, mark: str) -> None:
        """Keep a process, which leads a session of its own, as this service's."""
        self._record.parent.mkdir(parents=True, exist_ok=True)
        record = {"pid": pid, "mark": birth_mark(pid), "fingerprint": mark, "since": time.time()}
        temporary = self._record.with_suffix(".tmp")
        temporary.write_text(json.dumps(record))
        temporary.replace(self._record)

    def wait_ready(self, ready: Callable[[], bool], *, within_s: float) -> None:
        """Wait until the service answers.

        :raises ServiceFailed: when it ends, or does not answer in time; with the end of its log.
        """
        deadline = time.monotonic() + within_s
        while True:
            with contextlib.suppress(OSError, ValueError, KeyError):
                if ready():
                    return
            if self.find() is None:
                raise ServiceFailed(f"{self.name} has ended while it started. The end of {self.log}:\n{tail(self.log)}")
            if time.monotonic() > deadline:
                raise ServiceFailed(
                    f"{self.name} does not answer after {within_s:.0f} s. The end of {self.log}:\n{tail(self.log)}"
                )
            time.sleep(_POLL_S)

    def family(self) -> list[psutil.Process]:
        """The process with its children, also those whose parent has died; the leader first."""
        leader = self.find()
        pid = self.record().get("pid")
        if leader is not None:
            with contextlib.suppress(psutil.Error):
                return [leader, *leader.children(recursive=True)]
        if not isinstance(pid, int) or birth_mark(pid) is not None:  # never started, or the pid is a stranger's by now
            return []
        return members_of_session(pid, self.home)

    def listens_on(self, port: int) -> bool:
        """Whether it, or a child of it, is who listens on a port."""
        for member in self.family():
            with contextlib.suppress(psutil.Error):
                if any(one.laddr.port == port for one in member.net_connections("tcp") if one.status == "LISTEN"):
                    return True
        return False

    def forget(self) -> None:
        """Drop the record of a service that has been stopped."""
        self._record.unlink(missing_ok=True)


def stop_all(processes: Sequence[Process], *, within_s: float) -> list[str]:
    """Stop services with their children, all at once: each leader is asked, and what lives on after a while is killed.

    :returns: the names of those that lived.
    """
    families = {process: process.family() for process in processes}
    everyone = [member for members in families.values() for member in members]
    leaders = [members[0] for members in families.values() if members]
    _signal(leaders, signal.SIGTERM)
    psutil.wait_procs(leaders, timeout=within_s)
    # Its leader gone, a child has no more to wait for.
    rest = [member for member in everyone if _lives(member)]
    rest += [child for process in processes for child in process.family() if child not in rest]
    _signal(rest, signal.SIGKILL)
    psutil.wait_procs(rest, timeout=_KILL_S)
    for process, members in families.items():
        for member in members[:1]:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(member.pid, os.WNOHANG)
        process.forget()
    return [process.name for process, members in families.items() if members]


def tail(log: Path, lines: int = _TAIL_LINES) -> str:
    """The end of a log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(there is no log)"


def _lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _signal(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)
