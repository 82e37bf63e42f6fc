"""GPUs of the nodes: how many there are, which pod has which, and what a container is told of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ffdl_ops.local.minicluster.nodes import GPU_RESOURCE, NodeConfig
from ffdl_ops.local.minicluster.quantity import quantity
from ffdl_ops.local.minicluster.store import Store

__all__ = ["Devices", "DevicesTaken"]


class DevicesTaken(Exception):
    """A node has fewer free GPUs than a pod was bound for; the message is the pod's."""


class Devices:
    """Hands out GPUs by index, each to one container at a time.

    :param store: where the assignments are kept.
    :param nodes: the configured nodes by name.
    """

    def __init__(self, store: Store, nodes: Mapping[str, NodeConfig]) -> None:
        self._store, self._nodes = store, nodes
        self._taken: dict[str, dict[str, list[int]]] = {}

    def recover(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Read the assignments of living pods again."""
        for pod in pods:
            kept = self._store.fact(f"devices/{pod['metadata']['uid']}")
            if kept:
                self._taken[pod["metadata"]["uid"]] = json.loads(kept)

    def assign(self, pod: Mapping[str, Any]) -> None:
        """Choose a pod's GPUs, once.

        :raises DevicesTaken: when the node has too few free ones.
        """
        uid, name = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        if uid in self._taken:
            return
        wanted = {container["name"]: _gpus(container) for container in pod["spec"]["containers"]}
        total = sum(wanted.values())
        if not total:
            return
        node = self._nodes.get(name)
        have = list(range(node.gpus)) if node else []
        busy = self._busy(name)
        free = [index for index in have if index not in busy]
        if len(free) < total:
            raise DevicesTaken(
                f"Allocate failed due to requested number of devices unavailable for {GPU_RESOURCE}. Requested: {total}, "
                f"Available: {len(free)}, which is unexpected"
            )
        assigned: dict[str, list[int]] = {}
        for container, count in wanted.items():
            assigned[container], free = free[:count], free[count:]
        self._taken[uid] = assigned
        self._store.set_fact(f"devices/{uid}", json.dumps(assigned))

    def _busy(self, node: str) -> set[int]:
        uids = {pod["metadata"]["uid"] for pod in self._store.list("pods") if pod["spec"].get("nodeName") == node}
        return {index for uid in uids for indices in self._taken.get(uid, {}).values() for index in indices}

    def release(self, pod_uid: str) -> None:
        """Take a pod's GPUs back."""
        if self._taken.pop(pod_uid, None) is not None:
            self._store.drop_fact(f"devices/{pod_uid}")

    def environment(self, pod: Mapping[str, Any], container: str) -> dict[str, str]:
        """The variables that tell a container its GPUs: without any, none can be seen; simulated ones are no CUDA devices."""
        indices = self._taken.get(pod["metadata"]["uid"], {}).get(container, [])
        node = self._nodes.get(pod["spec"].get("nodeName", ""))
        if not indices or node is None:
            return {"CUDA_VISIBLE_DEVICES": ""}
        if node.real:
            return {"CUDA_VISIBLE_DEVICES": ",".join(str(node.real[index]) for index in indices)}
        return {"CUDA_VISIBLE_DEVICES": "", "FFDL_SIMULATED_GPUS": ",".join(str(index) for index in indices)}


def _gpus(container: Mapping[str, Any]) -> int:
    resources = container.get("resources") or {}
    amount = (resources.get("limits") or {}).get(GPU_RESOURCE) or (resources.get("requests") or {}).get(GPU_RESOURCE)
    return int(quantity(amount or "0"))
