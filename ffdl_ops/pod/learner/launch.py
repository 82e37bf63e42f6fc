"""The user's program as a child of ours: its own process group, its output by line, its end in every way it may come."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import threading
import time

from ffdl_ops.pod.learner.environment import program_environment
from ffdl_ops.pod.learner.progress import Progress

__all__ = ["Launch"]

_MARGIN_S = 5.0
_FLUSH_S = 1.0
_PR_SET_PDEATHSIG = 1


class Launch:
    """One run of the user's program."""

    def __init__(self, learner, output):  # type: ignore[no-untyped-def]
        self._learner = learner
        self._output = output
        self._child = None  # type: subprocess.Popen[bytes] | None
        self.asked_to_stop = False
        self._killed = False

    def take_signals(self):  # type: () -> None
        """Pass SIGTERM and SIGINT on to the program instead of ending."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def run(self, peers):  # type: ignore[no-untyped-def]
        """Run the program to its end; returns the facts of the exit report."""
        started = time.monotonic()
        env = program_environment(self._learner, peers)
        self._child = subprocess.Popen(
            ["/bin/sh", "-c", self._learner.command],
            cwd=self._learner.code_dir,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=_own_group_and_end_with_us,
        )
        if self.asked_to_stop:
            self._stop()
        progress = Progress(self._learner, self._output)
        progress.start()
        reader = threading.Thread(target=self._read, daemon=True)
        reader.start()
        code = self._child.wait()
        self._end_group(signal.SIGKILL)
        reader.join(timeout=5.0)
        progress.stop()
        return self._facts(code, time.monotonic() - started, progress.step)

    def _facts(self, code, seconds, step):  # type: ignore[no-untyped-def]
        number = -code if code < 0 else (code - 128 if code > 128 else None)
        exit_code = 128 - code if code < 0 else code
        if self.asked_to_stop and code != 0:
            exit_code = 143
        elif self.asked_to_stop:
            # It saved and left as it was told; that is no success of the training.
            exit_code = 143
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "exit_code": exit_code,
            "program_exit_code": code,
            "signal": number,
            "duration_s": round(seconds, 3),
            "peak_rss_bytes": usage.ru_maxrss * 1024,
            "step": step,
            "terminated_by_platform": self.asked_to_stop,
            "killed_after_grace": self._killed,
        }

    def _read(self):  # type: () -> None
        """Pass the program's output on, line by line; a line without an end is passed on after a moment."""
        rest = b""
        stream = self._child.stdout  # type: ignore[union-attr]
        while True:
            chunk = os.read(stream.fileno(), 65536)  # type: ignore[union-attr]
            if not chunk:
                break
            rest += chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            *lines, rest = rest.split(b"\n")
            for line in lines:
                self._output.line(line.decode("utf-8", "replace"))
            if len(rest) > 1 << 16:
                self._output.line(rest.decode("utf-8", "replace"))
                rest = b""
        if rest:
            self._output.line(rest.decode("utf-8", "replace"))

    def _on_signal(self, number, frame):  # type: ignore[no-untyped-def]
        if not self.asked_to_stop:
            self.asked_to_stop = True
            self._stop()

    def _stop(self):  # type: () -> None
        """Ask the program to save and stop; kill it shortly before our own grace ends."""
        if self._child is None:
            return
        self._end_group(signal.SIGTERM)
        timer = threading.Timer(max(1.0, self._learner.grace_s - _MARGIN_S), self._kill)
        timer.daemon = True
        timer.start()

    def _kill(self):  # type: () -> None
        self._killed = True
        self._end_group(signal.SIGKILL)

    def _end_group(self, number):  # type: (int) -> None
        with contextlib.suppress(OSError):
            os.killpg(self._child.pid, number)  # type: ignore[union-attr]


def _own_group_and_end_with_us():  # type: () -> None
    """A group of its own, to be signalled whole; and the kernel ends the program if we are killed."""
    os.setpgid(0, 0)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
