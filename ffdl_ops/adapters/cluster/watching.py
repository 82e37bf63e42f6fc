"""Pods of all namespaces as they change, in the cluster's own order.

Kubernetes writes times to the second; the order of its changes is exact. Who wants to know whether two pods held the same GPU
at one moment must go by the order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.cluster.observe import GPU_RESOURCE, pod_view

if TYPE_CHECKING:
    from ffdl_ops.adapters.cluster.client import Cluster

__all__ = ["PodChange", "watch_pods"]

_ROUND_S = 2
_PAUSE_S = 0.5


@dataclass(frozen=True)
class PodChange:
    """A pod after a change.

    :param job: by its label; empty for pods of others.
    :param node: where it was put; until then, where it must be put, if its affinity names one node.
    :param bound: whether it was put there already.
    :param gpus: of all its containers, by its specification.
    :param running: whether its learner runs now.
    :param ended: whether the pod is over (`Succeeded`, `Failed`), which is when a cluster counts its GPUs as free.
    :param removed: whether it is gone from the cluster.
    :param seen_at: when this program learned of it, in seconds since the epoch.
    """

    namespace: str
    name: str
    uid: str
    job: str
    attempt: int
    node: str | None
    bound: bool
    gpus: int
    running: bool
    ended: bool
    removed: bool
    seen_at: float


def watch_pods(cluster: Cluster, going_on: Callable[[], bool]) -> Iterator[PodChange]:
    """Every change from now on; first, each pod that is there.

    A watch that breaks goes on where it was; if the cluster has forgotten what was in between, the pods are listed anew, and
    those that are gone are told as removed.

    :param going_on: looked at once every few seconds; false ends it.
    """
    from kubernetes import watch
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError

    known: dict[str, PodChange] = {}
    version: str | None = None
    while going_on():
        try:
            if version is None:
                found = cluster.call("list pods", cluster.core.list_pod_for_all_namespaces)
                version = found.metadata.resource_version
                there = [_change(pod, removed=False) for pod in found.items]
                gone = set(known) - {one.uid for one in there}
                yield from (_gone(known.pop(uid)) for uid in gone)
                known |= {one.uid: one for one in there}
                yield from there
            stream = watch.Watch().stream(
                cluster.core.list_pod_for_all_namespaces, resource_version=version, timeout_seconds=_ROUND_S
            )
            for event in stream:
                version = event["object"].metadata.resource_version
                change = _change(event["object"], removed=event["type"] == "DELETED")
                if change.removed:
                    known.pop(change.uid, None)
                else:
                    known[change.uid] = change
                yield change
        except ApiException as error:
            if error.status == 410:
                version = None
            time.sleep(_PAUSE_S)
        except (HTTPError, OSError):
            time.sleep(_PAUSE_S)


def _change(pod: Any, *, removed: bool) -> PodChange:
    view = pod_view(pod)
    return PodChange(
        namespace=view.namespace,
        name=view.name,
        uid=view.uid,
        job=(pod.metadata.labels or {}).get("ffdl.dev/job", ""),
        attempt=view.attempt,
        node=view.node or _wanted_node(pod.spec.affinity),
        bound=view.node is not None,
        gpus=sum(_gpus(container) for container in pod.spec.containers),
        running=view.running,
        ended=view.phase in ("Succeeded", "Failed"),
        removed=removed,
        seen_at=time.time(),
    )


def _gone(change: PodChange) -> PodChange:
    from dataclasses import replace

    return replace(change, running=False, removed=True, seen_at=time.time())


def _gpus(container: Any) -> int:
    resources = container.resources
    wanted = {**(resources.requests or {}), **(resources.limits or {})} if resources else {}
    return int(wanted.get(GPU_RESOURCE, 0))


def _wanted_node(affinity: Any) -> str | None:
    """The only node that a required affinity leaves, by host name."""
    node = affinity.node_affinity if affinity else None
    required = node.required_during_scheduling_ignored_during_execution if node else None
    terms = required.node_selector_terms if required else []
    if len(terms) != 1:
        return None
    names = [
        expression.values
        for expression in terms[0].match_expressions or []
        if expression.key == "kubernetes.io/hostname" and expression.operator == "In"
    ]
    return str(names[0][0]) if len(names) == 1 and len(names[0]) == 1 else None
