"""This machine's processes: which one a pid means (it may be a stranger's by now), and on which CPUs they run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil

__all__ = ["birth_mark", "each_once", "living", "members_of_session", "pin", "postmaster"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_START_TICKS = 19  # field 22 of /proc/PID/stat, counted after the name, which may hold spaces and parentheses
_LOOKS = 5


def birth_mark(pid: int) -> str | None:
    """What tells a process from any other that ever has the same pid; ``None`` when it does not live.

    On Linux the boot's id and the start in clock ticks, which no change of the clock shifts; elsewhere the time of start.
    """
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        if not psutil.LINUX:
            return f"{process.create_time():.2f}"
        stat = Path(f"/proc/{pid}/stat").read_text()
        return f"{_BOOT_ID.read_text().strip()}:{stat.rpartition(')')[2].split()[_START_TICKS]}"
    except (OSError, psutil.Error):
        return None


def living(record: Any) -> int | None:
    """The pid of a record ``{"pid", "mark"}`` that was kept of a process, while that very process lives."""
    try:
        pid, mark = int(record["pid"]), record["mark"]
        return pid if mark is not None and mark == birth_mark(pid) else None
    except (KeyError, TypeError, ValueError):
        return None


def postmaster(directory: Path) -> psutil.Process | None:
    """The PostgreSQL server that runs on this data, by its own record; after a reboot the pid there may be a stranger's."""
    try:
        process = psutil.Process(int((directory / "postmaster.pid").read_text().splitlines()[0]))
        # The server's working directory is its data.
        if process.name().startswith("postgres") and Path(process.cwd()) == directory.resolve():
            return process
    except (OSError, ValueError, IndexError, psutil.Error):
        pass
    return None


def members_of_session(session: int, directory: Path) -> list[psutil.Process]:
    """What a dead leader has left behind: the processes of its session that work in the leader's directory.

    Their environment would not tell: a program that changes its title overwrites what others can read of it.
    """
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == session and Path(process.cwd()) == directory:
                found.append(process)
    return found


def each_once(found: Callable[[], Iterable[int]], act: Callable[[int], None]) -> None:
    """Act on each process that is found, and on those that came meanwhile, until there is no new one."""
    done: set[int] = set()
    for _ in range(_LOOKS):
        fresh = set(found()) - done
        for one in fresh:
            act(one)
        done |= fresh
        if not fresh:
            return


def pin(found: Callable[[], Iterable[int]], cpus: Collection[int]) -> int:
    """Let processes run on these CPUs alone, with all their threads; what they start inherits it.

    :param found: their pids, asked again until no new one comes.
    :returns: how many threads the kernel did not let us move (another user's).
    """
    refused = 0

    def put(thread: int) -> None:
        nonlocal refused
        try:
            os.sched_setaffinity(thread, cpus)
        except PermissionError:
            refused += 1
        except OSError:
            return  # it has ended

    each_once(lambda: _threads(found()), put)
    return refused


def _threads(pids: Iterable[int]) -> Iterator[int]:
    for pid in pids:
        with contextlib.suppress(OSError):
            yield from (int(name) for name in os.listdir(f"/proc/{pid}/task"))
