"""All parts of minicluster, put together and taken apart in the right order."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from ffdl_ops.adapters.images import Images
from ffdl_ops.core.errors import UserError
from ffdl_ops.local.minicluster.api.server import ApiServer
from ffdl_ops.local.minicluster.auth import load_credentials, write_kubeconfig
from ffdl_ops.local.minicluster.containers import Runtime
from ffdl_ops.local.minicluster.defaults import apply_defaults
from ffdl_ops.local.minicluster.devices import Devices
from ffdl_ops.local.minicluster.events import Recorder
from ffdl_ops.local.minicluster.faults import Faults
from ffdl_ops.local.minicluster.gc import Collector
from ffdl_ops.local.minicluster.isolation import Isolation, find_isolation
from ffdl_ops.local.minicluster.kubelet import Kubelet, Parts
from ffdl_ops.local.minicluster.listener import Listener
from ffdl_ops.local.minicluster.nodes import NodeConfig, apply_nodes, load_nodes
from ffdl_ops.local.minicluster.quota import QuotaKeeper
from ffdl_ops.local.minicluster.resources import find
from ffdl_ops.local.minicluster.scheduler import Scheduler
from ffdl_ops.local.minicluster.store import Store
from ffdl_ops.local.minicluster.volumes import Volumes

__all__ = ["MiniCluster", "Settings"]

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


@dataclass(frozen=True)
class Settings:
    """How a minicluster is started.

    :param state: directory of everything it keeps.
    :param port: where it listens, on 127.0.0.1; 0 for any free one.
    :param nodes: the nodes file.
    :param images: the image table.
    :param history: how many changes watches can be replayed from.
    """

    state: Path
    port: int
    nodes: Path
    images: Path
    history: int = 4096


class MiniCluster:
    """One running minicluster.

    :param settings: how it is started.
    :raises UserError: when a file, the port or the state directory can't be used.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.nodes: dict[str, NodeConfig] = load_nodes(settings.nodes)
        self.images = Images(settings.images)
        self.state = settings.state.absolute()
        self.state.mkdir(parents=True, exist_ok=True)
        self.state.chmod(0o711)
        self.private = self.state / "server"
        self.private.mkdir(mode=0o700, exist_ok=True)
        self._lock = self._take_lock()
        self.isolation: Isolation = find_isolation(self.state)
        self.credentials = load_credentials(self.private)

    @property
    def kubeconfig(self) -> Path:
        """Where the kubeconfig is."""
        return self.state / "kubeconfig"

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._listener.port

    def _take_lock(self) -> int:
        handle = os.open(self.private / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"Another minicluster works on {self.state}; stop it, or choose another --state.") from None
        return handle

    async def open(self) -> None:
        """Start, and take up what an earlier server left."""
        self.store = Store(self.private / "objects.sqlite", history=self.settings.history)
        recorder = Recorder(self.store)
        self._runtime = Runtime(self.private / "pods", self.isolation.closed, self._run_changed)
        (self.private / "pods").mkdir(mode=0o700, exist_ok=True)
        volumes = Volumes(self.state, self.store)
        devices = Devices(self.store, self.nodes)
        self.kubelet = Kubelet(
            Parts(self.store, self._runtime, volumes, self.images, self.isolation, recorder, devices, self.nodes)
        )
        faults = Faults(self.store, self.kubelet, recorder)
        await self._runtime.open()
        QuotaKeeper(self.store)
        self._collector = Collector(self.store, recorder)
        self._collector.open()
        self._scheduler = Scheduler(self.store, recorder)
        apply_nodes(self.store, self.nodes)
        self._namespaces()
        self.kubelet.open()
        self._scheduler.wake()
        api = ApiServer(self.store, self.kubelet, self.credentials, faults)
        self._runner = web.AppRunner(
            api.app, access_log=None, keepalive_timeout=300.0, shutdown_timeout=0.5, handler_cancellation=True
        )
        await self._runner.setup()
        if self._runner.server is None:
            raise UserError("the HTTP server has not started")
        self._listener = Listener(self.settings.port, self._runner.server, self.credentials.tls())
        write_kubeconfig(self.kubeconfig, self.credentials, self._listener.port)
        self._listener.open()

    def _run_changed(self, pod_uid: str) -> None:
        self.kubelet.run_changed(pod_uid)

    def _namespaces(self) -> None:
        resource = find("namespaces")
        for name in _NAMESPACES:
            if self.store.peek("namespaces", "", name) is None:
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                self.store.create("namespaces", apply_defaults(resource, body))

    async def close(self, *, stop_pods_grace_s: float | None) -> None:
        """Stop.

        :param stop_pods_grace_s: end all pods first, as a node that shuts down does, with this grace; ``None`` leaves them.
        """
        self._listener.close()
        if stop_pods_grace_s is not None:
            await self.kubelet.stop_all(stop_pods_grace_s)
        await self.kubelet.close()
        self._collector.close()
        await self._runtime.close()
        await self._runner.cleanup()
        self.store.close()
        os.close(self._lock)
