"""What goes wrong on purpose: nodes that are lost or drained, pods that are evicted, an API that fails or is slow."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ffdl_ops.local.minicluster.deletion import DeleteOptions, delete
from ffdl_ops.local.minicluster.errors import ApiError
from ffdl_ops.local.minicluster.events import Recorder
from ffdl_ops.local.minicluster.nodes import ready_condition
from ffdl_ops.local.minicluster.podresources import TERMINAL
from ffdl_ops.local.minicluster.podstatus import with_condition
from ffdl_ops.local.minicluster.resources import find
from ffdl_ops.local.minicluster.store import Object, Store
from ffdl_ops.local.minicluster.times import now_iso

if TYPE_CHECKING:
    from aiohttp import web

    from ffdl_ops.local.minicluster.kubelet import Kubelet

__all__ = ["ApiFault", "Faults"]

_UNREACHABLE = "node.kubernetes.io/unreachable"


@dataclass
class ApiFault:
    """How requests fail.

    :param code: the answer's HTTP status.
    :param left: how many more requests may fail; ``None`` for no bound.
    :param share: which part of them fails, 0 to 1.
    :param delay_s: how long each request is held before it is answered.
    :param method: only requests of this method, or all.
    :param path: only paths that contain this text.
    """

    code: int = 500
    left: int | None = None
    share: float = 0.0
    delay_s: float = 0.0
    method: str = ""
    path: str = ""


class Faults:
    """Injects faults.

    :param store: the objects.
    :param kubelet: the nodes' kubelet.
    :param recorder: for events.
    """

    def __init__(self, store: Store, kubelet: Kubelet, recorder: Recorder) -> None:
        self._store, self._kubelet, self._recorder = store, kubelet, recorder
        self.api = ApiFault()
        self._kubelet.lost |= set(filter(None, store.fact("lost_nodes").split(",")))

    # -- the API -------------------------------------------------------------------------------------------------
    async def before(self, request: web.Request) -> None:
        """Hold or fail a request as asked for.

        :raises ApiError: the injected answer.
        """
        fault = self.api
        if (fault.method and fault.method != request.method) or fault.path not in request.path:
            return
        if fault.delay_s:
            await asyncio.sleep(fault.delay_s)
        if fault.share <= 0 or fault.left == 0 or random.random() >= fault.share:
            return
        if fault.left is not None:
            fault.left -= 1
        reasons = {429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}
        raise ApiError(fault.code, reasons.get(fault.code, "InternalError"), "injected by minicluster's admin surface")

    # -- pods ----------------------------------------------------------------------------------------------------
    def evict(self, namespace: str, name: str, message: str) -> None:
        """Evict a pod as a kubelet short of resources does: it fails, and stays there.

        :raises ApiError: 404.
        """
        pod = self._store.get("pods", namespace, name)
        status = with_condition(pod["status"], "DisruptionTarget", "True", "TerminationByKubelet", message)
        self._store.update("pods", {**pod, "status": status})
        self._recorder.record(pod, "Evicted", message, kind="Warning", host=pod["spec"].get("nodeName", ""))
        worker = self._kubelet.worker_of(namespace, name)
        if worker is not None:
            worker.stop("Evicted", message, 0)

    def kill(self, namespace: str, name: str, container: str, number: int) -> int:
        """Send a signal to the processes of a pod's containers, as an unlucky machine would; how many containers got it.

        :param container: one of them, or empty for all.
        :raises ApiError: 404.
        """
        pod = self._store.get("pods", namespace, name)
        runs = [run for run in self._kubelet.runtime.of(pod["metadata"]["uid"]) if run.running]
        hit = [run for run in runs if container in ("", run.container)]
        for run in hit:
            self._kubelet.runtime.signal(run, number)
        return len(hit)

    # -- nodes ---------------------------------------------------------------------------------------------------
    def _node(self, name: str) -> Object:
        return self._store.get("nodes", "", name)

    def _pods_on(self, node: str) -> list[Object]:
        return [
            pod
            for pod in self._store.list("pods")
            if pod["spec"].get("nodeName") == node and pod["status"].get("phase") not in TERMINAL
        ]

    def cordon(self, name: str, unschedulable: bool) -> None:
        """Close a node for new pods, or open it.

        :raises ApiError: 404.
        """
        node = self._node(name)
        spec = {key: value for key, value in node["spec"].items() if key != "unschedulable"}
        if unschedulable:
            spec["unschedulable"] = True
        self._store.update("nodes", {**node, "spec": spec})

    def drain(self, name: str, grace_s: int | None) -> int:
        """Close a node and evict its pods through the eviction API; how many.

        :raises ApiError: 404.
        """
        self.cordon(name, True)
        pods = self._pods_on(name)
        for pod in pods:
            status = with_condition(
                pod["status"], "DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting"
            )
            fresh = self._store.update("pods", {**pod, "status": status})
            delete(self._store, find("pods"), fresh, DeleteOptions(grace_s))
        return len(pods)

    def spot_kill(self, name: str, grace_s: float) -> int:
        """Take a spot machine back: its pods get the grace they are left with, then the node is not ready; how many pods.

        :raises ApiError: 404.
        """
        self.cordon(name, True)
        pods = self._pods_on(name)
        text = "Pod was terminated in response to imminent node shutdown."
        for pod in pods:
            status = with_condition(pod["status"], "DisruptionTarget", "True", "TerminationByKubelet", text)
            self._store.update("pods", {**pod, "status": status})
            worker = self._kubelet.worker_of(pod["metadata"]["namespace"], pod["metadata"]["name"])
            if worker is not None:
                worker.stop("Terminated", text, grace_s)
        self._later(grace_s + 1, self._not_ready, name)
        return len(pods)

    def lose(self, name: str, delete_after_s: float, gone_after_s: float | None) -> int:
        """Cut a node off: its processes die, nothing is reported any more, and after a while its pods are deleted.

        :param delete_after_s: seconds until the node's pods are marked for deletion (a cluster's default is 300).
        :param gone_after_s: seconds from then until the objects go too, as when the node object is removed; ``None``: they
            stay, terminating, until the node is back.
        :raises ApiError: 404.
        """
        self._node(name)
        pods = self._pods_on(name)
        self._keep_lost(self._kubelet.lost | {name})
        for pod in pods:
            for run in self._kubelet.runtime.of(pod["metadata"]["uid"]):
                self._kubelet.runtime.signal(run, signal.SIGKILL)
        self._not_ready(name)
        for pod in pods:
            fresh = self._store.peek("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
            if fresh is not None:
                status = with_condition(fresh["status"], "Ready", "False", "NodeNotReady", "")
                self._store.update("pods", {**fresh, "status": status})
                self._recorder.record(
                    fresh, "NodeNotReady", "Node is not ready", kind="Warning", component="node-controller"
                )
        self._later(delete_after_s, self._give_up_pods, name, gone_after_s)
        return len(pods)

    def restore(self, name: str) -> None:
        """Bring a node back: its kubelet finds its pods' processes dead.

        :raises ApiError: 404.
        """
        node = self._node(name)
        self._keep_lost(self._kubelet.lost - {name})
        taints = [taint for taint in node["spec"].get("taints") or () if taint["key"] != _UNREACHABLE]
        spec = {key: value for key, value in node["spec"].items() if key not in ("taints", "unschedulable")}
        if taints:
            spec["taints"] = taints
        self._store.update("nodes", {**node, "spec": spec, "status": _with_ready(node, ready_condition())})
        self._recorder.record(node, "NodeReady", f"Node {name} status is now: NodeReady")
        for worker in list(self._kubelet.workers.values()):
            worker.wake()

    def refuse_next(self, name: str, reason: str, message: str) -> None:
        """Let a node's kubelet refuse the next pod that is bound to it.

        :raises ApiError: 404.
        """
        self._node(name)
        self._kubelet.refusals[name] = (reason, message)

    def _keep_lost(self, names: set[str]) -> None:
        self._kubelet.lost = names
        self._store.set_fact("lost_nodes", ",".join(sorted(names)))

    def _later(self, delay_s: float, work: Any, *arguments: Any) -> None:
        asyncio.get_running_loop().call_later(delay_s, work, *arguments)

    def _not_ready(self, name: str) -> None:
        node = self._store.peek("nodes", "", name)
        if node is None:
            return
        condition = ready_condition("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
        taints = [taint for taint in node["spec"].get("taints") or () if taint["key"] != _UNREACHABLE]
        taints += [
            {"key": _UNREACHABLE, "effect": effect, "timeAdded": now_iso()} for effect in ("NoSchedule", "NoExecute")
        ]
        self._store.update(
            "nodes", {**node, "spec": {**node["spec"], "taints": taints}, "status": _with_ready(node, condition)}
        )
        self._recorder.record(
            node, "NodeNotReady", f"Node {name} status is now: NodeNotReady", component="node-controller"
        )

    def _give_up_pods(self, name: str, gone_after_s: float | None) -> None:
        if name not in self._kubelet.lost:
            return
        for pod in self._pods_on(name):
            text = f"Node {name} which was running pod {pod['metadata']['name']} is unresponsive"
            status = with_condition(pod["status"], "DisruptionTarget", "True", "DeletionByTaintManager",
                                    "Taint manager: deleting due to NoExecute taint")  # fmt: skip
            fresh = self._store.update("pods", {**pod, "status": {**status, "reason": "NodeLost", "message": text}})
            self._recorder.record(fresh, "TaintManagerEviction", f"Marking for deletion Pod {pod['metadata']['namespace']}/"
                                  f"{pod['metadata']['name']}", component="taint-eviction-controller")  # fmt: skip
            delete(self._store, find("pods"), fresh, DeleteOptions())
        if gone_after_s is not None:
            self._later(gone_after_s, self._remove_pods, name)

    def _remove_pods(self, name: str) -> None:
        if name in self._kubelet.lost:
            for pod in self._pods_on(name):
                delete(self._store, find("pods"), pod, DeleteOptions(grace_s=0))


def _with_ready(node: Mapping[str, Any], condition: Object) -> Object:
    kept = [one for one in node["status"]["conditions"] if one["type"] != "Ready"]
    return {**node["status"], "conditions": [*kept, condition]}
