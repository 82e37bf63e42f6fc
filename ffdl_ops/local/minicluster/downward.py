"""The downward API: what a pod may learn of itself."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ffdl_ops.local.minicluster.quantity import quantity

__all__ = ["field_value", "resource_field"]

_KEYED = re.compile(r"^metadata\.(annotations|labels)\['([^']+)'\]$")


def field_value(pod: Mapping[str, Any], path: str) -> str:
    """The value of a ``fieldRef``.

    :raises KeyError: when the path is not one that pods may ask for.
    """
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    if found := _KEYED.match(path):
        return str((meta.get(found[1]) or {}).get(found[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        values = meta.get(path.partition(".")[2]) or {}
        return "\n".join(f"{key}={json.dumps(value)}" for key, value in sorted(values.items()))
    known: dict[str, Any] = {
        "metadata.name": meta["name"],
        "metadata.namespace": meta["namespace"],
        "metadata.uid": meta["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.hostIP": status.get("hostIP", ""),
        "status.hostIPs": status.get("hostIP", ""),
        "status.podIP": status.get("podIP", ""),
        "status.podIPs": status.get("podIP", ""),
    }
    return str(known[path])


def resource_field(pod: Mapping[str, Any], source: Mapping[str, Any], node: Mapping[str, Any]) -> str:
    """The value of a ``resourceFieldRef``: in whole units of its divisor, rounded up.

    :param source: with ``resource`` ("limits.memory") and, in volumes, ``containerName``.
    :param node: allocatable amounts, which stand for a limit that the container has not set.
    """
    containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    name = source.get("containerName") or containers[0]["name"]
    container = next((one for one in containers if one["name"] == name), containers[0])
    kind, _, resource = source["resource"].partition(".")
    resources = container.get("resources") or {}
    value = (resources.get(kind) or {}).get(resource)
    if value is None:
        value = node.get(resource, "0") if kind == "limits" else "0"
    divisor = quantity(source.get("divisor") or "1")
    return str(math.ceil(quantity(value) / (divisor or Decimal(1))))
