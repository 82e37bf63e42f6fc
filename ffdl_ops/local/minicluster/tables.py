"""The tables that ``kubectl get`` prints, made on the server as the real one does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ffdl_ops.local.minicluster.podresources import is_sidecar
from ffdl_ops.local.minicluster.resources import Resource
from ffdl_ops.local.minicluster.times import parse_time

__all__ = ["age", "pod_status_word", "table"]

Object = Mapping[str, Any]
Row = Callable[[Object], Sequence[Any]]


def age(stamp: str | None) -> str:
    """The time since a moment, as kubectl writes it."""
    if not stamp:
        return "<unknown>"
    seconds = max(0, int(time.time() - parse_time(stamp)))
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d" if days < 730 else f"{days // 365}y{days % 365}d"


def _age(body: Object) -> str:
    return age(body["metadata"].get("creationTimestamp"))


def pod_status_word(pod: Object) -> str:
    """The STATUS column of a pod."""
    status, spec = pod.get("status") or {}, pod["spec"]
    word = str(status.get("reason") or status.get("phase") or "Unknown")
    sidecars = {one["name"] for one in spec.get("initContainers") or () if is_sidecar(one)}
    inits = status.get("initContainerStatuses") or []
    initializing = False
    for index, one in enumerate(inits):
        state = one["state"]
        if state.get("terminated", {}).get("exitCode") == 0 or (one["name"] in sidecars and one.get("started")):
            continue
        if "terminated" in state and one["name"] not in sidecars:
            word, initializing = f"Init:{state['terminated'].get('reason', 'Error')}", True
        elif state.get("waiting", {}).get("reason") not in (None, "PodInitializing", "ContainerCreating"):
            word, initializing = f"Init:{state['waiting']['reason']}", True
        elif "terminated" not in state:
            word, initializing = f"Init:{index}/{len(inits)}", True
        break
    if not initializing or status.get("phase") in ("Succeeded", "Failed"):
        word = _of_containers(status, word)
    if pod["metadata"].get("deletionTimestamp"):
        word = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return word


def _of_containers(status: Object, word: str) -> str:
    if status.get("reason"):
        return word
    running = False
    for one in reversed(status.get("containerStatuses") or []):
        state = one["state"]
        if state.get("waiting", {}).get("reason"):
            word = state["waiting"]["reason"]
        elif state.get("terminated", {}).get("reason"):
            word = state["terminated"]["reason"]
        elif "running" in state:
            running = True
    return "Running" if word == "Completed" and running else word


def _pod(pod: Object) -> list[Any]:
    status, spec = pod.get("status") or {}, pod["spec"]
    sidecars = {one["name"] for one in spec.get("initContainers") or () if is_sidecar(one)}
    containers = [*(status.get("containerStatuses") or [])]
    containers += [one for one in status.get("initContainerStatuses") or [] if one["name"] in sidecars]
    ready = sum(bool(one.get("ready")) for one in containers)
    restarts = sum(one.get("restartCount", 0) for one in containers)
    total = len(spec["containers"]) + len(sidecars)
    none = "<none>"
    return [
        pod["metadata"]["name"], f"{ready}/{total}", pod_status_word(pod), str(restarts), _age(pod),
        status.get("podIP") or none, spec.get("nodeName") or none, none, none,
    ]  # fmt: skip


def _node(node: Object) -> list[Any]:
    status = node.get("status") or {}
    ready = next((one["status"] for one in status.get("conditions") or () if one["type"] == "Ready"), "Unknown")
    word = {"True": "Ready", "False": "NotReady"}.get(ready, "NotReady")
    if node["spec"].get("unschedulable"):
        word += ",SchedulingDisabled"
    info = status.get("nodeInfo") or {}
    return [
        node["metadata"]["name"], word, "<none>", _age(node), info.get("kubeletVersion", ""), "127.0.0.1", "<none>",
        info.get("osImage", ""), info.get("kernelVersion", ""), info.get("containerRuntimeVersion", ""),
    ]  # fmt: skip


def _event(event: Object) -> list[Any]:
    about = event.get("involvedObject") or {}
    source = event.get("source") or {}
    last = event.get("lastTimestamp") or event["metadata"].get("creationTimestamp")
    return [
        age(last), event.get("type", ""), event.get("reason", ""), f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""), f"{source.get('component', '')}{', ' + source['host'] if source.get('host') else ''}",
        str(event.get("message", "")).strip(), age(event.get("firstTimestamp") or last), event.get("count", 1),
        event["metadata"]["name"],
    ]  # fmt: skip


def _service(service: Object) -> list[Any]:
    spec = service.get("spec") or {}
    ports = ",".join(f"{one['port']}/{one.get('protocol', 'TCP')}" for one in spec.get("ports") or ()) or "<none>"
    selector = ",".join(f"{key}={value}" for key, value in (spec.get("selector") or {}).items()) or "<none>"
    return [service["metadata"]["name"], spec.get("type", ""), spec.get("clusterIP") or "<none>", "<none>", ports,
            _age(service), selector]  # fmt: skip


def _quota(quota: Object) -> list[Any]:
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    pairs = {name: f"{name}: {used.get(name, 0)}/{value}" for name, value in sorted(hard.items())}
    limits = [text for name, text in pairs.items() if name.startswith("limits.")]
    requests = [text for name, text in pairs.items() if not name.startswith("limits.")]
    return [quota["metadata"]["name"], ", ".join(requests), ", ".join(limits), _age(quota)]


def _claim(claim: Object) -> list[Any]:
    status, spec = claim.get("status") or {}, claim.get("spec") or {}
    modes = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    short = ",".join(modes.get(mode, mode) for mode in spec.get("accessModes") or ())
    return [claim["metadata"]["name"], status.get("phase", ""), spec.get("volumeName", ""),
            (status.get("capacity") or {}).get("storage", ""), short, spec.get("storageClassName", ""), _age(claim)]  # fmt: skip


def _name(body: Object) -> str:
    return str(body["metadata"]["name"])


_WIDE = {"IP", "Node", "Nominated Node", "Readiness Gates", "Internal-IP", "External-IP:node", "OS-Image", "Kernel-Version",
         "Container-Runtime", "Selector", "Subobject", "Source", "First Seen", "Count", "Name:event"}  # fmt: skip
_TABLES: dict[str, tuple[tuple[str, ...], Row]] = {
    "pods": (("Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates"), _pod),
    "nodes": (("Name", "Status", "Roles", "Age", "Version", "Internal-IP", "External-IP:node", "OS-Image", "Kernel-Version",
               "Container-Runtime"), _node),
    "events": (("Last Seen", "Type", "Reason", "Object", "Subobject", "Source", "Message", "First Seen", "Count",
                "Name:event"), _event),
    "namespaces": (("Name", "Status", "Age"), lambda b: [_name(b), b.get("status", {}).get("phase", ""), _age(b)]),
    "services": (("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector"), _service),
    "secrets": (("Name", "Type", "Data", "Age"), lambda b: [_name(b), b.get("type", ""), len(b.get("data") or {}), _age(b)]),
    "configmaps": (("Name", "Data", "Age"),
                   lambda b: [_name(b), len(b.get("data") or {}) + len(b.get("binaryData") or {}), _age(b)]),
    "resourcequotas": (("Name", "Request", "Limit", "Age"), _quota),
    "persistentvolumeclaims": (("Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "Age"), _claim),
    "networkpolicies.networking.k8s.io": (("Name", "Pod-Selector", "Age"), lambda b: [
        _name(b), ",".join(f"{k}={v}" for k, v in ((b.get("spec") or {}).get("podSelector") or {}).get("matchLabels", {}).items())
        or "<none>", _age(b)]),
    "priorityclasses.scheduling.k8s.io": (("Name", "Value", "Global-Default", "Age"), lambda b: [
        _name(b), b.get("value", 0), b.get("globalDefault", False), _age(b)]),
}  # fmt: skip
_PLAIN: tuple[tuple[str, ...], Row] = (
    ("Name", "Created At"),
    lambda b: [_name(b), b["metadata"].get("creationTimestamp")],
)


def table(resource: Resource, objects: Sequence[Object], version: int, *, columns: bool = True) -> dict[str, Any]:
    """Objects as a ``meta.k8s.io/v1`` Table.

    :param columns: whether the column definitions are in it (a watch sends them once).
    """
    names, row = _TABLES.get(resource.key, _PLAIN)
    definitions = [
        {"name": name.partition(":")[0], "type": "string", "format": "name" if name == "Name" else "",
         "description": "", "priority": 1 if name in _WIDE else 0}
        for name in names
    ]  # fmt: skip
    rows = [
        {
            "cells": list(row(body)),
            "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": body["metadata"]},
        }
        for body in objects
    ]
    shown: dict[str, Any] = {"columnDefinitions": definitions} if columns else {"columnDefinitions": []}
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": str(version)},
        **shown,
        "rows": rows,
    }
