"""What a measurement has started, written down before it is: another call ends what one that was killed has left.

One measurement works on a platform at a time; a lock that the kernel lets go of when its holder dies says so.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.processes import birth_mark, living
from ffdl_ops.core.errors import TemporaryError, UserError

if TYPE_CHECKING:
    from ffdl_ops.adapters.airflow_api import AirflowApi
    from ffdl_ops.adapters.cluster.client import Cluster
    from ffdl_ops.adapters.settings import Settings

__all__ = ["Started", "StartedRun", "only_one"]

_ENDED = ("success", "failed")
_END_S = 180.0
_POD_GRACE_S = 5
_LOOK_S = 0.5


@dataclass(frozen=True)
class StartedRun:
    """A DAG run, and what finds its pods.

    :param selector: the label selector of its pods.
    """

    dag_id: str
    run_id: str
    namespace: str
    selector: str


class Started:
    """Keeps what is started, in a file; ends it.

    :param settings: the installation.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._path = settings.home / "bench" / "overhead" / "started.json"

    def note_process(self, pid: int) -> None:
        """A process of this machine, which leads a session."""
        self._add({"kind": "process", "pid": pid, "mark": birth_mark(pid)})

    def note_run(self, run: StartedRun) -> None:
        """A DAG run, about to be triggered."""
        self._add({"kind": "run", **vars(run)})

    def end_all(self, airflow: AirflowApi, cluster: Cluster) -> int:
        """End whatever of it still is: processes are killed, runs marked failed; waits until runs have ended and pods are gone.

        :returns: how many were not over.
        :raises TemporaryError: when one does not end; it stays written down.
        """
        entries = self._entries()
        found = 0
        for one in entries:
            if one["kind"] == "process" and living(one) is not None:
                found += 1
                with contextlib.suppress(OSError):
                    os.killpg(one["pid"], signal.SIGKILL)
        runs = [_run_of(one) for one in entries if one["kind"] == "run"]
        going = [run for run in runs if airflow.run_state(run.dag_id, run.run_id) not in (None, *_ENDED)]
        for run in going:
            airflow.mark_run_failed(run.dag_id, run.run_id)
        for run in runs:
            self._await_end(run, airflow, cluster)
        self._path.unlink(missing_ok=True)
        return found + len(going)

    def _await_end(self, run: StartedRun, airflow: AirflowApi, cluster: Cluster) -> None:
        deadline = time.monotonic() + _END_S
        while True:
            ended = airflow.run_state(run.dag_id, run.run_id) in (None, *_ENDED)
            pods = cluster.pods(run.namespace, run.selector)
            if ended and not pods:
                return
            if ended:  # Airflow sees to a pod's end, unless its worker was killed
                for pod in pods:
                    cluster.delete_pod(run.namespace, pod.metadata.name, uid=pod.metadata.uid, grace_s=_POD_GRACE_S)
            if time.monotonic() > deadline:
                names = ", ".join(pod.metadata.name for pod in pods) or "no pods"
                raise TemporaryError(
                    f"Run {run.run_id} of {run.dag_id} has not come to its end within {_END_S:.0f} s ({names} left); "
                    "see it in Airflow, then measure again."
                )
            time.sleep(_LOOK_S)

    def _entries(self) -> list[dict[str, Any]]:
        try:
            entries = json.loads(self._path.read_text())
        except FileNotFoundError:
            return []
        except ValueError:
            raise UserError(
                f"{self._path} is damaged: see that no pod or run of a benchmark lives, then remove it."
            ) from None
        return list(entries)

    def _add(self, entry: dict[str, Any]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps([*self._entries(), entry]))
        temporary.replace(self._path)


@contextmanager
def only_one(settings: Settings) -> Iterator[None]:
    """Hold the platform's measuring lock for a block.

    :raises TemporaryError: when another process measures.
    """
    path = settings.home / "bench" / "overhead" / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TemporaryError(
                "Another measurement of the overhead works on this platform; wait for its end, or stop it."
            ) from None
        yield


def _run_of(entry: dict[str, Any]) -> StartedRun:
    return StartedRun(entry["dag_id"], entry["run_id"], entry["namespace"], entry["selector"])
