"""Memory limits: what each limited container uses, looked at five times a second; over the limit it is OOMKilled.

The measure is resident memory summed over all processes of the container; when that is over the limit, the proportional
measure decides, which counts a page shared by several processes once, as a cgroup does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING

from ffdl_ops.local.minicluster.containers import Run
from ffdl_ops.local.minicluster.quantity import quantity

if TYPE_CHECKING:
    from ffdl_ops.local.minicluster.kubelet import Kubelet

__all__ = ["ONE_PROCESS", "MemoryWatch"]

_EVERY_S = 0.2
_PAGE = os.sysconf("SC_PAGE_SIZE")
ONE_PROCESS = "minicluster.ffdl.dev/oom-kills"
"""Pod annotation: with the value "process" only the largest process is killed, as kernels without group kill do."""


class MemoryWatch:
    """Kills containers that use more than they may.

    :param kubelet: whose containers.
    """

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(_EVERY_S)
            limited = [(run, limit) for run in self._running() if (limit := self._limit(run))]
            if limited:
                tree = _children()
                for run, limit in limited:
                    self._check(run, limit, tree)

    def _running(self) -> list[Run]:
        runtime = self._kubelet.runtime
        return [run for uid in runtime.runs for run in runtime.of(uid) if run.running]

    def _limit(self, run: Run) -> int | None:
        worker = self._kubelet.workers.get(run.pod_uid)
        pod = worker.pod() if worker else None
        if pod is None:
            return None
        for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
            if container["name"] == run.container:
                limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
                return int(quantity(limit)) if limit else None
        return None

    def _check(self, run: Run, limit: int, tree: dict[int, list[int]]) -> None:
        pids, waiting = [], [run.shim]
        while waiting:
            below = tree.get(waiting.pop(), [])
            pids += below
            waiting += below
        resident = {pid: _resident(pid) for pid in pids}
        if sum(resident.values()) <= limit or sum(_proportional(pid) for pid in pids) <= limit:
            return
        (run.directory / "oom").touch()
        worker = self._kubelet.workers[run.pod_uid]
        pod = worker.pod() or {}
        if (pod.get("metadata", {}).get("annotations") or {}).get(ONE_PROCESS) == "process":
            with contextlib.suppress(OSError):
                os.kill(max(resident, key=lambda pid: resident[pid]), signal.SIGKILL)
        else:
            self._kubelet.runtime.signal(run, signal.SIGKILL)


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
                found.setdefault(int(fields[1]), []).append(int(entry))
    return found


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    """Proportional set size in bytes; resident size where the kernel does not tell."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return _resident(pid)
