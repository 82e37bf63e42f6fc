"""`python -m ffdl_ops.local.minicluster`: the server."""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import os
import secrets
import signal
import sys
from pathlib import Path

import yaml
from aiohttp import web

from ffdl_ops.local.minicluster.api import Api
from ffdl_ops.local.minicluster.faults import Faults
from ffdl_ops.local.minicluster.images import Images
from ffdl_ops.local.minicluster.kubelet import Kubelet
from ffdl_ops.local.minicluster.nodes import apply_nodes
from ffdl_ops.local.minicluster.store import Store
from ffdl_ops.local.minicluster.tls import server_context
from ffdl_ops.local.minicluster.users import Users, why_not_isolated

__all__ = ["main"]


def main() -> int:
    """Run the server until it is told to stop; its pods live on."""
    parser = argparse.ArgumentParser(
        prog="minicluster", description="A stand-in for a Kubernetes cluster on one machine."
    )
    parser.add_argument("--state", type=Path, required=True, help="where everything is kept")
    parser.add_argument("--port", type=int, default=6443)
    parser.add_argument("--nodes", type=Path, required=True, help="the nodes' file")
    parser.add_argument("--images", type=Path, required=True, help="the table of images")
    options = parser.parse_args()
    asyncio.run(_serve(options.state.resolve(), options.port, options.nodes, options.images))
    return 0


async def _serve(state: Path, port: int, nodes: Path, images: Path) -> None:
    state.mkdir(parents=True, exist_ok=True)
    # Pods under users of their own must be able to pass through, to their own directories alone.
    state.chmod(0o711)
    store = Store(state / "objects")
    for name in ("pods", "hostpath"):
        (state / name).mkdir(exist_ok=True, mode=0o711)
    closed = why_not_isolated()
    kubelet = Kubelet(store, state, Images(images), None if closed else Users(state / "uids.json"))
    apply_nodes(store, nodes)
    if store.find("namespaces", "", "default") is None:
        store.create("namespaces", "", {"metadata": {"name": "default"}, "status": {"phase": "Active"}})
    token = _token(state)
    context, authority = server_context(state)
    _write_kubeconfig(state, port, token, authority)
    api = Api(store, kubelet, Faults(store, kubelet), token)
    runner = web.AppRunner(api.application(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
    _banner(state, port, closed)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    work = asyncio.create_task(kubelet.run())
    await stop.wait()
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work
    await runner.cleanup()


def _token(state: Path) -> str:
    path = state / "token"
    if not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(secrets.token_hex(24))
    return path.read_text()


def _write_kubeconfig(state: Path, port: int, token: str, authority: bytes) -> None:
    server = {
        "server": f"https://127.0.0.1:{port}",
        "certificate-authority-data": base64.b64encode(authority).decode(),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "minicluster",
        "clusters": [{"name": "minicluster", "cluster": server}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "minicluster", "context": {"cluster": "minicluster", "user": "admin"}}],
    }
    temporary = state / "kubeconfig.tmp"
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        yaml.safe_dump(config, file)
    temporary.replace(state / "kubeconfig")


def _banner(state: Path, port: int, closed: str | None) -> None:
    isolation = f"NOT isolated from each other: {closed}" if closed else "isolated by a user for each namespace"
    sys.stdout.write(
        f"minicluster listens on https://127.0.0.1:{port} (kubeconfig: {state / 'kubeconfig'}).\n"
        "It is a stand-in for a Kubernetes cluster, for one machine: pods are processes, images are local environments,\n"
        "GPUs are simulated, network policies and volumes claims are stored and not enforced.\n"
        f"Tenants are {isolation}.\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
