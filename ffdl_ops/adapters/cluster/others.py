"""What pods that no lease knows of take on the nodes: system daemons, other people's work, this platform's own helpers.

The scheduler places gangs beside them, so that a learner that is pinned to a node also finds room there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.cluster.client import Cluster, ClusterRefused
from ffdl_ops.adapters.cluster.observe import GPU_RESOURCE
from ffdl_ops.core.jobs.units import parse_cpu, parse_memory
from ffdl_ops.core.scheduling.model import NodeView

if TYPE_CHECKING:
    from kubernetes import client as k8s

__all__ = ["OTHERS", "Others", "beside", "taken_by_node"]

OTHERS = "!ffdl.dev/attempt,ffdl.dev/stage notin (preflight)"
"""Pods that hold nothing by a lease (a preflight runs in its gang's own places)."""
_ENDED = frozenset({"Succeeded", "Failed"})
_Taken = tuple[int, int, int]


class Others:
    """What others take, as it was a moment ago; listing a whole cluster's pods is not for every pass.

    :param max_age_s: seconds for which an answer is used.
    """

    def __init__(self, max_age_s: float = 5.0) -> None:
        self.max_age_s = max_age_s
        self._lock = threading.Lock()
        self._at = float("-inf")
        self._taken: Mapping[str, _Taken] = {}

    def taken(self, cluster: Cluster) -> Mapping[str, _Taken]:
        """By node, the GPUs, thousandths of a core and bytes that others have asked for.

        An account that may not list all pods is answered with nothing: then gangs are placed by leases alone.
        """
        with self._lock:
            if time.monotonic() - self._at >= self.max_age_s:
                try:
                    self._taken = taken_by_node(cluster.pods_everywhere(OTHERS))
                except ClusterRefused as refusal:
                    if refusal.status != 403:
                        raise
                    self._taken = {}
                self._at = time.monotonic()
            return self._taken


def taken_by_node(pods: Iterable[k8s.V1Pod]) -> dict[str, _Taken]:
    """By node, what pods that are bound to it and have not ended ask for."""
    found: dict[str, list[int]] = {}
    for pod in pods:
        if pod.spec.node_name and pod.status.phase not in _ENDED:
            sums = found.setdefault(pod.spec.node_name, [0, 0, 0])
            for place, amount in enumerate(_requests(pod)):
                sums[place] += amount
    return {node: (gpus, cpus, memory) for node, (gpus, cpus, memory) in found.items()}


def beside(nodes: Iterable[NodeView], taken: Mapping[str, _Taken]) -> list[NodeView]:
    """The nodes with what is left for gangs."""
    views = []
    for node in nodes:
        gpus, cpus, memory = taken.get(node.name, (0, 0, 0))
        views.append(
            replace(
                node,
                gpus=max(node.gpus - gpus, 0),
                cpu_millis=max(node.cpu_millis - cpus, 0),
                memory_bytes=max(node.memory_bytes - memory, 0),
            )
        )
    return views


def _requests(pod: k8s.V1Pod) -> _Taken:
    """A pod's effective request: its containers and side-cars together, or its largest init container."""
    running = [_of(one) for one in pod.spec.containers]
    inits = list(pod.spec.init_containers or [])
    running += [_of(one) for one in inits if one.restart_policy == "Always"]
    first = [_of(one) for one in inits if one.restart_policy != "Always"]
    sums = [sum(amounts) for amounts in zip(*running, strict=True)] or [0, 0, 0]
    gpus, cpus, memory = (max([total, *(one[place] for one in first)]) for place, total in enumerate(sums))
    return gpus, cpus, memory


def _of(container: Any) -> _Taken:
    asked = (container.resources.requests if container.resources else None) or {}
    limits = (container.resources.limits if container.resources else None) or {}
    return (
        int(asked.get(GPU_RESOURCE, limits.get(GPU_RESOURCE, "0"))),
        parse_cpu(asked.get("cpu", "0")),
        parse_memory(asked.get("memory", "0")),
    )
