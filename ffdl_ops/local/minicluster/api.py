"""The HTTP side: the Kubernetes API's paths and verbs over the store."""

from __future__ import annotations

import asyncio
import copy
import hmac
import json
import re
import time
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from aiohttp import web

from ffdl_ops.local.minicluster.admission import admit, quota_used
from ffdl_ops.local.minicluster.errors import ApiError
from ffdl_ops.local.minicluster.faults import Faults
from ffdl_ops.local.minicluster.kinds import KINDS, Kind, discovery
from ffdl_ops.local.minicluster.kubelet import Kubelet
from ffdl_ops.local.minicluster.logs import read_log, since_of
from ffdl_ops.local.minicluster.patches import apply_patch
from ffdl_ops.local.minicluster.quantities import show
from ffdl_ops.local.minicluster.selectors import field_filter, label_filter
from ffdl_ops.local.minicluster.store import Store, now_text
from ffdl_ops.local.minicluster.tables import table

__all__ = ["Api"]

_PATH = re.compile(
    r"^/(?:api/v1|apis/(?P<group>[^/]+)/v1)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]+))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?/?$"
)
_BOOKMARK_S = 15.0
_WATCH_S = 1800.0
_ZERO = Fraction(0)


class Api:
    """Answers the API's requests.

    :param token: the bearer token that every request must carry.
    """

    def __init__(self, store: Store, kubelet: Kubelet, faults: Faults, token: str) -> None:
        self.store = store
        self.kubelet = kubelet
        self.faults = faults
        self.token = token

    def application(self) -> web.Application:
        """The web application."""
        app = web.Application(client_max_size=8 << 20)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/healthz", self._ready)
        app.router.add_route("*", "/{path:.*}", self._guarded)
        return app

    async def _ready(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _guarded(self, request: web.Request) -> web.StreamResponse:
        try:
            sent = request.headers.get("Authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(sent.encode(), self.token.encode()):
                raise ApiError(401, "Unauthorized", "Unauthorized")
            if request.path.startswith("/admin/"):
                return web.json_response(await self.faults.handle(request))
            await self.faults.maybe_fail()
            return await self._dispatch(request)
        except ApiError as error:
            return web.json_response(error.status(), status=error.code)

    async def _dispatch(self, request: web.Request) -> web.StreamResponse:
        found = discovery(request.path)
        if found is not None:
            return web.json_response(found)
        parts = _PATH.match(request.path)
        if parts is None or parts["plural"] not in KINDS or (KINDS[parts["plural"]].group or None) != parts["group"]:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        kind = KINDS[parts["plural"]]
        namespace, name, sub = parts["namespace"], parts["name"], parts["sub"]
        if sub == "log" and kind.plural == "pods":
            return await self._log(request, namespace, name)
        if sub == "eviction":
            self.faults.evict(namespace, name, "The API evicted it")
            return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Success"}, status=201)
        if sub not in (None, "status", "finalize"):
            raise ApiError(404, "NotFound", f"the subresource {sub} is not served here")
        method = request.method
        if name is None and method == "GET":
            if request.query.get("watch") in ("1", "true"):
                return await self._watch(request, kind, namespace)
            return self._list(request, kind, namespace)
        if name is None and method == "POST":
            return await self._create(request, kind, namespace or "")
        if name is None and method == "DELETE":
            return self._delete_collection(request, kind, namespace or "")
        if name is None:
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        if method == "GET":
            value = self._shown(kind, self.store.get(kind.plural, namespace or "", name))
            return self._answer(request, kind, [value]) if _wants_table(request) else web.json_response(value)
        if method == "DELETE":
            return await self._delete(request, kind, namespace or "", name)
        if method in ("PUT", "PATCH"):
            return await self._change(request, kind, namespace or "", name, sub)
        raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    # -- reading ---------------------------------------------------------------------------------------------------
    def _shown(self, kind: Kind, value: Mapping[str, Any]) -> dict[str, Any]:
        shown = {"kind": kind.kind, "apiVersion": kind.api_version, **value}
        if kind.plural == "resourcequotas":
            hard = value["spec"].get("hard") or {}
            used = quota_used(self.store, value["metadata"]["namespace"])
            shown["status"] = {"hard": hard, "used": {key: show(used.get(key, _ZERO)) for key in hard}}
        return shown

    def _selected(self, request: web.Request, kind: Kind, namespace: str | None) -> list[dict[str, Any]]:
        labels, fields = (
            label_filter(request.query.get("labelSelector")),
            field_filter(request.query.get("fieldSelector")),
        )
        found = self.store.list(kind.plural, namespace)
        return [self._shown(kind, one) for one in found if labels(one) and fields(one)]

    def _list(self, request: web.Request, kind: Kind, namespace: str | None) -> web.Response:
        items = self._selected(request, kind, namespace)
        if _wants_table(request):
            return self._answer(request, kind, items)
        meta: dict[str, Any] = {"resourceVersion": str(self.store.version)}
        start, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or 0)
        page = items[start : start + limit] if limit else items[start:]
        if limit and start + limit < len(items):
            meta |= {"continue": str(start + limit), "remainingItemCount": len(items) - start - limit}
        body = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": meta, "items": page}
        return web.json_response(body)

    def _answer(self, request: web.Request, kind: Kind, items: list[dict[str, Any]]) -> web.Response:
        return web.json_response(table(kind.plural, items, str(self.store.version)))

    async def _watch(self, request: web.Request, kind: Kind, namespace: str | None) -> web.StreamResponse:
        labels, fields = (
            label_filter(request.query.get("labelSelector")),
            field_filter(request.query.get("fieldSelector")),
        )
        version_text = request.query.get("resourceVersion") or ""
        version = int(version_text) if version_text.isdigit() and version_text != "0" else None
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
        await response.prepare(request)

        async def send(verb: str, value: Mapping[str, Any]) -> None:
            await response.write(json.dumps({"type": verb, "object": value}).encode() + b"\n")

        if version is None:
            version = self.store.version
            for one in self._selected(request, kind, namespace):
                await send("ADDED", one)
        deadline = time.monotonic() + float(request.query.get("timeoutSeconds") or _WATCH_S)
        bookmarks = request.query.get("allowWatchBookmarks") in ("1", "true")
        matched: set[str] = set()
        try:
            while time.monotonic() < deadline:
                sent = False
                for number, _, verb, value in self.store.since(version, kind.plural):
                    version = number
                    if namespace is not None and value["metadata"].get("namespace") != namespace:
                        continue
                    good, uid = labels(value) and fields(value), value["metadata"]["uid"]
                    if good or uid in matched:
                        await send(verb if good else "DELETED", self._shown(kind, value))
                        matched.add(uid) if good else matched.discard(uid)
                        sent = True
                version = max(version, self.store.version) if not sent else version
                left = min(_BOOKMARK_S, deadline - time.monotonic())
                if left > 0:
                    await self.store.changed(left)
                if bookmarks and not sent:
                    empty = {"kind": kind.kind, "apiVersion": kind.api_version}
                    await send("BOOKMARK", {**empty, "metadata": {"resourceVersion": str(version)}})
        except ApiError as error:
            await send("ERROR", error.status())
        except (ConnectionResetError, asyncio.CancelledError):
            return response
        await response.write_eof()
        return response

    async def _log(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        pod, query = self.store.get("pods", namespace, name), request.query
        names = [one["name"] for one in [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])]]
        container = query.get("container") or names[0]
        if container not in names:
            raise ApiError(400, "BadRequest", f"container {container} is not valid for pod {name}")
        path = self.kubelet.directory(pod) / container
        if not (path / "started").exists():
            why = f'container "{container}" in pod "{name}" is waiting to start: ContainerCreating'
            raise ApiError(400, "BadRequest", why)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        lines = read_log(
            path / "log",
            follow=query.get("follow") in ("1", "true"),
            ended=lambda: (path / "ended").exists() or not path.exists(),
            timestamps=query.get("timestamps") in ("1", "true"),
            since=since_of(query.get("sinceSeconds"), query.get("sinceTime")),
            tail=int(query["tailLines"]) if query.get("tailLines") else None,
        )
        try:
            async for chunk in lines:
                await response.write(chunk)
            await response.write_eof()
        except ConnectionResetError:
            pass
        return response

    # -- writing -----------------------------------------------------------------------------------------------------
    async def _create(self, request: web.Request, kind: Kind, namespace: str) -> web.Response:
        value = await _body(request)
        if kind.namespaced and not namespace:
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        admit(self.store, kind.plural, namespace, value)
        if request.query.get("dryRun") == "All":
            return web.json_response(value, status=201)
        created = self.store.create(kind.plural, namespace, value)
        if kind.plural == "pods":
            self.faults.on_pod_created(created)
            self.kubelet.wake()
        headers = {}
        if not kind.enforced:
            headers["Warning"] = f'299 - "minicluster stores {kind.plural} and does not enforce them"'
        return web.json_response(self._shown(kind, created), status=201, headers=headers)

    async def _change(
        self, request: web.Request, kind: Kind, namespace: str, name: str, sub: str | None
    ) -> web.Response:
        present = self.store.get(kind.plural, namespace, name)
        body = await _body(request)
        if request.method == "PATCH":
            body = apply_patch(request.headers.get("Content-Type", ""), dict(present), body)
        if body.get("metadata", {}).get("name") != name:
            raise ApiError.invalid(kind.kind, name, "metadata.name", "Invalid value: it must be the name in the path")
        if kind.plural == "secrets":
            admit(self.store, kind.plural, namespace, body)
        if kind.plural == "pods" and sub is None:
            _check_pod_change(name, present, body)
            body["status"] = present["status"]
        body = copy.deepcopy({**present, **body})
        version = body.get("metadata", {}).get("resourceVersion") if request.method == "PUT" else None
        updated = self.store.update(kind.plural, namespace, body, version=version)
        if kind.plural in ("nodes", "resourcequotas"):
            self.kubelet.wake()
        return web.json_response(self._shown(kind, updated))

    async def _delete(self, request: web.Request, kind: Kind, namespace: str, name: str) -> web.Response:
        present = self.store.get(kind.plural, namespace, name)
        options = await _body(request) if request.can_read_body else {}
        wanted = (options.get("preconditions") or {}).get("uid")
        if wanted and wanted != present["metadata"]["uid"]:
            text = f"the UID in the precondition ({wanted}) does not match the UID in record ({present['metadata']['uid']})"
            raise ApiError(409, "Conflict", f'Operation cannot be fulfilled on {kind.plural} "{name}": {text}')
        grace = options.get("gracePeriodSeconds", request.query.get("gracePeriodSeconds"))
        if kind.plural == "pods":
            return web.json_response(self._shown(kind, self._delete_pod(namespace, name, grace)))
        if kind.plural == "namespaces":
            for other in KINDS.values():
                for one in self.store.list(other.plural, name) if other.namespaced else []:
                    if other.plural == "pods":
                        self._delete_pod(name, one["metadata"]["name"], 0)
                    else:
                        self.store.remove(other.plural, name, one["metadata"]["name"])
        self.store.remove(kind.plural, namespace, name)
        self._collect(present["metadata"]["uid"])
        return web.json_response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})

    def _delete_collection(self, request: web.Request, kind: Kind, namespace: str) -> web.Response:
        items = self._selected(request, kind, namespace)
        for one in items:
            if kind.plural == "pods":
                self._delete_pod(namespace, one["metadata"]["name"], request.query.get("gracePeriodSeconds"))
            else:
                self.store.remove(kind.plural, namespace, one["metadata"]["name"])
        body = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": {}, "items": items}
        return web.json_response(body)

    def _delete_pod(self, namespace: str, name: str, grace: Any) -> dict[str, Any]:
        pod = copy.deepcopy(self.store.get("pods", namespace, name))
        given = pod["spec"].get("terminationGracePeriodSeconds", 30) if grace is None else int(grace)
        meta = pod["metadata"]
        if "deletionTimestamp" in meta:
            given = min(given, meta["deletionGracePeriodSeconds"])
        meta |= {"deletionTimestamp": meta.get("deletionTimestamp") or now_text(), "deletionGracePeriodSeconds": given}
        updated = self.store.update("pods", namespace, pod)
        self._collect(meta["uid"])
        self.kubelet.stop((namespace, name), given)
        return updated

    def _collect(self, uid: str) -> None:
        """Remove what the deleted object owned."""
        for kind in KINDS.values():
            for one in list(self.store.list(kind.plural)):
                if any(owner.get("uid") == uid for owner in one["metadata"].get("ownerReferences") or []):
                    namespace, name = one["metadata"].get("namespace", ""), one["metadata"]["name"]
                    if kind.plural == "pods":
                        self._delete_pod(namespace, name, None)
                    else:
                        self.store.remove(kind.plural, namespace, name)


async def _body(request: web.Request) -> Any:
    try:
        return json.loads(await request.read() or b"{}")
    except ValueError as error:
        raise ApiError(400, "BadRequest", f"the request's body is not JSON: {error}") from None


def _wants_table(request: web.Request) -> bool:
    return "as=Table" in request.headers.get("Accept", "")


def _check_pod_change(name: str, present: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """A pod's specification can't be changed, but for a few fields that nothing here uses."""
    old_spec, new_spec = dict(present["spec"]), dict(new.get("spec") or {})
    for field in ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "nodeName"):
        old_spec.pop(field, None)
        new_spec.pop(field, None)
    if new_spec and {key: new_spec.get(key) for key in old_spec} != old_spec:
        why = "Forbidden: pod updates may not change fields other than images, deadlines and tolerations"
        raise ApiError.invalid("Pod", name, "spec", why)
