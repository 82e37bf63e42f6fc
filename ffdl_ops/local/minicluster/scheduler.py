"""Binds waiting pods to nodes: requests, selectors, affinity, taints; the message is the real scheduler's.

`choose` is pure. `Scheduler` runs it whenever something changed that could let a pod start: no polling.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ffdl_ops.local.minicluster.events import Recorder
from ffdl_ops.local.minicluster.podresources import TERMINAL, pod_amounts, used_on_node
from ffdl_ops.local.minicluster.podstatus import with_condition
from ffdl_ops.local.minicluster.quantity import quantity
from ffdl_ops.local.minicluster.selectors import matches_expressions, matches_selector
from ffdl_ops.local.minicluster.store import Change, Object, Store

__all__ = ["Choice", "Scheduler", "choose", "tolerates"]

_SELF = "default-scheduler"


@dataclass(frozen=True)
class Choice:
    """Where a pod goes.

    :param node: the node's name, or ``None`` when it fits nowhere.
    :param message: why it fits nowhere, in the scheduler's words.
    """

    node: str | None
    message: str = ""


def tolerates(pod: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether a pod tolerates a taint."""
    for one in pod["spec"].get("tolerations") or ():
        if one.get("effect") and one["effect"] != taint["effect"]:
            continue
        if not one.get("key"):
            if one.get("operator") == "Exists":
                return True
            continue
        if one["key"] != taint["key"]:
            continue
        if one.get("operator") == "Exists" or (one.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def choose(pod: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]]) -> Choice:
    """The node for a pod: among those that can take it, the one with the most room left."""
    if not nodes:
        return Choice(None, "no nodes available to schedule pods")
    request = {**pod_amounts(pod), "pods": Decimal(1)}
    reasons: Counter[str] = Counter()
    fitting: list[tuple[Decimal, str]] = []
    for node in nodes:
        against = _against(pod, request, node, pods)
        if against:
            reasons.update(against)
        else:
            fitting.append((_room(node, pods), node["metadata"]["name"]))
    if fitting:
        return Choice(sorted(fitting, key=lambda one: (-one[0], one[1]))[0][1])
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    count = len(nodes)
    return Choice(
        None,
        f"0/{count} nodes are available: {listed}. preemption: 0/{count} nodes are available: {count} Preemption is not "
        "helpful for scheduling.",
    )


def _against(
    pod: Mapping[str, Any], request: Mapping[str, Decimal], node: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]
) -> list[str]:
    """What speaks against a node: the first filter that refuses, as the real one reports; all resources together."""
    name = node["metadata"]["name"]
    labels = {**(node["metadata"].get("labels") or {}), "metadata.name": name}
    if node["spec"].get("unschedulable") and not tolerates(
        pod, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    ):
        return ["node(s) were unschedulable"]
    for taint in node["spec"].get("taints") or ():
        if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerates(pod, taint):
            return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"]
    if not _selected(pod, labels):
        return ["node(s) didn't match Pod's node affinity/selector"]
    allocatable = node["status"].get("allocatable") or {}
    used = used_on_node(pods, name)
    short = []
    for resource, amount in request.items():
        if amount and amount > quantity(allocatable.get(resource, "0")) - used.get(resource, Decimal(0)):
            short.append("Too many pods" if resource == "pods" else f"Insufficient {resource}")
    if short:
        return short
    return _against_neighbours(pod, labels, pods)


def _selected(pod: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    selector = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(
        matches_expressions(term.get("matchExpressions") or (), labels)
        and matches_expressions(term.get("matchFields") or (), labels)
        for term in required.get("nodeSelectorTerms") or ()
        if term.get("matchExpressions") or term.get("matchFields")
    )


def _against_neighbours(
    pod: Mapping[str, Any], labels: Mapping[str, str], pods: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Required pod affinity and anti-affinity, by the host name alone."""
    affinity = pod["spec"].get("affinity") or {}
    here = [
        other
        for other in pods
        if other["spec"].get("nodeName") == labels["metadata.name"]
        and (other.get("status") or {}).get("phase") not in TERMINAL
    ]
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    for term in (affinity.get("podAntiAffinity") or {}).get(key) or ():
        if any(_term_matches(term, pod, other) for other in here):
            return ["node(s) didn't match pod anti-affinity rules"]
    for term in (affinity.get("podAffinity") or {}).get(key) or ():
        if not any(_term_matches(term, pod, other) for other in here):
            return ["node(s) didn't match pod affinity rules"]
    return []


def _term_matches(term: Mapping[str, Any], pod: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    namespaces = term.get("namespaces") or [pod["metadata"]["namespace"]]
    return other["metadata"]["namespace"] in namespaces and matches_selector(
        term.get("labelSelector"), other["metadata"].get("labels") or {}
    )


def _room(node: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> Decimal:
    """The mean share of a node's CPU and memory that is free."""
    used = used_on_node(pods, node["metadata"]["name"])
    shares = []
    for resource in ("cpu", "memory"):
        capacity = quantity(node["status"]["allocatable"].get(resource, "0")) or Decimal(1)
        shares.append(1 - used.get(resource, Decimal(0)) / capacity)
    return sum(shares, Decimal(0)) / len(shares)


class Scheduler:
    """Watches the store and binds.

    :param store: the objects.
    :param recorder: for events.
    """

    def __init__(self, store: Store, recorder: Recorder) -> None:
        self._store, self._recorder = store, recorder
        self._due = False
        self._stop: Callable[[], None] = store.listen(self._changed)

    def _changed(self, change: Change) -> None:
        key = change.resource.key
        if key == "nodes" or (key == "pods" and _matters(change)):
            self.wake()

    def wake(self) -> None:
        """Look at the waiting pods soon."""
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._pass)

    def _pass(self) -> None:
        self._due = False
        waiting = [pod for pod in self._store.list("pods") if _waits(pod)]
        waiting.sort(key=lambda pod: (-int(pod["spec"].get("priority") or 0), int(pod["metadata"]["resourceVersion"])))
        for pod in waiting:
            # The list is read anew for each pod: what was just bound takes room.
            choice = choose(pod, self._store.list("nodes"), self._store.list("pods"))
            if choice.node:
                self._bind(pod, choice.node)
            else:
                self._refuse(pod, choice.message)

    def _bind(self, pod: Object, node: str) -> None:
        bound = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        bound["status"] = with_condition(pod["status"], "PodScheduled", "True")
        self._store.update("pods", bound)
        where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self._recorder.record(pod, "Scheduled", f"Successfully assigned {where} to {node}", component=_SELF)

    def _refuse(self, pod: Object, message: str) -> None:
        status = with_condition(pod["status"], "PodScheduled", "False", "Unschedulable", message)
        if status != pod["status"]:
            self._store.update("pods", {**pod, "status": status})
            self._recorder.record(pod, "FailedScheduling", message, kind="Warning", component=_SELF)


def _waits(pod: Mapping[str, Any]) -> bool:
    spec, meta = pod["spec"], pod["metadata"]
    ours = spec.get("schedulerName", _SELF) == _SELF and not spec.get("schedulingGates")
    return ours and not spec.get("nodeName") and not meta.get("deletionTimestamp") and _phase(pod) == "Pending"


def _phase(pod: Mapping[str, Any]) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def _matters(change: Change) -> bool:
    """Whether a pod's change may let some pod start: a new one, or room that was freed."""
    if change.type != "MODIFIED" or change.previous is None:
        return True
    if _waits(change.object):
        return not _waits(change.previous) or change.object["spec"] != change.previous["spec"]
    return _phase(change.object) in TERMINAL and _phase(change.previous) not in TERMINAL
