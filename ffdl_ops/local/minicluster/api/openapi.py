"""As much OpenAPI as kubectl asks for before it writes: that the server takes ``dryRun`` and ``fieldValidation``.

No schemas are published: fields that are not known are stored as they are, and nobody warns of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from ffdl_ops.local.minicluster.api.request import respond
from ffdl_ops.local.minicluster.resources import ALL, Resource

__all__ = ["openapi"]

_EMPTY_V2 = b"\x0a\x032.0"
"""A version 2 document without definitions, in protobuf, the only form in which kubectl asks for it."""

_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string"}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]


def openapi(parts: Sequence[str]) -> web.Response | None:
    """The answer to a path below /openapi; ``None`` when there is none."""
    if list(parts) == ["v2"]:
        return web.Response(body=_EMPTY_V2, content_type="application/octet-stream")
    if list(parts) == ["v3"]:
        return respond({"paths": {root: {"serverRelativeURL": f"/openapi/v3/{root}"} for root in sorted(_roots())}})
    root = "/".join(parts[1:])
    if parts and parts[0] == "v3" and root in _roots():
        listed = [resource for resource in ALL if _root(resource) == root]
        paths = {f"/{root}/{resource.plural}/{{name}}": _path(resource) for resource in listed}
        return respond({"openapi": "3.0.0", "info": {"title": "minicluster", "version": "v1"}, "paths": paths})
    return None


def _roots() -> set[str]:
    return {_root(resource) for resource in ALL}


def _root(resource: Resource) -> str:
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def _path(resource: Resource) -> dict[str, Any]:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    patch = {"parameters": _PARAMETERS, "responses": {}, "x-kubernetes-group-version-kind": kind}
    return {"patch": patch}
