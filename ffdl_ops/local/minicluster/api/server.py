"""The HTTP server: who may ask, what a request means, and every refusal as a Status object."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiohttp import web

from ffdl_ops.local.minicluster.api import pods, reads, writes
from ffdl_ops.local.minicluster.api.admin import Admin
from ffdl_ops.local.minicluster.api.discovery import PUBLIC, discover
from ffdl_ops.local.minicluster.api.request import Target, parse_target, read_body, respond, truth
from ffdl_ops.local.minicluster.auth import Credentials
from ffdl_ops.local.minicluster.deletion import DeleteOptions, delete
from ffdl_ops.local.minicluster.errors import ApiError, bad_request, method_not_allowed, unauthorized
from ffdl_ops.local.minicluster.faults import Faults
from ffdl_ops.local.minicluster.kubelet import Kubelet
from ffdl_ops.local.minicluster.store import Object, Store
from ffdl_ops.local.minicluster.tables import table

__all__ = ["ApiServer"]

_LOG = logging.getLogger(__name__)
_STREAMS = ("exec", "attach", "portforward", "proxy")
_LARGEST_BODY = 8 << 20


class ApiServer:
    """Answers requests.

    :param store: the objects.
    :param kubelet: for logs.
    :param credentials: who may ask.
    :param faults: what goes wrong on purpose.
    """

    def __init__(self, store: Store, kubelet: Kubelet, credentials: Credentials, faults: Faults) -> None:
        self._store, self._kubelet, self._credentials, self._faults = store, kubelet, credentials, faults
        self._pages = reads.Pages()
        self._admin = Admin(kubelet, faults, self._pages)
        self.app = web.Application(client_max_size=_LARGEST_BODY)
        self.app.router.add_route("*", "/{path:.*}", self._answer)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._dispatch(request)
        except ApiError as error:
            return respond(error.status(), error.code)
        except ConnectionError:  # the client has gone: nobody reads the answer
            return web.Response()
        except (web.HTTPException, asyncio.CancelledError):
            raise
        except Exception as error:
            _LOG.exception("%s %s", request.method, request.path)
            return respond(ApiError(500, "InternalError", f"Internal error occurred: {error}").status(), 500)

    async def _dispatch(self, request: web.Request) -> web.StreamResponse:
        path = request.path.rstrip("/") or "/"
        if path not in PUBLIC and not self._credentials.allow(request.headers.get("Authorization", "")):
            raise unauthorized()
        if path.startswith("/admin"):
            return await self._admin.answer(request)
        if path not in PUBLIC:
            await self._faults.before(request)
        if request.method == "GET" and (found := discover(path)) is not None:
            return found
        if path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
            review = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
            return respond({**review, "status": {"allowed": True}}, 201)
        target = parse_target(path)
        if target is None:
            raise _nothing_there()
        if target.sub:
            return await self._subresource(target, request)
        if target.name:
            return await self._one(target, request)
        return await self._many(target, request)

    async def _one(self, target: Target, request: web.Request) -> web.StreamResponse:
        match request.method:
            case "GET" if _watches(request):
                return await reads.watch(self._store, target, request)
            case "GET":
                return reads.get(self._store, target, request)
            case "PUT":
                return respond(await writes.replace(self._store, target, request))
            case "PATCH":
                body, created = await writes.patch(self._store, target, request)
                return respond(body, 201 if created else 200, target.resource.caveat if created else "")
            case "DELETE":
                return await self._delete(target, request)
        raise method_not_allowed()

    async def _many(self, target: Target, request: web.Request) -> web.StreamResponse:
        resource = target.resource
        match request.method:
            case "GET" if _watches(request):
                return await reads.watch(self._store, target, request)
            case "GET":
                return reads.list_objects(self._store, self._pages, target, request)
            case "POST":
                if resource.namespaced and not target.namespace:
                    raise method_not_allowed()
                body = await writes.create(self._store, target, request)
                if "as=Table" in request.headers.get("Accept", ""):
                    return respond(table(resource, [body], self._store.version), 201, resource.caveat)
                return respond(body, 201, resource.caveat)
            case "DELETE" if resource.key != "namespaces":
                return await self._delete_many(target, request)
        raise method_not_allowed()

    async def _subresource(self, target: Target, request: web.Request) -> web.StreamResponse:
        if target.resource.key == "pods":
            if target.sub == "log" and request.method == "GET":
                return await pods.send_log(self._kubelet, target, request)
            if target.sub == "eviction" and request.method == "POST":
                return await pods.evict(self._store, target, request)
            if target.sub == "binding" and request.method == "POST":
                return await pods.bind(self._store, target, request)
            if target.sub in _STREAMS:
                raise pods.refuse_streams(target.sub)
        if target.sub == "status" and target.resource.status and request.method in ("GET", "PUT", "PATCH"):
            return await self._one(target, request)
        if target.sub == "finalize" and target.resource.key == "namespaces" and request.method == "PUT":
            return respond(self._store.get("namespaces", "", target.name))
        raise _nothing_there()

    # -- deletes -------------------------------------------------------------------------------------------------
    async def _delete(self, target: Target, request: web.Request) -> web.Response:
        options = _delete_options(await read_body(request, required=False), request)
        body = self._store.get(target.resource.key, target.namespace, target.name)
        found, gone = delete(self._store, target.resource, body, options)
        if gone and target.resource.key != "pods":
            return respond(_success(target, found))
        return respond(found)

    async def _delete_many(self, target: Target, request: web.Request) -> web.Response:
        options = _delete_options(await read_body(request, required=False), request)
        listed = reads.select(self._store, target, request.query)
        deleted = [delete(self._store, target.resource, body, options)[0] for body in listed]
        resource = target.resource
        meta = {"resourceVersion": str(self._store.version)}
        return respond(
            {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": meta, "items": deleted}
        )


def _watches(request: web.Request) -> bool:
    return truth(request.query.get("watch")) or "/watch/" in request.path


def _delete_options(body: Any, request: web.Request) -> DeleteOptions:
    try:
        return DeleteOptions.read(body if isinstance(body, dict) else {}, request.query)
    except ValueError as error:
        raise bad_request(f"invalid delete options: {error}") from None


def _success(target: Target, body: Object) -> dict[str, Any]:
    details = {"name": target.name, "kind": target.resource.plural, "uid": body["metadata"]["uid"]}
    if target.resource.group:
        details["group"] = target.resource.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _nothing_there() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource")
