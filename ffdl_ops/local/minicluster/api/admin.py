"""The admin surface: POST /admin/<fault> with JSON; it asks for the same token as everything else."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from ffdl_ops.core.errors import UserError
from ffdl_ops.local.minicluster.api.reads import Pages
from ffdl_ops.local.minicluster.api.request import read_body, respond
from ffdl_ops.local.minicluster.errors import ApiError, bad_request, method_not_allowed
from ffdl_ops.local.minicluster.faults import ApiFault, Faults
from ffdl_ops.local.minicluster.kubelet import Kubelet
from ffdl_ops.local.minicluster.processes import checked_cpus

__all__ = ["Admin"]

Body = Mapping[str, Any]


class Admin:
    """Turns requests into faults.

    :param kubelet: for what is shown.
    :param faults: what does them.
    :param pages: lists read page by page, forgotten by ``compact``.
    """

    def __init__(self, kubelet: Kubelet, faults: Faults, pages: Pages) -> None:
        self._kubelet, self._faults, self._pages = kubelet, faults, pages
        self._actions: dict[str, Callable[[Body], Any]] = {
            "cordon": lambda body: faults.cordon(body["node"], bool(body.get("unschedulable", True))),
            "drain": lambda body: faults.drain(body["node"], body.get("grace_s")),
            "lose": lambda body: faults.lose(
                body["node"], float(body.get("delete_after_s", 300)), body.get("gone_after_s")
            ),
            "restore": lambda body: faults.restore(body["node"]),
            "spot-kill": lambda body: faults.spot_kill(body["node"], float(body.get("grace_s", 0))),
            "refuse-next": lambda body: faults.refuse_next(
                body["node"],
                body.get("reason", "OutOfmemory"),
                body.get("message", "Pod was rejected: Node didn't have enough resource: memory (injected)"),
            ),
            "evict": lambda body: faults.evict(
                body["namespace"], body["pod"], body.get("message", "The node was low on resource: memory.")
            ),
            "kill": lambda body: faults.kill(
                body["namespace"], body["pod"], body.get("container", ""), int(body.get("signal", signal.SIGKILL))
            ),
            "processes": lambda body: kubelet.processes_of(body["namespace"], body["pod"]),
            "pod-cpus": self._pod_cpus,
            "api": self._api,
            "compact": self._compact,
        }

    def _api(self, body: Body) -> None:
        fault = ApiFault(
            int(body.get("code", 500)), body.get("count"), float(body.get("share", 1 if body.get("count") else 0)),
            float(body.get("delay_s", 0)), str(body.get("method", "")), str(body.get("path", "")),
        )  # fmt: skip
        if not 0 <= fault.share <= 1:
            raise bad_request(f"share is {fault.share}; it must be from 0 to 1")
        self._faults.api = fault

    def _pod_cpus(self, body: Body) -> None:
        try:
            self._kubelet.pin_pods(checked_cpus(body.get("cpus")))
        except UserError as error:
            raise bad_request(str(error)) from None

    def _compact(self, body: Body) -> None:
        self._kubelet.store.compact()
        self._pages.clear()

    async def answer(self, request: web.Request) -> web.Response:
        """Do what a request says.

        :raises ApiError: 400, 404 or 405.
        """
        name = request.path.removeprefix("/admin").strip("/")
        if request.method == "GET" and not name:
            return respond({
                "actions": sorted(self._actions), "lost_nodes": sorted(self._kubelet.lost), "api": vars(self._faults.api),
                "containers": self._kubelet.process_count(), "version": self._kubelet.store.version,
                "pod_cpus": self._kubelet.runtime.cpus,
            })  # fmt: skip
        if name not in self._actions:
            raise ApiError(
                404, "NotFound", f"there is no fault {name!r}; there are: {', '.join(sorted(self._actions))}"
            )
        if request.method != "POST":
            raise method_not_allowed()
        try:
            result = self._actions[name](await read_body(request, required=False))
        except (KeyError, TypeError, ValueError) as error:
            raise bad_request(f"{name}: {error!r} is missing or of a wrong type") from None
        return respond({"done": name, "result": result})
