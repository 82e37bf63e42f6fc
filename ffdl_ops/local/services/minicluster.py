"""The embedded cluster as a service, and the end of its pods, which outlive the server itself."""

from __future__ import annotations

import base64
import hashlib
import ssl
import sys
import time
import urllib.request
from pathlib import Path

from ffdl_ops.adapters.cluster.client import Cluster
from ffdl_ops.local.services.process import Process
from ffdl_ops.local.services.service import Service

__all__ = ["kubeconfig", "minicluster_service", "stop_pods"]

_START_S = 60.0
_GRACE_S = 5
_GONE_S = 20.0


def kubeconfig(home: Path) -> Path:
    """The file that opens the cluster."""
    return home / "minicluster" / "kubeconfig"


def minicluster_service(home: Path, config: Path, port: int) -> Service:
    """The server.

    :param config: where `nodes.yaml` and `images.yaml` are.
    """
    command = [
        sys.executable, "-m", "ffdl_ops.local.minicluster", "--state", str(home / "minicluster"), "--port", str(port),
        "--nodes", str(config / "nodes.yaml"), "--images", str(config / "images.yaml"),
    ]  # fmt: skip
    files = [config / name for name in ("nodes.yaml", "images.yaml")]
    content = hashlib.sha256(b"".join(file.read_bytes() for file in files if file.exists())).hexdigest()
    settings = {"FFDL_MINICLUSTER_CONFIG": content}  # so that a changed file restarts the server
    return Service(Process("minicluster", home), command, lambda: answers(kubeconfig(home), port), _START_S, settings)


def answers(kubeconfig: Path, port: int) -> bool:
    """Whether the server on this port says that it is ready.

    :raises OSError: while it is not there.
    """
    import yaml

    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    if not cluster["server"].endswith(f":{port}"):
        return False
    authority = cluster.get("certificate-authority-data")
    context = ssl.create_default_context(cadata=base64.b64decode(authority).decode()) if authority else None
    with urllib.request.urlopen(f"{cluster['server']}/readyz", timeout=5, context=context) as answer:
        return bool(answer.status == 200)


def stop_pods(kubeconfig: Path) -> int:
    """Delete every pod with a short grace period, and wait until all are gone (or the time is over).

    :returns: how many there were.
    """
    cluster = Cluster(str(kubeconfig))
    pods = cluster.call("list pods", cluster.core.list_pod_for_all_namespaces).items
    for pod in pods:
        cluster.delete_pod(pod.metadata.namespace, pod.metadata.name, grace_s=_GRACE_S)
    deadline = time.monotonic() + _GONE_S
    while pods and time.monotonic() < deadline:
        if not cluster.call("list pods", cluster.core.list_pod_for_all_namespaces).items:
            break
        time.sleep(0.1)
    return len(pods)
