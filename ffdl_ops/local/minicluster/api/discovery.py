"""What clients ask first: versions, groups, resources, health."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from ffdl_ops.local.minicluster.api.openapi import openapi
from ffdl_ops.local.minicluster.api.request import respond
from ffdl_ops.local.minicluster.nodes import VERSION
from ffdl_ops.local.minicluster.resources import ALL, Resource

__all__ = ["PUBLIC", "discover"]

PUBLIC = ("/readyz", "/healthz", "/livez", "/version")
"""Answered without a token, as the real server does."""

_SUBRESOURCES = {
    "pods": (("log", "Pod", ("get",)), ("eviction", "Eviction", ("create",)), ("binding", "Binding", ("create",)))
}


def discover(path: str) -> web.Response | None:
    """The answer to a path that asks what there is; ``None`` for any other path."""
    parts = [part for part in path.split("/") if part]
    if path in ("/readyz", "/healthz", "/livez"):
        return web.Response(text="ok")
    if parts == ["version"]:
        return respond({"major": "1", "minor": "32", "gitVersion": VERSION, "gitCommit": "minicluster", "gitTreeState": "clean",
                        "buildDate": "2026-01-01T00:00:00Z", "goVersion": "none", "compiler": "python",
                        "platform": "linux/amd64"})  # fmt: skip
    if parts[:1] == ["openapi"]:
        return openapi(parts[1:])
    if parts == ["api"]:
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}]
        return respond({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses})
    if parts == ["apis"]:
        return respond({"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in _groups()]})
    if len(parts) == 2 and parts[0] == "apis" and parts[1] in _groups():
        return respond({"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1])})
    if parts == ["api", "v1"]:
        return respond(_resources("", "v1"))
    if len(parts) == 3 and parts[0] == "apis" and parts[1] in _groups():
        return respond(_resources(parts[1], parts[2]))
    return None


def _groups() -> list[str]:
    return sorted({resource.group for resource in ALL if resource.group})


def _group(name: str) -> dict[str, Any]:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def _resources(group: str, version: str) -> dict[str, Any]:
    listed: list[dict[str, Any]] = []
    for resource in ALL:
        if (resource.group, resource.version) == (group, version):
            listed += _entries(resource)
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": listed}


def _entries(resource: Resource) -> list[dict[str, Any]]:
    base = {"singularName": resource.singular, "namespaced": resource.namespaced, "kind": resource.kind}
    main = {"name": resource.plural, **base, "verbs": list(resource.verbs)}
    if resource.short:
        main["shortNames"] = list(resource.short)
    if resource.categories:
        main["categories"] = list(resource.categories)
    entries = [main]
    if resource.status:
        verbs = ["get", "patch", "update"]
        entries.append({"name": f"{resource.plural}/status", **base, "singularName": "", "verbs": verbs})
    for name, kind, verbs_of in _SUBRESOURCES.get(resource.key, ()):
        entry = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": True, "kind": kind}
        entries.append({**entry, "verbs": list(verbs_of)})
    return entries
