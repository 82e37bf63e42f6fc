"""The control plane on its own CPUs, what trains on the others, as on a cluster; lifted again whatever happens.

Only the embedded platform needs it, whose services and pods share one machine. What was done is written down before it is done:
a process that is killed while it measures leaves a record, by which `restore` brings everything back.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import psutil

from ffdl_ops.adapters.processes import birth_mark, living, pin, postmaster
from ffdl_ops.core.errors import FfdlError

if TYPE_CHECKING:
    from ffdl_ops.adapters.settings import Settings

__all__ = ["Partition", "Split", "control_plane", "restore", "split"]


@dataclass(frozen=True)
class Split:
    """Which CPUs are whose.

    :param control: the control plane's.
    :param training: those of pods and of the bare program; the same, when there is only one.
    """

    control: tuple[int, ...]
    training: tuple[int, ...]


def split(cpus: Iterable[int]) -> Split:
    """The first CPU is the control plane's, the others are for training."""
    first, *others = sorted(cpus)
    return Split((first,), tuple(others or (first,)))


def control_plane(home: Path) -> set[int]:
    """The living processes of the embedded platform itself: every service with what it has started; no pods."""
    leaders = {pid for pid in map(_leader, (home / "run").glob("*.json")) if pid}
    if (server := postmaster(home / "postgres")) is not None:
        leaders.add(server.pid)
    found = set(leaders)
    for leader in leaders:
        with contextlib.suppress(psutil.Error):
            found |= {one.pid for one in psutil.Process(leader).children(recursive=True)}
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if os.getsid(pid) in leaders:  # its parent has died
                found.add(pid)
    return found


class Partition:
    """The CPUs of the machine divided for a block; a context manager.

    On a cluster that isn't the embedded one it changes nothing: there, nodes keep control plane and pods apart.

    :param settings: the installation.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.split: Split | None = None
        self.refused = 0
        """Threads that the kernel did not let us move."""

    def __enter__(self) -> Partition:
        if not _is_embedded(self._settings):
            return self
        restore(self._settings)
        everything = sorted(os.sched_getaffinity(0))
        self.split = split(everything)
        record = {"cpus": everything, "by": {"pid": os.getpid(), "mark": birth_mark(os.getpid())}}
        path = _record(self._settings.home)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(record))
        temporary.replace(path)
        try:
            _admin(self._settings).pin_pods(self.split.training)
            self.close()
        except BaseException:
            restore(self._settings)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.split is not None:
            restore(self._settings)

    def open(self) -> None:
        """Let the control plane onto the training's CPUs too."""
        if self.split is not None:
            self._put({*self.split.control, *self.split.training})

    def close(self) -> None:
        """Keep it, and this process, on the control plane's CPUs."""
        if self.split is not None:
            self._put(self.split.control)

    def _put(self, cpus: Iterable[int]) -> None:
        self.refused = pin(lambda: {*control_plane(self._settings.home), os.getpid()}, set(cpus))


def restore(settings: Settings) -> bool:
    """Bring all processes back onto all CPUs that they had before a partition, if one was left.

    Called while another process measures, it takes that one's partition away.

    :returns: whether there was one.
    """
    path = _record(settings.home)
    try:
        record = json.loads(path.read_text())
        everything, by = {int(one) for one in record["cpus"]}, dict(record["by"])
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, TypeError):  # half-written by a machine that went down: so did the processes
        everything, by = set(range(os.cpu_count() or 1)), {}
    measuring = {pid for pid in [living(by)] if pid is not None}
    pin(lambda: control_plane(settings.home) | measuring, everything)
    try:
        _admin(settings).pin_pods(None)
    except (FfdlError, OSError):
        return True  # minicluster is down and keeps the pods' part in its state: the record stays until it is lifted
    path.unlink(missing_ok=True)
    return True


def _is_embedded(settings: Settings) -> bool:
    return settings.platform.profile == "embedded" and bool(settings.endpoints.get("kubeconfig"))


def _admin(settings: Settings) -> Any:
    from ffdl_ops.adapters.cluster.embedded import AdminClient

    return AdminClient.from_kubeconfig(str(settings.kubeconfig))


def _record(home: Path) -> Path:
    return home / "bench" / "overhead" / "cpus.json"


def _leader(path: Path) -> int | None:
    """The process that a service's record names, while it lives."""
    try:
        return living(json.loads(path.read_text()))
    except (OSError, ValueError):
        return None
