"""Nodes: from the configuration file to Node objects."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ffdl_ops.adapters.configfile import read_configuration
from ffdl_ops.core.errors import UserError
from ffdl_ops.local.minicluster.quantity import format_quantity, is_quantity, quantity
from ffdl_ops.local.minicluster.store import Object, Store
from ffdl_ops.local.minicluster.times import now_iso

__all__ = ["GPU_RESOURCE", "GPU_TYPE_LABEL", "NodeConfig", "apply_nodes", "load_nodes", "ready_condition"]

GPU_RESOURCE = "nvidia.com/gpu"
GPU_TYPE_LABEL = "ffdl.dev/gpu-type"
VERSION = "v1.32.4"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MOST_GPUS = 1024
_NAME = re.compile(r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")


@dataclass(frozen=True)
class NodeConfig:
    """One node as configured.

    :param name: its name.
    :param capacity: amounts by resource; simulated, except real GPUs.
    :param gpus: how many GPUs.
    :param gpu_type: their type, or ``None``.
    :param real: CUDA indices of real GPUs; empty when they are simulated.
    :param labels: besides the usual ones.
    :param taints: as in a Node's spec.
    """

    name: str
    capacity: Mapping[str, str]
    gpus: int = 0
    gpu_type: str | None = None
    real: tuple[int, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()


def load_nodes(path: Path) -> dict[str, NodeConfig]:
    """The nodes of a file.

    :raises UserError: naming file, node and field, when it cannot be used.
    """
    loaded = read_configuration(path, "The nodes file")
    if not isinstance(loaded, Mapping) or not isinstance(loaded.get("nodes"), list):
        raise UserError(f"The nodes file {path} must have a list `nodes`.")
    defaults = loaded.get("defaults") or {}
    if not isinstance(defaults, Mapping):
        raise UserError(f"{path}: `defaults` must be a mapping of a node's fields, not {defaults!r}.")
    found = {}
    for entry in loaded["nodes"]:
        if not isinstance(entry, Mapping):
            raise UserError(f"{path}: each of `nodes` must be a mapping like {{name: a, cpus: 32}}, not {entry!r}.")
        node = _node(path, {**defaults, **entry})
        if node.name in found:
            raise UserError(f"{path}: two nodes are named {node.name!r}.")
        found[node.name] = node
    return found


def _node(path: Path, entry: Mapping[str, Any]) -> NodeConfig:
    name = str(entry.get("name", ""))
    if not _NAME.match(name):
        raise UserError(
            f"{path}: node name {name!r} must be lower-case letters, digits and '-', at most 63 characters."
        )
    unknown = set(entry) - {"name", "cpus", "memory", "pods", "gpus", "labels", "taints"}
    if unknown:
        raise UserError(f"{path}: node {name} has unknown fields {sorted(unknown)}.")
    amounts = {"cpu": entry.get("cpus", 32), "memory": entry.get("memory", "128Gi"), "pods": entry.get("pods", 110)}
    for resource, amount in amounts.items():
        if not is_quantity(amount) or quantity(amount) <= 0:
            raise UserError(
                f"{path}: node {name} has {resource} {amount!r}; it must be a positive quantity such as 32 or 128Gi."
            )
    labels, taints = entry.get("labels") or {}, entry.get("taints") or []
    if not isinstance(labels, Mapping):
        raise UserError(f"{path}: node {name}: labels must be a mapping, not {labels!r}.")
    if not isinstance(taints, list) or not all(
        isinstance(one, Mapping) and one.get("effect") in _EFFECTS for one in taints
    ):
        raise UserError(
            f"{path}: node {name}: taints must be a list of {{key: …, effect: …}} with one of the effects "
            f"{', '.join(_EFFECTS)}, not {taints!r}."
        )
    gpus, gpu_type, real = _gpus(path, name, entry.get("gpus"))
    return NodeConfig(
        name,
        {key: format_quantity(quantity(value), str(value)) for key, value in amounts.items()},
        gpus,
        gpu_type,
        real,
        {str(key): str(value) for key, value in labels.items()},
        tuple(taints),
    )


def _gpus(path: Path, node: str, value: Any) -> tuple[int, str | None, tuple[int, ...]]:
    if not value:
        return 0, None, ()
    if value == "detect":
        names = detect_gpus()
        return len(names), (names[0] if names else None), tuple(range(len(names)))
    count = value.get("count") if isinstance(value, Mapping) else None
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MOST_GPUS:
        raise UserError(f"{path}: node {node}: gpus must be `detect` or {{type: V100, count: 4}}, not {value!r}.")
    return count, str(value.get("type") or "") or None, ()


def detect_gpus() -> list[str]:
    """The types of this machine's GPUs, by CUDA index, as NVML tells; empty without a driver."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no library, no driver, no permission: no GPUs for us
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return [short_type(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
    finally:
        pynvml.nvmlShutdown()


def short_type(name: str | bytes) -> str:
    """ "Tesla V100-SXM2-16GB" → "V100": the model's word, as manifests name it."""
    text = name.decode() if isinstance(name, bytes) else name
    words = [
        word
        for word in re.split(r"[\s_-]+", text)
        if word not in ("NVIDIA", "Tesla", "GeForce", "Quadro", "RTX", "GTX")
    ]
    return re.sub(r"[^A-Za-z0-9.]", "", words[0]) if words else "gpu"


def ready_condition(status: str = "True", reason: str = "KubeletReady", message: str = "") -> Object:
    """A node's Ready condition."""
    now = now_iso()
    text = message or "minicluster is posting ready status"
    return {"type": "Ready", "status": status, "reason": reason, "message": text, "lastHeartbeatTime": now,
            "lastTransitionTime": now}  # fmt: skip


def _object(config: NodeConfig, known: Object | None) -> Object:
    labels = {
        "kubernetes.io/hostname": config.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": _arch(),
        "ffdl.dev/minicluster": "true", **config.labels,
    }  # fmt: skip
    annotations = {}
    if config.gpus and config.gpu_type:
        labels[GPU_TYPE_LABEL] = config.gpu_type
        annotations["ffdl.dev/gpus"] = "real, found through NVML" if config.real else "simulated: no such device exists"
    amounts = {**config.capacity, "ephemeral-storage": "100Gi"}
    if config.gpus:
        amounts[GPU_RESOURCE] = str(config.gpus)
    meta: Object = dict(known["metadata"]) if known else {"name": config.name}
    spec: Object = dict(known["spec"]) if known else {"taints": [dict(taint) for taint in config.taints]}
    if not spec.get("taints"):
        spec.pop("taints", None)
    spec["providerID"] = f"minicluster://{config.name}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            **meta,
            "labels": {**(meta.get("labels") or {}), **labels},
            "annotations": {**(meta.get("annotations") or {}), **annotations},
        },
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": (known or {}).get("status", {}).get("conditions") or _conditions(config),
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": config.name},
            ],
            "nodeInfo": _info(),
        },
    }


def _conditions(config: NodeConfig) -> list[Object]:
    now = now_iso()
    quiet = [
        {"type": kind, "status": "False", "reason": f"KubeletHasNo{kind}", "message": "", "lastHeartbeatTime": now,
         "lastTransitionTime": now}
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")
    ]  # fmt: skip
    conditions = [*quiet, ready_condition()]
    if config.gpus and not config.real:
        text = "the GPUs of this node are simulated"
        simulated = {**ready_condition(reason="NotRealDevices", message=text), "type": "SimulatedGPUs"}
        conditions.insert(0, simulated)
    return conditions


def _arch() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _info() -> dict[str, str]:
    return {
        "architecture": _arch(), "operatingSystem": "linux", "osImage": "minicluster (processes on one machine)",
        "kernelVersion": os.uname().release, "kubeletVersion": VERSION, "kubeProxyVersion": VERSION,
        "containerRuntimeVersion": "minicluster://0.1", "machineID": "minicluster", "systemUUID": "minicluster",
        "bootID": "minicluster",
    }  # fmt: skip


def apply_nodes(store: Store, nodes: Mapping[str, NodeConfig]) -> None:
    """Bring the Node objects to what the file says; what people did to them (cordon, taints, labels) stays."""
    for node in store.list("nodes"):
        if node["metadata"]["name"] not in nodes:
            store.delete("nodes", "", node["metadata"]["name"])
    for name, config in nodes.items():
        known = store.peek("nodes", "", name)
        if known is None:
            store.create("nodes", _object(config, None))
        else:
            store.update("nodes", _object(config, known))
