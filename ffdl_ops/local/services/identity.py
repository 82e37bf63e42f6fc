"""Which process a pid means: a pid alone may be a stranger's, after a reboot or when it has been used again."""

from __future__ import annotations

import contextlib
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


def members_of_session(session: int, variable: str, value: str) -> list[psutil.Process]:
    """The processes of a session whose environment has a variable of this value: what a dead leader has left behind."""
    import os

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == session and process.environ().get(variable) == value:
                found.append(process)
    return found
