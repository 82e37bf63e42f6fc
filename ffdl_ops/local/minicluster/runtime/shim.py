"""Runs one container's process and outlives the server: keeps its output, and writes down how it ended.

A shim is a fork of the spawner (see spawner.py), one per start of a container, with a directory of its own:

- ``spec.json`` (given): argv, environment, directory, uid, limits;
- ``started.json``: the shim's and the container's pid and start time, once the program runs;
- ``log``: the output, each line as ``<RFC 3339 time> stdout F <text>`` (``P``: the line goes on in the next entry);
- ``exit.json``: exit code or signal and the moment, written once, by rename, when every process of the container is gone.

As a subreaper it is the parent of whatever the program leaves behind, so that nothing of a container survives it.
Standard library alone: it runs without the virtual environment's packages.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import time
from typing import Any

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_NO_NEW_PRIVS = 38  # PR_SET_NO_NEW_PRIVS
_SET_NAME = 15  # PR_SET_NAME
_DRAIN_S = 2.0
_LIBC = ctypes.CDLL(None, use_errno=True)


def start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot: with the pid it names a process for good."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def descendants(root: int) -> list[int]:
    """All living processes below a process."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] != b"Z":
                children.setdefault(int(fields[1]), []).append(int(entry))
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def write_json(path: str, value: Any) -> None:
    """Write a file at once or not at all."""
    with open(f"{path}.tmp", "w") as file:
        json.dump(value, file)
    os.replace(f"{path}.tmp", path)


class _Log:
    """The container's log."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def take(self, data: bytes) -> None:
        now = time.time_ns()
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 10**9))
        stamp = f"{moment}.{now % 10**9:09d}Z stdout ".encode()
        *lines, rest = data.split(b"\n")
        entries = [stamp + b"F " + line + b"\n" for line in lines]
        if rest:
            entries.append(stamp + b"P " + rest + b"\n")
        os.write(self._file, b"".join(entries))


def _become(spec: dict[str, Any], output: int, failure: int) -> None:
    """Turn this process into the container's program; never returns."""
    try:
        os.setsid()
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(one, signal.SIG_DFL)
        for name, limit in spec.get("rlimits", {}).items():
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            if hard != resource.RLIM_INFINITY and not spec.get("uid"):
                limit = min(limit, hard)
            resource.setrlimit(kind, (limit, limit))
        if spec.get("cpus"):
            with contextlib.suppress(OSError):  # kept from a machine that had more of them
                os.sched_setaffinity(0, spec["cpus"])
        if spec.get("uid"):
            os.setgroups([])
            os.setresgid(spec["uid"], spec["uid"], spec["uid"])
            os.setresuid(spec["uid"], spec["uid"], spec["uid"])
        _LIBC.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
        os.umask(0o022)
        os.chdir(spec["cwd"])
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])
    except BaseException as error:  # whatever it is, the parent must hear of it and this process must end
        number = getattr(error, "errno", None)
        name = "executable file not found in $PATH" if number == 2 else str(error)
        os.write(failure, f'exec: "{spec["argv"][0]}": {name}'.encode()[:4000])
    os._exit(127)


class Shim:
    """One run of one container.

    :param directory: its directory.
    :param announce: where one line of JSON goes once the program runs, or has failed to start.
    """

    def __init__(self, directory: str, announce: int) -> None:
        self.directory, self.announce = directory, announce
        self.main = 0
        self.status: int | None = None

    def run(self) -> None:
        """Start the program, keep its output, wait for its end, write it down."""
        lock = os.open(f"{self.directory}/spec.json", os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(f"{self.directory}/exit.json"):
            return  # a restarted server has given this start up
        with open(f"{self.directory}/spec.json") as file:
            spec = json.load(file)
        self._detach()
        output, error = self._start(spec)
        if error:
            os.waitpid(self.main, 0)
            now = time.time()
            self._finish({"code": 128, "error": error, "started": now, "finished": now})
            return
        pid, shim = self.main, os.getpid()
        started = {
            "directory": self.directory, "shim": shim, "shim_ticks": start_ticks(shim), "pid": pid,
            "pid_ticks": self._ticks(pid), "started": time.time(),
        }  # fmt: skip
        write_json(f"{self.directory}/started.json", started)
        self._tell(started)
        self._watch(output)
        code = os.waitstatus_to_exitcode(self.status or 0)
        ending = {"code": code if code >= 0 else 128 - code, "signal": -code if code < 0 else None}
        self._finish({**ending, "started": started["started"], "finished": self.ended})

    def _detach(self) -> None:
        os.setsid()
        os.chdir("/")
        _LIBC.prctl(_SUBREAPER, 1, 0, 0, 0)
        _LIBC.prctl(_SET_NAME, b"mc-shim", 0, 0, 0)  # for people who look at the machine's processes
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        errors = os.open(f"{self.directory}/shim.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.dup2(errors, 2)  # the server's own output must not be held open by what outlives it
        self._wake, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def _start(self, spec: dict[str, Any]) -> tuple[int, str]:
        self._log = _Log(f"{self.directory}/log")
        output, child_output = os.pipe2(os.O_CLOEXEC)
        failure, child_failure = os.pipe2(os.O_CLOEXEC)
        self.main = os.fork()
        if self.main == 0:
            _become(spec, child_output, child_failure)
        os.close(child_output)
        os.close(child_failure)
        error = b""
        while chunk := os.read(failure, 4096):
            error += chunk
        os.close(failure)
        return output, error.decode("utf-8", "replace")

    @staticmethod
    def _ticks(pid: int) -> int:
        try:
            return start_ticks(pid)
        except OSError:
            return 0

    def _watch(self, output: int) -> None:
        """Copy output and reap until the main process and all that it left are gone."""
        open_output, deadline = True, None
        while open_output or self.status is None:
            timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._wake, output] if open_output else [self._wake], [], [], timeout)
            if deadline is not None and not ready:
                break  # a process that cannot die holds the pipe
            if self._wake in ready:
                os.read(self._wake, 4096)
                self._reap()
                if self.status is not None and deadline is None:
                    self._end_leftovers()
                    deadline = time.monotonic() + _DRAIN_S
            if output in ready:
                data = os.read(output, 1 << 16)
                if data:
                    self._log.take(data)
                else:
                    open_output = False

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.main:
                self.status = status
                self.ended = time.time()

    def _end_leftovers(self) -> None:
        deadline = time.monotonic() + _DRAIN_S
        while (left := descendants(os.getpid())) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self._reap()
            time.sleep(0.002)
        self._reap()

    def _finish(self, ending: dict[str, Any]) -> None:
        write_json(f"{self.directory}/exit.json", ending)
        self._tell({"directory": self.directory, "exit": ending})

    def _tell(self, message: dict[str, Any]) -> None:
        """Tell the server, if it lives: what counts is in the files."""
        with contextlib.suppress(OSError):
            os.write(self.announce, json.dumps(message).encode() + b"\n")
