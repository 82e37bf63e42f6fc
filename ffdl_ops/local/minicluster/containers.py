"""Starts of containers: asks the spawner for shims, hears of their ends, and finds them again after a restart.

What counts is on disk (see runtime/shim.py); this module only follows it, so that a server that was killed and started
again knows every run: by the shim's pid and start time when it lives, by ``exit.json`` when it has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ffdl_ops.adapters.processes import pin
from ffdl_ops.core.errors import FfdlError
from ffdl_ops.local.minicluster.processes import send
from ffdl_ops.local.minicluster.runtime.shim import descendants, start_ticks, write_json

__all__ = ["LOST", "ProcessSpec", "Run", "Runtime"]

LOST = "The container could not be located when the pod was terminated"
_LOG = logging.getLogger(__name__)
_SETTLE_S = 5.0
_SPAWNER = Path(__file__).parent / "runtime" / "spawner.py"


@dataclass(frozen=True)
class ProcessSpec:
    """What a container's process is.

    :param argv: program and arguments; the program is looked for in the environment's PATH.
    :param env: the whole environment.
    :param cwd: working directory.
    :param uid: user and group to run as, or ``None`` for the server's own.
    :param rlimits: limits by their names in ``resource``.
    """

    argv: list[str]
    env: Mapping[str, str]
    cwd: str
    uid: int | None
    rlimits: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Run:
    """One start of one container.

    :param pod_uid: its pod.
    :param container: its name.
    :param attempt: 0 for the first start.
    :param directory: where the shim keeps its files.
    :param cpus: the CPUs that it was told to start on.
    """

    pod_uid: str
    container: str
    attempt: int
    directory: Path
    shim: int = 0
    pid: int = 0
    pid_ticks: int = 0
    started: float = 0.0
    exit: dict[str, Any] | None = None
    killed_at: float | None = None
    cpus: list[int] | None = None

    @property
    def log(self) -> Path:
        """Its output, as the shim writes it."""
        return self.directory / "log"

    @property
    def running(self) -> bool:
        """Whether its program runs."""
        return bool(self.pid) and self.exit is None

    @property
    def ended(self) -> bool:
        """Whether all its processes are gone."""
        return self.exit is not None

    @property
    def oom(self) -> bool:
        """Whether it was killed for its memory limit."""
        return (self.directory / "oom").exists()

    @property
    def identifier(self) -> str:
        """The container's id, as in ``containerID``."""
        return f"minicluster://{self.pod_uid.replace('-', '')}{self.attempt:04x}{self.container}"

    def take(self, started: Mapping[str, Any]) -> None:
        """Take over what the shim wrote when the program began."""
        self.shim, self.pid = started["shim"], started["pid"]
        self.pid_ticks, self.started = started["pid_ticks"], started["started"]

    def processes(self) -> list[int]:
        """Pids of all its living processes."""
        return descendants(self.shim) if self.running else []


class Runtime:
    """All runs of this machine.

    :param directory: where each pod's runs are kept; the server's alone.
    :param closed: directories to open for the tenants' users, as `spawner.open_view` takes them.
    :param changed: called with a pod's uid after one of its runs has started or ended.
    """

    def __init__(self, directory: Path, closed: Mapping[str, list[str]], changed: Callable[[str], None]) -> None:
        self.directory, self._closed, self._changed = directory, closed, changed
        self.runs: dict[str, dict[str, list[Run]]] = {}
        self.cpus: list[int] | None = None
        self._all_cpus = sorted(os.sched_getaffinity(0))
        self._spawner: asyncio.subprocess.Process | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    async def open(self) -> None:
        """Start the spawner and find the runs of an earlier server.

        :raises FfdlError: when the spawner cannot start.
        """
        await self._start_spawner()
        for directory in sorted(self.directory.glob("*/*-*/"), key=lambda path: int(path.name.rpartition("-")[2])):
            name, _, attempt = directory.name.rpartition("-")
            self._recover(Run(directory.parent.name, name, int(attempt), directory))

    async def close(self) -> None:
        """Let go of the spawner; runs go on."""
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        if self._spawner is not None and self._spawner.stdin is not None:
            self._spawner.stdin.close()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._spawner.wait(), 2)

    async def _start_spawner(self) -> None:
        config = json.dumps({"closed": self._closed})
        self._spawner = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(_SPAWNER), config, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, start_new_session=True, cwd="/", env={"PATH": os.environ.get("PATH", "")},
        )  # fmt: skip
        if self._spawner.stdout is None:
            raise FfdlError("the spawner has no output")
        line = await self._spawner.stdout.readline()
        if not line:
            raise FfdlError(f"the spawner has not started: exit code {await self._spawner.wait()}")
        self._keep(self._hear(self._spawner.stdout))

    def _keep(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _hear(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            message = json.loads(line)
            run = self._by_directory(Path(message["directory"]))
            if run is None:
                continue
            if "exit" in message:
                self._end(run, message["exit"])
            else:
                self._begin(run, message)
        if not self._stopping:
            _LOG.warning("the spawner has ended and is started again")
            await self._start_spawner()
            self._ask_again()

    def _ask_again(self) -> None:
        """Starts that the dead spawner may not have read: a shim that began one keeps a second from beginning it."""
        for run in [run for uid in self.runs for run in self.of(uid) if not (run.pid or run.ended)]:
            started = _read(run.directory / "started.json")
            if started is not None:
                self._begin(run, started)
            else:
                self._ask(run.directory)

    def _ask(self, directory: Path) -> None:
        if self._spawner is None or self._spawner.stdin is None:
            raise FfdlError("the runtime is not open")
        self._spawner.stdin.write(f"{directory}\n".encode())

    def _by_directory(self, directory: Path) -> Run | None:
        for run in self.of(directory.parent.name):
            if run.directory == directory:
                return run
        return None

    # -- runs ----------------------------------------------------------------------------------------------------
    def of(self, pod_uid: str) -> Iterator[Run]:
        """All runs of a pod."""
        for runs in self.runs.get(pod_uid, {}).values():
            yield from runs

    def last(self, pod_uid: str, container: str) -> Run | None:
        """The newest run of a container."""
        runs = self.runs.get(pod_uid, {}).get(container)
        return runs[-1] if runs else None

    def start(self, pod_uid: str, container: str, spec: ProcessSpec) -> Run:
        """Start a container once more."""
        before = self.runs.setdefault(pod_uid, {}).setdefault(container, [])
        attempt = before[-1].attempt + 1 if before else 0
        for old in before[:-1]:
            shutil.rmtree(old.directory, ignore_errors=True)
            before.remove(old)
        directory = self.directory / pod_uid / f"{container}-{attempt}"
        directory.mkdir(parents=True, mode=0o700)
        text = {
            "argv": spec.argv,
            "env": dict(spec.env),
            "cwd": spec.cwd,
            "uid": spec.uid,
            "rlimits": dict(spec.rlimits),
            "cpus": self.cpus,
        }
        write_json(str(directory / "spec.json"), text)
        run = Run(pod_uid, container, attempt, directory, cpus=self.cpus)
        before.append(run)
        self._ask(directory)
        return run

    def signal(self, run: Run, number: int) -> None:
        """Send a signal to a container, as `processes.send` does."""
        if run.running:
            run.killed_at = time.time() if number == signal.SIGKILL else run.killed_at
            send(run.shim, run.pid, number)

    def pin(self, cpus: list[int] | None) -> None:
        """Let all containers, those that live and those that start, run on these CPUs alone; ``None`` is all."""
        self.cpus = cpus
        for run in [run for uid in self.runs for run in self.of(uid) if run.running]:
            pin(run.processes, cpus or self._all_cpus)

    def forget(self, pod_uid: str) -> None:
        """Remove all files of a pod's runs."""
        self.runs.pop(pod_uid, None)
        shutil.rmtree(self.directory / pod_uid, ignore_errors=True)

    def _recover(self, run: Run) -> None:
        started, ended = _read(run.directory / "started.json"), _read(run.directory / "exit.json")
        if started is None and ended is None:
            started, ended = _settle(run.directory)
            if started is None and ended is None:
                shutil.rmtree(run.directory, ignore_errors=True)  # it never began: it will be started once more
                return
        self.runs.setdefault(run.pod_uid, {}).setdefault(run.container, []).append(run)
        if started is not None:
            run.take(started)
        if ended is not None:
            run.exit = ended
        elif started is not None and _lives(started["shim"], started["shim_ticks"]):
            self._follow(run)
        else:
            self._lose(run)

    def _begin(self, run: Run, message: Mapping[str, Any]) -> None:
        if run.ended or run.pid:
            return
        run.take(message)
        if run.cpus != self.cpus:
            pin(run.processes, self.cpus or self._all_cpus)  # it was changed while this one started
        self._follow(run)
        self._changed(run.pod_uid)

    def _follow(self, run: Run) -> None:
        """Hear of the shim's end from the kernel: it also tells when the shim was killed."""
        try:
            handle = os.pidfd_open(run.shim)
        except OSError:
            self._shim_gone(run)
            return
        loop = asyncio.get_running_loop()

        def gone() -> None:
            loop.remove_reader(handle)
            os.close(handle)
            self._shim_gone(run)

        loop.add_reader(handle, gone)

    def _shim_gone(self, run: Run) -> None:
        if run.ended:
            return  # its last word came first; its directory may be gone with the pod
        ending = _read(run.directory / "exit.json")
        if ending is not None:
            self._end(run, ending)
        else:
            self._lose(run)

    def _lose(self, run: Run) -> None:
        """The shim was killed: end what it watched, and say that the exit code is unknown."""
        if _lives(run.pid, run.pid_ticks):
            with contextlib.suppress(OSError):
                os.killpg(run.pid, signal.SIGKILL)
        ending = {"code": 137, "lost": True, "started": run.started, "finished": time.time()}
        write_json(str(run.directory / "exit.json"), ending)
        self._end(run, ending)

    def _end(self, run: Run, ending: dict[str, Any]) -> None:
        if run.ended:
            return
        run.exit = ending
        run.started = run.started or ending["started"]
        self._changed(run.pod_uid)


def _settle(directory: Path) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """What became of a start that an earlier server asked for and did not hear of, once no shim is about to begin it."""
    deadline = time.monotonic() + _SETTLE_S
    while time.monotonic() < deadline:
        started, ended = _read(directory / "started.json"), _read(directory / "exit.json")
        if started or ended:
            return started, ended
        try:
            with (directory / "spec.json").open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return None, None
        except FileNotFoundError:
            return None, None
        except BlockingIOError:  # a shim holds it, between its beginning and its first word
            time.sleep(0.01)
    return None, None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        loaded: dict[str, Any] = json.loads(path.read_text())
        return loaded
    except (OSError, ValueError):
        return None


def _lives(pid: int, ticks: int) -> bool:
    try:
        return pid > 0 and start_ticks(pid) == ticks
    except OSError:
        return False
