"""What Linux tells of processes and does with them: descendants, their memory, and who inherits orphans."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time

__all__ = [
    "adopt_orphans", "descendants", "end_descendants", "end_with_parent", "kill_descendants", "resident_bytes",
]  # fmt: skip

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of all descendants that lose theirs; without effect where the system can't."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent ends; without effect where the system can't."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def descendants(ancestor: int) -> list[int]:
    """All living or unreaped processes below one; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if name.isdigit():
            fields = _stat(name)
            if fields:
                children.setdefault(int(fields[1]), []).append(int(name))
    found: list[int] = []
    waiting = [ancestor]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def kill_descendants(ancestor: int) -> None:
    """Send SIGKILL to everything below a process."""
    for pid in descendants(ancestor):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def end_descendants(within_s: float) -> None:
    """Kill and reap everything below this process, for at most so many seconds."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        kill_descendants(os.getpid())
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def resident_bytes(ancestor: int) -> int:
    """Resident memory of everything below a process; pages that processes share count in each of them."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = 0
    for pid in descendants(ancestor):
        fields = _stat(str(pid))
        if fields:
            total += int(fields[21]) * page
    return total


def _stat(pid: str) -> list[str]:
    """The fields of /proc/<pid>/stat from the state on (parent is 1, resident pages are 21); empty when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return []
    # The name before them is in parentheses and may hold anything.
    return text[text.rfind(b")") + 2 :].decode("ascii", "replace").split()


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
