"""What a benchmark sees of a platform while it works: pods by a watch, load and Airflow's slots by looking now and then."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

from ffdl_ops.adapters.airflow_api import AirflowApi
from ffdl_ops.adapters.cluster.client import Cluster
from ffdl_ops.adapters.cluster.observe import node_view
from ffdl_ops.adapters.cluster.watching import watch_pods
from ffdl_ops.adapters.ledger import Ledger
from ffdl_ops.core.jobs.ids import dag_id, job_id
from ffdl_ops.lab.bench.podbook import PodBook

if TYPE_CHECKING:
    from ffdl_ops.adapters.settings import Settings

__all__ = ["Observer", "tell"]

SETTLED_S = 20.0
"""After so long in the queue, a job has been handed to the triggerer even on a busy machine."""


def tell(line: str) -> None:
    """A line of progress."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class Observer:
    """Watches until the block ends."""

    def __init__(self, settings: Settings) -> None:
        self.ledger = Ledger(settings.ledger_url)
        self.airflow = AirflowApi.from_settings(settings)
        self.tenants = [tenant.name for tenant in settings.tenants]
        self.peak_load = 0.0
        self.most_waiting = 0
        self.most_slots_of_waiting = 0
        self.slots_looks = 0
        self.book = PodBook({})
        self._settings = settings
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="pods", daemon=True)

    def __enter__(self) -> Observer:
        views = [node_view(node) for node in Cluster(self._settings.kubeconfig).nodes()]
        self.book = PodBook({view.name: view.gpus for view in views})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.ledger.close()

    def stop(self) -> None:
        """End the watch, after the changes of the last seconds have come."""
        self._stopped.set()
        self._thread.join(timeout=15)

    def look(self) -> None:
        """Take the load, and the worker slots that tasks of waiting jobs occupy."""
        self.peak_load = max(self.peak_load, os.getloadavg()[0])
        waiting = self.ledger.queue()
        self.most_waiting = max(self.most_waiting, len(waiting))
        settled = {one.request.job_id for one in waiting if time.time() - one.enqueued_at.timestamp() > SETTLED_S}
        if not settled:
            return
        occupied = {
            job_id(str(task["dag_id"]), str(task["dag_run_id"]))
            for tenant in self.tenants
            for task in self.airflow.tasks_in_state(dag_id(tenant), "running")
        }
        # A job that was granted while we asked Airflow has its slot by right.
        settled &= {one.request.job_id for one in self.ledger.queue()}
        self.slots_looks += 1
        self.most_slots_of_waiting = max(self.most_slots_of_waiting, len(settled & occupied))

    def _watch(self) -> None:
        for change in watch_pods(Cluster(self._settings.kubeconfig), lambda: not self._stopped.is_set()):
            self.book.note(change)
