"""Tables, as `kubectl get` asks for them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

__all__ = ["table"]


def table(plural: str, items: list[dict[str, Any]], version: str) -> dict[str, Any]:
    """The objects as a Table."""
    columns = {
        "pods": ("Name", "Ready", "Status", "Restarts", "Age", "IP", "Node"),
        "nodes": ("Name", "Status", "GPUs", "Age"),
    }
    names = columns.get(plural, ("Name", "Age"))
    if plural == "events":
        names = ("Last Seen", "Type", "Reason", "Object", "Message")
    wide = {"IP", "Node"}
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version},
        "columnDefinitions": [
            {"name": name, "type": "string", "format": "name" if name == "Name" else "", "priority": int(name in wide)}
            for name in names
        ],
        "rows": [
            {"cells": [_cell(plural, one, name) for name in names], "object": {**one, "kind": "PartialObjectMetadata"}}
            for one in items
        ],
    }


def _cell(plural: str, value: dict[str, Any], column: str) -> str:
    meta, status, spec = value["metadata"], value.get("status") or {}, value.get("spec") or {}
    statuses = status.get("containerStatuses") or []
    if column == "Name":
        return str(meta["name"])
    if column == "Age":
        return _age(meta.get("creationTimestamp"))
    if column == "Ready":
        return f"{sum(one['ready'] for one in statuses)}/{len(spec.get('containers') or [])}"
    if column == "Restarts":
        return "0"
    if column == "IP":
        return str(status.get("podIP", "<none>"))
    if column == "Node":
        return str(spec.get("nodeName", "<none>"))
    if column == "GPUs":
        return (
            f"{status['capacity'].get('nvidia.com/gpu', '0')} {(meta.get('labels') or {}).get('ffdl.dev/gpu-type', '')}"
        )
    if column == "Status" and plural == "nodes":
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or [])
        return ("Ready" if ready else "NotReady") + (",SchedulingDisabled" if spec.get("unschedulable") else "")
    if column == "Status":
        return _pod_status(meta, status, statuses)
    simple = {"Type": value.get("type"), "Reason": value.get("reason"), "Message": value.get("message")}
    if column in simple:
        return str(simple[column] or "")
    if column == "Last Seen":
        return _age(value.get("lastTimestamp"))
    involved = value.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _pod_status(meta: dict[str, Any], status: dict[str, Any], statuses: list[dict[str, Any]]) -> str:
    if meta.get("deletionTimestamp"):
        return "Terminating"
    if status.get("reason"):
        return str(status["reason"])
    for one in statuses:
        state = one.get("state") or {}
        for kind in ("waiting", "terminated"):
            if kind in state and state[kind].get("reason") not in (None, "PodInitializing"):
                return str(state[kind]["reason"])
    return str(status.get("phase", "Unknown"))


def _age(stamp: str | None) -> str:
    if not stamp:
        return "<unknown>"
    seconds = int((datetime.now(UTC) - datetime.fromisoformat(stamp.replace("Z", "+00:00"))).total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{max(seconds, 0)}s"
