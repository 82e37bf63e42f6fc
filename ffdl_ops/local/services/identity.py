"""Which process a pid means: a pid alone may be a stranger's, after a reboot or when it has been used again."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import psutil

__all__ = ["birth_mark", "members_of_session"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_START_TICKS = 19  # field 22 of /proc/PID/stat, counted after the name, which may hold spaces and parentheses


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
