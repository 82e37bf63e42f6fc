"""The kubelet of all nodes: one worker per pod, woken by changes of objects and by the runtime."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from ffdl_ops.adapters.images import Images
from ffdl_ops.local.minicluster.containers import Runtime
from ffdl_ops.local.minicluster.devices import Devices
from ffdl_ops.local.minicluster.events import Recorder
from ffdl_ops.local.minicluster.isolation import Isolation
from ffdl_ops.local.minicluster.memory import MemoryWatch
from ffdl_ops.local.minicluster.nodes import NodeConfig
from ffdl_ops.local.minicluster.podresources import TERMINAL
from ffdl_ops.local.minicluster.podworker import PodWorker
from ffdl_ops.local.minicluster.store import Change, Object, Store
from ffdl_ops.local.minicluster.volumes import Volumes

__all__ = ["Kubelet", "Parts"]

_NEEDED_BY_PODS = ("secrets", "configmaps", "persistentvolumeclaims")


@dataclass(frozen=True)
class Parts:
    """What a kubelet works with."""

    store: Store
    runtime: Runtime
    volumes: Volumes
    images: Images
    isolation: Isolation
    recorder: Recorder
    devices: Devices
    nodes: Mapping[str, NodeConfig]


class Kubelet:
    """Runs the pods that are bound to nodes.

    :param parts: what it works with.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.store, self.runtime = parts.store, parts.runtime
        self.workers: dict[str, PodWorker] = {}
        self.lost: set[str] = set()
        self.refusals: dict[str, tuple[str, str]] = {}
        self._memory = MemoryWatch(self)
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Take up the pods that are there, and clean up after those that are not any more."""
        known = self.store.list("pods")
        self.runtime.cpus = json.loads(self.store.fact("pod_cpus", "null"))
        self.parts.devices.recover(known)
        self.store.listen(self._changed)
        for pod in known:
            if pod["spec"].get("nodeName"):
                self._worker(pod).wake()
        for uid in set(self.runtime.runs) | {path.name for path in self.parts.volumes.pods.iterdir()}:
            if uid not in self.workers:
                self.workers[uid] = PodWorker(self, "", "", uid)
                self.workers[uid].wake()
        self._task = asyncio.ensure_future(self._memory.run())

    async def close(self) -> None:
        """Stop looking; pods go on."""
        if self._task is not None:
            self._task.cancel()
        for worker in self.workers.values():
            worker.close()

    # -- what wakes workers --------------------------------------------------------------------------------------
    def _worker(self, pod: Object) -> PodWorker:
        meta = pod["metadata"]
        worker = self.workers.get(meta["uid"])
        if worker is None:
            worker = self.workers[meta["uid"]] = PodWorker(self, meta["namespace"], meta["name"], meta["uid"])
        return worker

    def _changed(self, change: Change) -> None:
        if change.resource.key == "pods":
            if change.object["spec"].get("nodeName"):
                self._worker(change.object).wake()
        elif change.resource.key in _NEEDED_BY_PODS:
            if change.type == "DELETED" and change.resource.key == "persistentvolumeclaims":
                self.parts.volumes.remove_claim(change.namespace, change.object["metadata"]["name"])
            for worker in list(self.workers.values()):
                if worker.namespace == change.namespace and worker.waits_for_objects:
                    worker.retry()

    def run_changed(self, pod_uid: str) -> None:
        """One of a pod's runs has started or ended."""
        worker = self.workers.get(pod_uid)
        if worker is not None:
            worker.wake()

    def worker_of(self, namespace: str, name: str) -> PodWorker | None:
        """The worker of a pod."""
        pod = self.store.peek("pods", namespace, name)
        return self.workers.get(pod["metadata"]["uid"]) if pod else None

    def forget(self, pod_uid: str) -> None:
        """A pod is gone and cleaned up."""
        self.workers.pop(pod_uid, None)

    # -- addresses -----------------------------------------------------------------------------------------------
    def address(self) -> str:
        """A loopback address that no other pod has."""
        used = {
            (pod.get("status") or {}).get("podIP")
            for pod in self.store.list("pods")
            if (pod.get("status") or {}).get("phase") not in TERMINAL
        }
        number = int(self.store.fact("next_address", "1"))
        while True:
            high, low = divmod(number, 254 * 256)
            found = f"127.{16 + high % 200}.{low // 254}.{1 + low % 254}"
            number += 1
            if found not in used:
                self.store.set_fact("next_address", str(number))
                return found

    def allocatable(self, node: str) -> Mapping[str, str]:
        """A node's amounts."""
        found = self.store.peek("nodes", "", node)
        return dict(found["status"]["allocatable"]) if found else {}

    # -- the machine's end ---------------------------------------------------------------------------------------
    async def stop_all(self, grace_s: float) -> None:
        """End all pods as a node that shuts down does: told first, then killed."""
        for worker in list(self.workers.values()):
            worker.stop("Terminated", "Pod was terminated in response to imminent node shutdown.", grace_s)
        deadline = time.monotonic() + grace_s + 3
        while time.monotonic() < deadline and any(
            not run.ended for uid in self.runtime.runs for run in self.runtime.of(uid)
        ):
            await asyncio.sleep(0.02)
        await asyncio.sleep(0)

    # -- what pods run on ----------------------------------------------------------------------------------------
    def pin_pods(self, cpus: list[int] | None) -> None:
        """Let all pods run on these CPUs alone, also after a restart; ``None`` is all."""
        self.store.set_fact("pod_cpus", json.dumps(cpus))
        self.runtime.pin(cpus)

    def processes_of(self, namespace: str, name: str) -> list[int]:
        """Pids of a pod's living processes.

        :raises ApiError: 404.
        """
        pod = self.store.get("pods", namespace, name)
        return sorted(pid for run in self.runtime.of(pod["metadata"]["uid"]) for pid in run.processes())

    def process_count(self) -> int:
        """How many containers run."""
        return sum(run.running for uid in self.runtime.runs for run in self.runtime.of(uid))
