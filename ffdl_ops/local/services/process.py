"""A service as a process of ours: started in a session of its own, known by pid and start time, stopped with its children.

The pid alone is never trusted: after a reboot, or a long time, it may be a stranger's.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from ffdl_ops.core.errors import FfdlError, UserError

__all__ = ["Process", "ServiceFailed", "check_port_free"]

_STOP_S = 15.0


class ServiceFailed(FfdlError):
    """A service that did not come up; the message ends with the tail of its log."""


def check_port_free(port: int, service: str) -> None:
    """Refuse a port that somebody else listens on.

    :raises UserError: naming port, service and the setting to change.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise UserError(
                f"Port {port}, which {service} needs, is taken by another program. Stop that program, or choose another "
                f"port: `ports.{service}` in config/platform.yaml, or FFDL_PORT_{service.upper()} in the environment."
            ) from None


@dataclass(frozen=True)
class Process:
    """One service's process.

    :param name: the service.
    :param run_dir: where its pid is kept.
    :param log: where its output goes.
    """

    name: str
    run_dir: Path
    log: Path

    @property
    def _record(self) -> Path:
        return self.run_dir / f"{self.name}.json"

    def find(self) -> psutil.Process | None:
        """The living process that we started, or ``None``."""
        try:
            record = json.loads(self._record.read_text())
            process = psutil.Process(int(record["pid"]))
            if abs(process.create_time() - float(record["started"])) < 1.0 and process.status() != psutil.STATUS_ZOMBIE:
                return process
        except (OSError, ValueError, KeyError, psutil.Error):
            pass
        return None

    def start(self, command: Sequence[str], environment: Mapping[str, str], cwd: Path | None = None) -> None:
        """Start the process unless it lives."""
        if self.find() is not None:
            return
        self.run_dir.mkdir(parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                list(command), env=dict(environment), cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        record = {"pid": child.pid, "started": psutil.Process(child.pid).create_time()}
        temporary = self._record.with_suffix(".tmp")
        temporary.write_text(json.dumps(record))
        temporary.replace(self._record)

    def wait_ready(self, ready: Callable[[], bool], *, within_s: float) -> None:
        """Wait until the service answers.

        :raises ServiceFailed: when it ends or does not answer in time.
        """
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if self.find() is None:
                raise ServiceFailed(f"{self.name} has ended while it started. The end of its log:\n{self.tail()}")
            try:
                if ready():
                    return
            except (OSError, ValueError, KeyError):
                pass
            time.sleep(0.1)
        raise ServiceFailed(f"{self.name} does not answer after {within_s:.0f} s. The end of its log:\n{self.tail()}")

    def tail(self, lines: int = 15) -> str:
        """The end of its log."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return "(it has no log)"

    def stop(self, *, within_s: float = _STOP_S) -> bool:
        """Stop the process and all its children: asked first, then killed.

        :returns: whether it lived.
        """
        process = self.find()
        if process is None:
            self._record.unlink(missing_ok=True)
            return False
        family = [*process.children(recursive=True), process]
        _signal(family, signal.SIGTERM)
        _, living = psutil.wait_procs(family, timeout=within_s)
        _signal(living, signal.SIGKILL)
        psutil.wait_procs(living, timeout=5)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)
        self._record.unlink(missing_ok=True)
        return True


def _signal(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.Error:
            continue
