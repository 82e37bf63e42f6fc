"""The cluster's nodes, from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ffdl_ops.local.minicluster.store import Store, now_text

__all__ = ["apply_nodes"]


def apply_nodes(store: Store, path: Path) -> None:
    """Make the nodes that the file names; a node that it no longer names is removed, one that is there keeps its state.

    :param path: YAML: `nodes: [{name, gpus, gpu_type, cpus, memory, labels}]`; the GPUs are simulated.
    """
    wanted = {one["name"]: one for one in yaml.safe_load(path.read_text())["nodes"]}
    for node in store.list("nodes"):
        if node["metadata"]["name"] not in wanted:
            store.remove("nodes", "", node["metadata"]["name"])
    for name, entry in wanted.items():
        if store.find("nodes", "", name) is None:
            store.create("nodes", "", _node(name, entry))


def _node(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    size = {
        "cpu": str(entry.get("cpus", 32)),
        "memory": str(entry.get("memory", "128Gi")),
        "pods": "250",
        "ephemeral-storage": "100Gi",
    }
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(entry.get("labels") or {})}
    annotations = {}
    if entry.get("gpus"):
        size["nvidia.com/gpu"] = str(entry["gpus"])
        labels["ffdl.dev/gpu-type"] = str(entry["gpu_type"])
        annotations["minicluster/gpus-are"] = "simulated"
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {},
        "status": {
            "capacity": size,
            "allocatable": size,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": now_text()}
            ],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
            "nodeInfo": {"kubeletVersion": "v1.32.0-minicluster", "osImage": "this machine"},
        },
    }
