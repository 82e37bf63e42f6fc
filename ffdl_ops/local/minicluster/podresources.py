"""What pods request, as scheduler, quota and admission count it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from ffdl_ops.local.minicluster.quantity import quantity

__all__ = ["TERMINAL", "add", "is_sidecar", "pod_amounts", "qos_class", "used_on_node"]

TERMINAL = ("Succeeded", "Failed")
Amounts = dict[str, Decimal]


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Whether an init container is a native side-car."""
    return container.get("restartPolicy") == "Always"


def add(left: Amounts, right: Mapping[str, Decimal]) -> Amounts:
    """The sum by resource."""
    return {name: left.get(name, Decimal(0)) + right.get(name, Decimal(0)) for name in {**left, **right}}


def _larger(left: Amounts, right: Amounts) -> Amounts:
    return {name: max(left.get(name, Decimal(0)), right.get(name, Decimal(0))) for name in {**left, **right}}


def _of(container: Mapping[str, Any], kind: str) -> Amounts:
    amounts = (container.get("resources") or {}).get(kind) or {}
    return {name: quantity(value) for name, value in amounts.items()}


def pod_amounts(pod: Mapping[str, Any], kind: str = "requests") -> Amounts:
    """A pod's requests or limits: its containers and side-cars together, or more if an init container needs more.

    :param kind: "requests" or "limits".
    """
    spec = pod["spec"]
    sidecars: Amounts = {}
    largest: Amounts = {}
    for container in spec.get("initContainers") or ():
        if is_sidecar(container):
            sidecars = add(sidecars, _of(container, kind))
            largest = _larger(largest, sidecars)
        else:
            largest = _larger(largest, add(sidecars, _of(container, kind)))
    total = sidecars
    for container in spec["containers"]:
        total = add(total, _of(container, kind))
    total = _larger(total, largest)
    overhead = {name: quantity(value) for name, value in (spec.get("overhead") or {}).items()}
    return add(total, overhead) if overhead else total


def used_on_node(pods: Iterable[Mapping[str, Any]], node: str, but: str = "") -> Amounts:
    """What the pods bound to a node request, finished ones left out.

    :param but: uid of a pod that is left out.
    """
    total: Amounts = {"pods": Decimal(0)}
    for pod in pods:
        if pod["spec"].get("nodeName") != node or pod["metadata"]["uid"] == but:
            continue
        if (pod.get("status") or {}).get("phase") in TERMINAL:
            continue
        total = add(total, {**pod_amounts(pod), "pods": Decimal(1)})
    return total


def qos_class(pod: Mapping[str, Any]) -> str:
    """Guaranteed, Burstable or BestEffort."""
    containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    requests = [_of(one, "requests") for one in containers]
    limits = [_of(one, "limits") for one in containers]
    names = ("cpu", "memory")
    if not any(amounts.get(name) for amounts in (*requests, *limits) for name in names):
        return "BestEffort"
    for request, limit in zip(requests, limits, strict=True):
        if any(not limit.get(name) or request.get(name, limit[name]) != limit[name] for name in names):
            return "Burstable"
    return "Guaranteed"
