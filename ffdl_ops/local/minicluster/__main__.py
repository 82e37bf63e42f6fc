"""``python -m ffdl_ops.local.minicluster``: start it, say what it is and is not, serve until told to stop."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from ffdl_ops.core.errors import FfdlError
from ffdl_ops.local.minicluster.cluster import MiniCluster, Settings

_STOP_GRACE_S = 5.0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="minicluster",
        description="A stand-in for a Kubernetes cluster on one machine: pods are processes. For laptops and tests.",
        epilog="However it ends, its pods live on and are found again by the next start; --stop-pods ends them with it.",
    )
    parser.add_argument("--state", type=Path, required=True, help="directory of everything it keeps")
    parser.add_argument("--port", type=int, default=6443, help="port on 127.0.0.1; 0 for any free one (default: 6443)")
    parser.add_argument("--nodes", type=Path, required=True, help="nodes file, see config/nodes.yaml")
    parser.add_argument("--images", type=Path, required=True, help="image table, see config/images.yaml")
    parser.add_argument("--stop-pods", action="store_true", help="end the pods when stopped by SIGTERM or SIGINT")
    parser.add_argument(
        "--history", type=int, default=4096, help="changes that watches can be replayed from (default: 4096)"
    )
    return parser.parse_args()


def banner(cluster: MiniCluster) -> str:
    """What the user is to know, without anything secret."""
    lines = [
        f"minicluster on https://127.0.0.1:{cluster.port} (also plain http), kubeconfig {cluster.kubeconfig}",
        "It is a stand-in for a cluster on ONE machine, for laptops and tests: pods are processes of this machine, node sizes",
        "are simulated, network policies, RBAC and volumes' read-only flags are stored and NOT enforced.",
        f"Tenants: {cluster.isolation.remark}.",
    ]
    for node in cluster.nodes.values():
        if node.gpus:
            kind = "real" if node.real else "SIMULATED"
            lines.append(f"Node {node.name}: {node.gpus} {kind} GPUs of type {node.gpu_type}.")
        else:
            lines.append(f"Node {node.name}: no GPUs.")
    return "\n".join(lines)


async def _serve(arguments: argparse.Namespace) -> None:
    settings = Settings(arguments.state, arguments.port, arguments.nodes, arguments.images, arguments.history)
    cluster = MiniCluster(settings)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await cluster.open()
    sys.stdout.write(banner(cluster) + "\n")
    sys.stdout.flush()
    await stopped.wait()
    await cluster.close(stop_pods_grace_s=_STOP_GRACE_S if arguments.stop_pods else None)


def main() -> int:
    """Run; exit code 0 after a signal, 2 when it could not start."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        asyncio.run(_serve(_arguments()))
    except FfdlError as error:
        sys.stderr.write(f"minicluster: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
