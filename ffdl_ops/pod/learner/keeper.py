"""The process between the launcher and the program: nothing of the program outlives its end, or the launcher's.

The program may start what it likes, in process groups and sessions of its own (torchrun's workers have some). All of it stays
below the keeper, which adopts what loses its parent. When the program ends, or the launcher is gone, however it went, the
keeper kills what is left. The launcher says what to do by bytes in a pipe, whose end means that the launcher is gone.

A program that was asked to stop may still be saving after its shell has died of the same SIGTERM: then the keeper waits for the
whole process group before it takes the rest down.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time

from ffdl_ops.pod.learner.processes import adopt_orphans, end_descendants, end_with_parent, kill_descendants

__all__ = ["Ending", "Keeper"]

_STOP = b"T"
_KILL = b"K"
_LOOK_S = 0.1
_KILLING_S = 3.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Ending:
    """How the program ended.

    :param status: as `os.waitpid` gives it.
    :param stopped: whether it was asked to stop before.
    :param peak_bytes: resident memory of its largest process.
    """

    def __init__(self, status: int, stopped: bool, peak_bytes: int) -> None:
        self.status = status
        self.stopped = stopped
        self.peak_bytes = peak_bytes


class Keeper:
    """The launcher's hold on the program: starts it, stops it, and learns how it ended."""

    def __init__(self, command: str, directory: str, env: dict[str, str]) -> None:
        """Start a shell command; call it before there are threads. Raises `OSError` when no process can be made."""
        control, self._control = os.pipe()
        self.ending, ending = os.pipe()
        self.output, output = os.pipe()
        adopt_orphans()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        self.pid = os.fork()
        if self.pid == 0:
            for descriptor in (self._control, self.ending, self.output):
                os.close(descriptor)
            _keep(command, directory, env, control, ending, output)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for descriptor in (control, ending, output):
            os.close(descriptor)

    def stop(self) -> None:
        """Send SIGTERM to the program's process group."""
        self._tell(_STOP)

    def kill(self) -> None:
        """Send SIGKILL to everything of the program."""
        self._tell(_KILL)

    def result(self) -> Ending:
        """How the program ended; call it when `ending` can be read. All that it left is gone then."""
        text = b""
        while True:
            chunk = os.read(self.ending, 4096)
            if not chunk:
                break
            text += chunk
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        try:
            value = json.loads(text)
            # Without a status even SIGKILL could not end it yet.
            status = signal.SIGKILL if value["status"] is None else int(value["status"])
            return Ending(status, bool(value["stopped"]), int(value["peak_bytes"]))
        except (ValueError, KeyError):
            # Something killed the keeper; what it held is the launcher's now.
            end_descendants(_KILLING_S)
            return Ending(signal.SIGKILL, False, 0)

    def _tell(self, word: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._control, word)


def _keep(command: str, directory: str, env: dict[str, str], control: int, ending: int, output: int) -> None:
    """The keeper's whole life; does not return."""
    try:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        # What signals the pod's processes as a group must reach the launcher alone, which then stops the program in order.
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        adopt_orphans()
        wake, waker = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(waker, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(waker)
        program = os.fork()
        if program == 0:
            _run(command, directory, env, output)
        os.close(output)
        with contextlib.suppress(OSError):
            os.setpgid(program, program)
        _Watch(program, control, wake).until_the_end(ending)
    finally:
        os._exit(0)


def _run(command: str, directory: str, env: dict[str, str], output: int) -> None:
    """Become the program; does not return."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (*_SIGNALS, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.setpgid(0, 0)
        end_with_parent()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(directory)
        os.execve("/bin/sh", ["/bin/sh", "-c", command], env)
    except OSError as error:
        os.write(2, f"The program could not be started: {error}\n".encode())
    finally:
        os._exit(126)


class _Watch:
    """The program as the keeper sees it."""

    def __init__(self, program: int, control: int, wake: int) -> None:
        self._program = program
        self._control = control
        self._wake = wake
        self._status: int | None = None
        self._stopping = False
        self._stopped = False
        self._peak_bytes = 0

    def until_the_end(self, ending: int) -> None:
        """Watch the program until it has ended and nothing of it is left, then tell how."""
        while not self._is_over():
            ready, _, _ = select.select([self._control, self._wake], [], [], _LOOK_S if self._stopping else None)
            if self._wake in ready:
                os.read(self._wake, 4096)
            self._reap()
            if self._control in ready and not self._obey(os.read(self._control, 64)):
                break
        self._kill_all()
        value = {"status": self._status, "stopped": self._stopped, "peak_bytes": self._peak_bytes}
        with contextlib.suppress(OSError):
            os.write(ending, json.dumps(value).encode())

    def _is_over(self) -> bool:
        return self._status is not None and not (self._stopping and self._group_lives())

    def _obey(self, words: bytes) -> bool:
        """Do what the launcher says; whether there is anything to wait for after it."""
        if not words:
            return False
        if self._status is None:
            self._stopped = True
        if _STOP in words:
            self._stopping = True
            self._signal_group(signal.SIGTERM)
        if _KILL in words:
            self._kill_all()
        return True

    def _kill_all(self) -> None:
        """Kill and reap until nothing is left; what the kernel can't end at once is left to it after a moment."""
        deadline = time.monotonic() + _KILLING_S
        while self._reap() and time.monotonic() < deadline:
            self._signal_group(signal.SIGKILL)
            kill_descendants(os.getpid())
            time.sleep(0.002)

    def _reap(self) -> bool:
        """Take note of what has ended; whether any child is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self._peak_bytes = max(self._peak_bytes, usage.ru_maxrss * 1024)
            if pid == self._program:
                self._status = status

    def _group_lives(self) -> bool:
        try:
            os.killpg(self._program, 0)
        except OSError:
            return False
        return True

    def _signal_group(self, number: signal.Signals) -> None:
        # Once the program is reaped and its group empty, its number may belong to another's group.
        if self._status is None or self._group_lives():
            with contextlib.suppress(OSError):
                os.killpg(self._program, number)
