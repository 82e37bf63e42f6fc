"""What a DELETE does: at once, after a pod's grace period, or when finalizers let it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ffdl_ops.local.minicluster.errors import conflict
from ffdl_ops.local.minicluster.podresources import TERMINAL
from ffdl_ops.local.minicluster.resources import Resource
from ffdl_ops.local.minicluster.store import Object, Store
from ffdl_ops.local.minicluster.times import iso, now_iso

__all__ = ["DeleteOptions", "delete", "remove_if_free"]

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


@dataclass(frozen=True)
class DeleteOptions:
    """A delete's options.

    :param grace_s: seconds, or ``None`` for the pod's own.
    :param uid: the object must have this uid.
    :param version: the object must have this resource version.
    :param propagation: "Background", "Foreground", "Orphan" or ``None``.
    :param dry_run: change nothing.
    """

    grace_s: int | None = None
    uid: str | None = None
    version: str | None = None
    propagation: str | None = None
    dry_run: bool = False

    @classmethod
    def read(cls, body: Mapping[str, Any], query: Mapping[str, str]) -> DeleteOptions:
        """From a request's body and query."""
        conditions = body.get("preconditions") or {}
        grace = body.get("gracePeriodSeconds")
        if grace is None and "gracePeriodSeconds" in query:
            grace = int(query["gracePeriodSeconds"])
        propagation = body.get("propagationPolicy") or query.get("propagationPolicy")
        if propagation is None and body.get("orphanDependents") is True:
            propagation = "Orphan"
        dry = bool(body.get("dryRun") or query.get("dryRun"))
        return cls(grace, conditions.get("uid"), conditions.get("resourceVersion"), propagation, dry)


def delete(store: Store, resource: Resource, body: Object, options: DeleteOptions) -> tuple[Object, bool]:
    """Delete an object, or begin to.

    :returns: the object as it is now or last was, and whether it is gone.
    :raises ApiError: 409 when a precondition does not hold.
    """
    meta = body["metadata"]
    for name, wanted, has in (
        ("UID", options.uid, meta["uid"]),
        ("ResourceVersion", options.version, meta["resourceVersion"]),
    ):
        if wanted and wanted != has:
            why = f"Precondition failed: {name} in precondition: {wanted}, {name} in object meta: {has}"
            raise conflict(resource.plural, meta["name"], why, resource.group)
    grace = _grace(resource, body, options)
    if options.dry_run:
        return body, grace == 0
    finalizers = list(meta.get("finalizers") or ())
    wanted_finalizer = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(options.propagation or "")
    if wanted_finalizer and wanted_finalizer not in finalizers:
        finalizers.append(wanted_finalizer)
    if resource.key == "namespaces":
        if meta.get("deletionTimestamp"):
            return body, False
        fresh = {**body, "metadata": {**meta, "deletionTimestamp": now_iso()}, "status": {"phase": "Terminating"}}
        return store.update(resource.key, fresh), False
    if grace == 0 and not finalizers:
        return store.delete(resource.key, meta.get("namespace", ""), meta["name"]), True
    return _mark(store, resource, body, grace, finalizers), False


def _mark(store: Store, resource: Resource, body: Object, grace: int, finalizers: list[str]) -> Object:
    meta = dict(body["metadata"])
    known = meta.get("deletionGracePeriodSeconds")
    if not meta.get("deletionTimestamp") or (known is not None and grace < known):
        meta["deletionTimestamp"] = iso(time.time() + grace)
        meta["deletionGracePeriodSeconds"] = grace
    if finalizers:
        meta["finalizers"] = finalizers
    return store.update(resource.key, {**body, "metadata": meta})


def _grace(resource: Resource, body: Object, options: DeleteOptions) -> int:
    if resource.key != "pods":
        return 0
    if not body["spec"].get("nodeName") or body["status"].get("phase") in TERMINAL:
        return 0
    if options.grace_s is not None:
        return max(0, options.grace_s)
    return int(body["spec"].get("terminationGracePeriodSeconds", 30))


def remove_if_free(store: Store, resource: Resource, body: Object) -> bool:
    """Remove an object that is being deleted and has no finalizer any more; a pod also waits for its kubelet."""
    meta = body["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if resource.key == "namespaces" or (resource.key == "pods" and _grace(resource, body, DeleteOptions())):
        return False
    if store.peek(resource.key, meta.get("namespace", ""), meta["name"]) is None:
        return False
    store.delete(resource.key, meta.get("namespace", ""), meta["name"])
    return True
