"""A container's living processes, all of them: told, stopped and let go on; and the CPUs that they may use."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from typing import Any

from ffdl_ops.adapters.processes import each_once
from ffdl_ops.core.errors import UserError
from ffdl_ops.local.minicluster.runtime.shim import descendants

__all__ = ["checked_cpus", "send"]

_TO_ALL = frozenset({signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT})


def send(shim: int, main: int, number: int) -> None:
    """Send a signal to a container: to its main process; what kills, stops or continues, to all of them.

    One that is stopped could not handle any other signal: it is continued after it, as what ends a frozen container does.

    :param shim: the process that all of the container's are below.
    :param main: its main process.
    """
    if number not in _TO_ALL:
        _tell([main], number)
        _tell([pid for pid in {main, *descendants(shim)} if _is_stopped(pid)], signal.SIGCONT)
        return
    each_once(lambda: {main, *descendants(shim)}, lambda pid: _tell([pid], number))


def checked_cpus(value: Any) -> list[int] | None:
    """A set of this machine's CPUs, sorted; ``None`` for all of them.

    :raises UserError: when it is none.
    """
    if value is None:
        return None
    there = range(os.cpu_count() or 1)
    if not isinstance(value, list) or not value or any(isinstance(one, bool) or one not in there for one in value):
        raise UserError(
            f"cpus: {value!r} is no list of CPUs of this machine, which has 0 to {there[-1]}; null lifts the limit"
        )
    return sorted({int(one) for one in value})


def _tell(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _is_stopped(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"T"
    except OSError:
        return False
