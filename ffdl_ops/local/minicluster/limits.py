"""LimitRange: its defaults are filled into a pod's containers, its maxima and minima are enforced."""

from __future__ import annotations

import copy
from typing import Any

from ffdl_ops.local.minicluster.errors import forbidden
from ffdl_ops.local.minicluster.quantity import quantity
from ffdl_ops.local.minicluster.store import Object, Store

__all__ = ["apply_limits"]


def apply_limits(store: Store, pod: Object) -> Object:
    """A new pod with its namespace's default requests and limits.

    :raises ApiError: 403 when a container asks for more or less than the range allows.
    """
    ranges = [
        entry
        for one in store.list("limitranges", pod["metadata"]["namespace"])
        for entry in (one.get("spec") or {}).get("limits") or ()
        if entry.get("type") == "Container"
    ]
    if not ranges or not isinstance(pod.get("spec"), dict):
        return pod
    pod = copy.deepcopy(pod)
    for container in (*(pod["spec"].get("initContainers") or ()), *(pod["spec"].get("containers") or ())):
        resources = container.setdefault("resources", {})
        for entry in ranges:
            _fill(resources, entry)
            _check(pod, container, resources, entry)
    return pod


def _fill(resources: dict[str, Any], entry: dict[str, Any]) -> None:
    given = dict(resources.get("limits") or {})
    limits = {**(entry.get("default") or {}), **given}
    requests = {**(entry.get("defaultRequest") or {}), **given, **(resources.get("requests") or {})}
    if limits:
        resources["limits"] = limits
    if requests:
        resources["requests"] = requests


def _check(pod: Object, container: dict[str, Any], resources: dict[str, Any], entry: dict[str, Any]) -> None:
    for name, most in (entry.get("max") or {}).items():
        limit = (resources.get("limits") or {}).get(name)
        if limit is None or quantity(limit) > quantity(most):
            why = f"maximum {name} usage per Container is {most}, but limit is {limit if limit is not None else 'not set'}"
            raise forbidden("pods", pod["metadata"].get("name", ""), why)
    for name, least in (entry.get("min") or {}).items():
        request = (resources.get("requests") or {}).get(name)
        if request is None or quantity(request) < quantity(least):
            why = f"minimum {name} usage per Container is {least}, but request is {request if request is not None else 'not set'}"
            raise forbidden("pods", pod["metadata"].get("name", ""), why)
