"""A request's path and query, as the API understands them; bodies; answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import yaml
from aiohttp import web

from ffdl_ops.local.minicluster.errors import bad_request, unsupported_media
from ffdl_ops.local.minicluster.protobuf import CONTENT_TYPE, decode
from ffdl_ops.local.minicluster.resources import BY_PATH, Resource

__all__ = ["Target", "parse_target", "read_body", "respond", "truth", "wants_table"]

Object = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """What a path means.

    :param resource: the kind of object.
    :param namespace: empty for all namespaces, or for objects that live in none.
    :param name: empty for a collection.
    :param sub: the subresource, or empty.
    """

    resource: Resource
    namespace: str
    name: str
    sub: str


def parse_target(path: str) -> Target | None:
    """The target of a path below /api or /apis; ``None`` when it names no resource that is kept.

    A namespace itself is both an object and a place: /api/v1/namespaces/x is the object.
    """
    parts = [part for part in path.split("/") if part]
    if parts[:2] == ["api", "v1"]:
        group, version, rest = "", "v1", parts[2:]
    elif len(parts) >= 3 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if (
        len(rest) >= 3
        and rest[0] == "namespaces"
        and not (group == "" and rest[2] in ("status", "finalize") and len(rest) == 3)
    ):
        namespace, rest = rest[1], rest[2:]
    if rest and rest[0] == "watch":
        rest = rest[1:]
    if not rest or len(rest) > 3:
        return None
    resource = BY_PATH.get((group, version, rest[0]))
    if resource is None or (namespace and not resource.namespaced):
        return None
    name = rest[1] if len(rest) > 1 else ""
    if name and resource.namespaced and not namespace:
        return None
    return Target(resource, namespace, name, rest[2] if len(rest) > 2 else "")


async def read_body(request: web.Request, *, required: bool = True) -> Any:
    """The request's JSON, YAML or protobuf.

    :raises ApiError: 400 or 415.
    """
    raw = await request.read()
    if not raw.strip():
        if required:
            raise bad_request("a body is required")
        return {}
    kind = request.headers.get("Content-Type", "application/json").partition(";")[0].strip()
    if kind == CONTENT_TYPE:
        return decode(raw)
    try:
        if "yaml" in kind:
            return yaml.safe_load(raw)
        if "json" not in kind and kind not in ("", "*/*", "application/octet-stream"):
            raise unsupported_media(kind, ("application/json", "application/yaml"))
        return json.loads(raw)
    except (ValueError, yaml.YAMLError) as error:
        raise bad_request(f"the object provided is unrecognized (must be of type {kind}): {error}") from None


def respond(body: Any, status: int = 200, warning: str = "") -> web.Response:
    """A JSON answer.

    :param warning: for the ``Warning`` header that kubectl prints.
    """
    headers = {"Cache-Control": "no-cache, private"}
    if warning:
        headers["Warning"] = f'299 - "{warning}"'
    text = json.dumps(body, separators=(",", ":")).encode()
    return web.Response(body=text, status=status, content_type="application/json", headers=headers)


def truth(text: str | None) -> bool:
    """A yes or no in a query, as the real server reads it."""
    return text in ("1", "t", "T", "true", "TRUE", "True")


def wants_table(request: web.Request) -> bool:
    """Whether the client asks for rows and columns."""
    return "as=Table" in request.headers.get("Accept", "")
