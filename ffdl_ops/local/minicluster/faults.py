"""The admin surface: faults as a real cluster has them, made on purpose."""

from __future__ import annotations

import asyncio
import copy
import random
from typing import Any

from aiohttp import web

from ffdl_ops.local.minicluster.errors import ApiError
from ffdl_ops.local.minicluster.kubelet import Kubelet
from ffdl_ops.local.minicluster.store import Store, now_text

__all__ = ["Faults"]


class Faults:
    """Faults that were asked for: `POST /admin/<fault>` with a JSON body.

    `drain`, `lose`, `restore` and `spot` take `{"node"}`; `evict` takes `{"namespace", "pod", "message"}`; `errors` takes
    `{"count", "status"}`; `slow` takes `{"seconds"}`; `refuse` takes `{"count", "reason"}` (pods that fail before they start).
    """

    def __init__(self, store: Store, kubelet: Kubelet) -> None:
        self.store = store
        self.kubelet = kubelet
        self.errors = 0
        self.status = 503
        self.slow_s = 0.0
        self.refusals = 0
        self.refusal = "OutOfmemory"

    async def maybe_fail(self) -> None:
        """Fail or delay a request, if that was asked for."""
        if self.slow_s:
            await asyncio.sleep(random.uniform(0.5, 1.0) * self.slow_s)
        if self.errors > 0:
            self.errors -= 1
            raise ApiError(self.status, "ServiceUnavailable", "a fault that was asked for")

    async def handle(self, request: web.Request) -> dict[str, Any]:
        """Make a fault."""
        fault = request.path.rsplit("/", 1)[-1]
        body = await request.json() if request.can_read_body else {}
        if fault in ("drain", "lose", "restore", "spot"):
            self._node(fault, str(body.get("node", "")))
        elif fault == "evict":
            self.evict(body["namespace"], body["pod"], body.get("message", "The node was low on resource: memory."))
        elif fault == "errors":
            self.errors, self.status = int(body.get("count", 1)), int(body.get("status", 503))
        elif fault == "slow":
            self.slow_s = float(body.get("seconds", 0))
        elif fault == "refuse":
            self.refusals, self.refusal = int(body.get("count", 1)), str(body.get("reason", "OutOfmemory"))
        else:
            raise ApiError(404, "NotFound", f"there is no fault {fault}")
        return {"fault": fault, **body}

    def on_pod_created(self, pod: dict[str, Any]) -> None:
        """Refuse a new pod on its node, if that was asked for: it fails without any container status."""
        if self.refusals > 0:
            self.refusals -= 1
            pod = copy.deepcopy(pod)
            pod["status"] = {
                "phase": "Failed",
                "reason": self.refusal,
                "message": "Pod was rejected: Node didn't have enough resource",
            }
            self.store.update("pods", pod["metadata"]["namespace"], pod)

    def evict(self, namespace: str, name: str, message: str) -> None:
        """Evict a pod: its processes end, it stays as Failed with the reason."""
        pod = copy.deepcopy(self.store.get("pods", namespace, name))
        pod["status"].update(phase="Failed", reason="Evicted", message=message)
        self.store.update("pods", namespace, pod)
        self.kubelet.kill((namespace, name))

    def _node(self, fault: str, name: str) -> None:
        node = copy.deepcopy(self.store.get("nodes", "", name))
        down = fault in ("lose", "spot")
        if fault == "drain":
            node["spec"]["unschedulable"] = True
        else:
            node["spec"].pop("unschedulable", None)
            status = "Unknown" if down else "True"
            node["status"]["conditions"] = [
                {"type": "Ready", "status": status, "reason": "NodeStatusUnknown" if down else "KubeletReady",
                 "lastTransitionTime": now_text()}
            ]  # fmt: skip
        self.store.update("nodes", "", node)
        for pod in self.store.list("pods"):
            if pod["spec"].get("nodeName") != name or pod["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            namespace, pod_name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            if fault == "drain":
                self.evict(namespace, pod_name, "The node was drained")
            elif down:
                lost = copy.deepcopy(pod)
                word = "NodeShutdown" if fault == "spot" else "NodeLost"
                lost["status"].update(
                    phase="Failed", reason=word, message=f"Node {name} which was running the pod is gone"
                )
                self.store.update("pods", namespace, lost)
                self.kubelet.kill((namespace, pod_name))
        self.kubelet.wake()
