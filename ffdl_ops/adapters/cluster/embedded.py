"""A client of the embedded cluster's admin surface, for drills, tests and benchmarks.

admin = AdminClient.from_kubeconfig(path)
admin.lose("v100-a", delete_after_s=5)
"""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ffdl_ops.core.errors import FfdlError

__all__ = ["AdminClient", "AdminRefused"]


class AdminRefused(FfdlError):
    """minicluster refused a fault; the message is its own."""


class AdminClient:
    """Injects faults into a running minicluster.

    :param server: its address.
    :param token: its token.
    :param authority: its authority's certificate, PEM, when the address is https.
    """

    def __init__(self, server: str, token: str, authority: str | None = None) -> None:
        self._server, self._token = server.rstrip("/"), token
        self._tls = ssl.create_default_context(cadata=authority) if authority else None

    @classmethod
    def from_kubeconfig(cls, path: str | Path) -> AdminClient:
        """The client of the minicluster that a kubeconfig names."""
        import yaml

        config = yaml.safe_load(Path(path).read_text())
        cluster = config["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        return cls(cluster["server"], config["users"][0]["user"]["token"], authority)

    def _post(self, name: str, **body: Any) -> Any:
        body = {key: value for key, value in body.items() if value is not None}
        request = urllib.request.Request(
            f"{self._server}/admin/{name}",
            data=json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30, context=self._tls) as answer:
                return json.load(answer).get("result")
        except urllib.error.HTTPError as error:
            raise AdminRefused(json.load(error).get("message", str(error))) from None

    def processes(self, namespace: str, name: str) -> list[int]:
        """The pids of a pod's living processes, those of its side-cars too."""
        return [int(pid) for pid in self._post("processes", namespace=namespace, pod=name)]

    def pin_pods(self, cpus: Sequence[int] | None) -> None:
        """Let all pods' processes run on these CPUs alone, from now on; ``None`` lets them run on all again."""
        self._post("pod-cpus", cpus=None if cpus is None else list(cpus))

    def cordon(self, node: str, unschedulable: bool = True) -> None:
        """Close a node for new pods, or open it."""
        self._post("cordon", node=node, unschedulable=unschedulable)

    def drain(self, node: str, grace_s: int | None = None) -> int:
        """Close a node and evict its pods gracefully; how many."""
        return int(self._post("drain", node=node, grace_s=grace_s))

    def lose(self, node: str, *, delete_after_s: float = 300.0, gone_after_s: float | None = None) -> int:
        """Cut a node off; how many pods were on it. See `Faults.lose`."""
        return int(self._post("lose", node=node, delete_after_s=delete_after_s, gone_after_s=gone_after_s))

    def restore(self, node: str) -> None:
        """Bring a lost, drained or closed node back."""
        self._post("restore", node=node)

    def spot_kill(self, node: str, grace_s: float = 0.0) -> int:
        """Take a spot machine back; how many pods were on it."""
        return int(self._post("spot-kill", node=node, grace_s=grace_s))

    def evict(self, namespace: str, name: str, message: str | None = None) -> None:
        """Evict a pod: Failed, reason Evicted."""
        self._post("evict", namespace=namespace, pod=name, message=message)

    def kill(self, namespace: str, name: str, container: str = "", signal: int = 9) -> int:
        """Send a signal to a pod's containers; how many got it.

        It goes to the main process of each; SIGKILL, SIGSTOP and SIGCONT go to all processes.
        """
        return int(self._post("kill", namespace=namespace, pod=name, container=container, signal=signal))

    def refuse_next(self, node: str, reason: str = "OutOfmemory", message: str | None = None) -> None:
        """Let a node refuse the next pod bound to it: Failed without container statuses."""
        self._post("refuse-next", node=node, reason=reason, message=message)

    def fail_api(
        self, *, count: int | None = None, share: float = 1.0, code: int = 500, delay_s: float = 0.0, method: str = "",
        path: str = "",
    ) -> None:  # fmt: skip
        """Let requests fail or be slow, until `heal_api`.

        :param count: how many fail, or ``None`` for no bound.
        :param share: which part of them fails; 0 to only slow them down.
        :param delay_s: seconds that each is held.
        :param method: only this method.
        :param path: only paths that contain this.
        """
        self._post("api", count=count, share=share, code=code, delay_s=delay_s, method=method, path=path)

    def heal_api(self) -> None:
        """Let requests be answered as usual."""
        self._post("api", share=0, delay_s=0)

    def compact(self) -> None:
        """Forget the history of changes: older watches and continued lists get 410."""
        self._post("compact")
