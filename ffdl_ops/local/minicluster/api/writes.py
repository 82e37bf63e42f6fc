"""Create, replace and patch: identity, defaults, validation, quota, then the store."""

from __future__ import annotations

import json
import random
from typing import Any

from aiohttp import web

from ffdl_ops.local.minicluster.api.request import Target, read_body
from ffdl_ops.local.minicluster.defaults import DEFAULTED_AGAIN, apply_defaults, merge_string_data
from ffdl_ops.local.minicluster.deletion import remove_if_free
from ffdl_ops.local.minicluster.errors import ApiError, bad_request, forbidden, not_found, unsupported_media
from ffdl_ops.local.minicluster.limits import apply_limits
from ffdl_ops.local.minicluster.patches import json_patch, merge_patch, strategic_merge_patch
from ffdl_ops.local.minicluster.quota import check_quota
from ffdl_ops.local.minicluster.resources import Resource
from ffdl_ops.local.minicluster.store import Object, Store
from ffdl_ops.local.minicluster.validation import check_new, check_update, prune

__all__ = ["create", "patch", "replace"]

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_OWN = ("uid", "creationTimestamp", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds")
_PATCHES = (
    "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)  # fmt: skip


def _identify(resource: Resource, body: Any, target: Target) -> Object:
    """The object with kind, version, name and namespace, all agreeing with the path.

    :raises ApiError: 400 when they do not.
    """
    if not isinstance(body, dict):
        raise bad_request("the body must be an object")
    body = prune(body)
    kind, version = body.get("kind", resource.kind), body.get("apiVersion", resource.api_version)
    if kind != resource.kind or version != resource.api_version:
        wanted = f"{resource.api_version}, Kind={resource.kind}"
        raise bad_request(
            f"the API version in the data ({version}, Kind={kind}) does not match the expected one ({wanted})"
        )
    meta = {
        key: value for key, value in (body.get("metadata") or {}).items() if key not in ("managedFields", "selfLink")
    }
    if target.name and meta.setdefault("name", target.name) != target.name:
        raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({target.name})")
    if resource.namespaced:
        if meta.setdefault("namespace", target.namespace) != target.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    else:
        meta.pop("namespace", None)
    return {
        "apiVersion": version,
        "kind": kind,
        **{k: v for k, v in body.items() if k not in ("apiVersion", "kind")},
        "metadata": meta,
    }


async def create(store: Store, target: Target, request: web.Request) -> Object:
    """POST of a new object."""
    body = await read_body(request)
    return add(store, target, body, dry_run=bool(request.query.get("dryRun")))


def add(store: Store, target: Target, body: Any, *, dry_run: bool = False) -> Object:
    """Add an object as its author wrote it.

    :raises ApiError: as the real server would.
    """
    resource = target.resource
    body = _identify(resource, body, target)
    meta = {key: value for key, value in body["metadata"].items() if key not in _OWN}
    body["metadata"] = meta
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = meta["generateName"] + "".join(random.choices(_SUFFIX, k=5))
    if resource.namespaced:
        _check_namespace(store, resource, target.namespace, str(meta.get("name", "")))
    if resource.key == "pods":
        body = apply_limits(store, body)
        if not isinstance(body.get("spec"), dict):
            body["spec"] = {}
        body["spec"].setdefault("containers", [])
        _priority(store, body)
    body = apply_defaults(resource, body)
    check_new(resource, body)
    check_quota(store, resource, body)
    if dry_run:
        return {**body, "metadata": {**body["metadata"], "uid": "", "resourceVersion": ""}}
    return store.create(resource.key, body)


def _check_namespace(store: Store, resource: Resource, namespace: str, name: str) -> None:
    space = store.peek("namespaces", "", namespace)
    if space is None:
        raise not_found("namespaces", namespace)
    if space["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        raise forbidden(resource.plural, name, why, resource.group)


def _priority(store: Store, pod: Object) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    if not name:
        spec.setdefault("priority", 0)
        return
    found = store.peek("priorityclasses.scheduling.k8s.io", "", name)
    if found is None:
        raise forbidden("pods", pod["metadata"].get("name", ""), f"no PriorityClass with name {name} was found")
    spec["priority"] = found.get("value", 0)


async def replace(store: Store, target: Target, request: web.Request) -> Object:
    """PUT."""
    body = _identify(target.resource, await read_body(request), target)
    return _update(store, target, body, dry_run=bool(request.query.get("dryRun")))


def _update(store: Store, target: Target, body: Object, *, dry_run: bool = False) -> Object:
    resource = target.resource
    old = store.get(resource.key, target.namespace, target.name)
    expected = body["metadata"].get("resourceVersion") or None
    meta = {**{key: value for key, value in body["metadata"].items() if key not in _OWN},
            **{key: old["metadata"][key] for key in _OWN if key in old["metadata"]}}  # fmt: skip
    uid = body["metadata"].get("uid")
    if uid and uid != old["metadata"]["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
        raise ApiError(409, "Conflict", f'Operation cannot be fulfilled on {resource.plural} "{target.name}": {why}')
    if target.sub == "status":
        new = {**old, "status": body.get("status") or {}}
    else:
        new = {**body, "metadata": meta}
        if resource.status and "status" in old:
            new["status"] = old["status"]
        if resource.key == "secrets":
            merge_string_data(new)
            new.setdefault("type", old.get("type", "Opaque"))
        if resource.key == "namespaces":
            new.setdefault("spec", old.get("spec", {}))
        if resource.key in DEFAULTED_AGAIN:
            new = apply_defaults(resource, new)
        if resource.key == "pods":
            new = {**apply_defaults(resource, new), "status": old["status"]}
            for field in ("nodeName", "priority"):
                if field in old["spec"]:
                    new["spec"].setdefault(field, old["spec"][field])
        check_update(resource, old, new)
    if dry_run:
        return new
    updated = store.update(resource.key, new, expected=expected)
    remove_if_free(store, resource, updated)
    return updated


async def patch(store: Store, target: Target, request: web.Request) -> tuple[Object, bool]:
    """PATCH.

    :returns: the object, and whether it was created (server-side apply).
    """
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip()
    if kind not in _PATCHES:
        raise unsupported_media(kind, _PATCHES)
    changes = await read_body_of_patch(request, kind)
    dry_run = bool(request.query.get("dryRun"))
    resource = target.resource
    old = store.peek(resource.key, target.namespace, target.name)
    if old is None:
        if kind == "application/apply-patch+yaml":
            return add(store, Target(resource, target.namespace, target.name, ""), changes, dry_run=dry_run), True
        raise not_found(resource.plural, target.name, resource.group)
    if kind == "application/json-patch+json":
        new = json_patch(old, changes)
    elif kind == "application/merge-patch+json":
        new = merge_patch(old, changes)
    else:
        new = strategic_merge_patch(old, changes)
    body = _identify(resource, new, target)
    if not _names_version(changes):
        body["metadata"].pop("resourceVersion", None)
    return _update(store, target, body, dry_run=dry_run), False


def _names_version(changes: Any) -> bool:
    return isinstance(changes, dict) and bool((changes.get("metadata") or {}).get("resourceVersion"))


async def read_body_of_patch(request: web.Request, kind: str) -> Any:
    """A patch's body: server-side apply may be YAML."""
    if "yaml" in kind:
        return await read_body(request)
    try:
        return json.loads(await request.read())
    except ValueError as error:
        raise bad_request(f"the patch is not JSON: {error}") from None
