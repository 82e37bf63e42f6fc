"""Garbage collection: dependents follow their owners, a namespace's content follows it, old events expire."""

from __future__ import annotations

import asyncio
import time

from ffdl_ops.local.minicluster.deletion import FOREGROUND, ORPHAN, DeleteOptions, delete, remove_if_free
from ffdl_ops.local.minicluster.events import Recorder
from ffdl_ops.local.minicluster.resources import Resource, find
from ffdl_ops.local.minicluster.store import Change, Object, Store

__all__ = ["Collector"]

_EVENTS_EVERY_S = 300.0


class Collector:
    """Deletes what nobody owns any more.

    :param store: the objects.
    :param recorder: whose old events expire.
    """

    def __init__(self, store: Store, recorder: Recorder) -> None:
        self._store, self._recorder = store, recorder
        self._dependents: dict[str, set[tuple[str, str, str]]] = {}
        self._pending: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Take up what an earlier server left half done, and listen."""
        for resource, body in self._everything():
            self._index(resource, body)
        self._store.listen(self._changed)
        for resource, body in self._everything():
            if resource.key == "namespaces":
                if body["metadata"].get("deletionTimestamp"):
                    self._soon(body["metadata"]["name"])
            elif body["metadata"].get("ownerReferences") and not self._owned(body):
                asyncio.get_running_loop().call_soon(self._delete, resource, body)
        self._expire()

    def close(self) -> None:
        """Stop."""
        if self._timer is not None:
            self._timer.cancel()

    def _everything(self) -> list[tuple[Resource, Object]]:
        names = ["", *(one["metadata"]["name"] for one in self._store.list("namespaces"))]
        return [entry for name in names for entry in self._store.everything(name)]

    def _expire(self) -> None:
        self._recorder.expire(time.time())
        self._timer = asyncio.get_running_loop().call_later(_EVENTS_EVERY_S, self._expire)

    def _index(self, resource: Resource, body: Object) -> None:
        meta = body["metadata"]
        for reference in meta.get("ownerReferences") or ():
            where = (resource.key, meta.get("namespace", ""), meta["name"])
            self._dependents.setdefault(reference["uid"], set()).add(where)

    def _changed(self, change: Change) -> None:
        meta = change.object["metadata"]
        loop = asyncio.get_running_loop()
        if change.type == "DELETED":
            for key, namespace, name in self._dependents.pop(meta["uid"], set()):
                loop.call_soon(self._orphaned, key, namespace, name)
            if change.namespace:
                self._after_delete(change)
            return
        self._index(change.resource, change.object)
        if change.resource.key == "namespaces":
            if meta.get("deletionTimestamp"):
                self._soon(meta["name"])
            return
        if change.type == "ADDED" and meta.get("ownerReferences"):
            loop.call_soon(self._orphaned, change.resource.key, change.namespace, meta["name"])
        if meta.get("deletionTimestamp"):
            loop.call_soon(self._finalize, change.resource, change.namespace, meta["name"])

    def _after_delete(self, change: Change) -> None:
        space = self._store.peek("namespaces", "", change.namespace)
        if space is not None and space["metadata"].get("deletionTimestamp"):
            self._soon(change.namespace)
        for reference in change.object["metadata"].get("ownerReferences") or ():
            owner = self._store.with_uid(reference["uid"])
            if owner is not None and FOREGROUND in (owner[1]["metadata"].get("finalizers") or ()):
                meta = owner[1]["metadata"]
                asyncio.get_running_loop().call_soon(self._finalize, owner[0], meta.get("namespace", ""), meta["name"])

    # -- owners --------------------------------------------------------------------------------------------------
    def _owned(self, body: Object) -> bool:
        """Whether at least one owner exists, in the same namespace or in none."""
        namespace = body["metadata"].get("namespace", "")
        for reference in body["metadata"]["ownerReferences"]:
            owner = self._store.with_uid(reference["uid"])
            if owner is not None and owner[1]["metadata"].get("namespace", namespace) == namespace:
                return True
        return False

    def _orphaned(self, key: str, namespace: str, name: str) -> None:
        body = self._store.peek(key, namespace, name)
        if body is not None and body["metadata"].get("ownerReferences") and not self._owned(body):
            self._delete(find(key), body)

    def _delete(self, resource: Resource, body: Object) -> None:
        meta = body["metadata"]
        current = self._store.peek(resource.key, meta.get("namespace", ""), meta["name"])
        if current is not None and not current["metadata"].get("deletionTimestamp"):
            delete(self._store, resource, current, DeleteOptions())

    def _finalize(self, resource: Resource, namespace: str, name: str) -> None:
        """Serve the collector's own finalizers of an object that is being deleted."""
        body = self._store.peek(resource.key, namespace, name)
        if body is None or not body["metadata"].get("deletionTimestamp"):
            return
        meta = body["metadata"]
        finalizers = list(meta.get("finalizers") or ())
        living = self._living_dependents(meta["uid"])
        if ORPHAN in finalizers:
            for key, dependent in living:
                kept = [one for one in dependent["metadata"]["ownerReferences"] if one["uid"] != meta["uid"]]
                self._store.update(key, {**dependent, "metadata": {**dependent["metadata"], "ownerReferences": kept}})
            finalizers.remove(ORPHAN)
        if FOREGROUND in finalizers:
            for key, dependent in living:
                self._delete(find(key), dependent)
            if not self._living_dependents(meta["uid"]):
                finalizers.remove(FOREGROUND)
        if finalizers != list(meta.get("finalizers") or ()):
            body = self._store.update(resource.key, {**body, "metadata": {**meta, "finalizers": finalizers}})
        remove_if_free(self._store, resource, body)

    def _living_dependents(self, uid: str) -> list[tuple[str, Object]]:
        found = []
        for key, namespace, name in self._dependents.get(uid, set()):
            body = self._store.peek(key, namespace, name)
            if body is not None and any(one["uid"] == uid for one in body["metadata"].get("ownerReferences") or ()):
                found.append((key, body))
        return found

    # -- namespaces ----------------------------------------------------------------------------------------------
    def _soon(self, namespace: str) -> None:
        if namespace not in self._pending:
            self._pending.add(namespace)
            asyncio.get_running_loop().call_soon(self._empty, namespace)

    def _empty(self, namespace: str) -> None:
        """Delete what a dying namespace still holds; the namespace itself when it holds nothing."""
        self._pending.discard(namespace)
        space = self._store.peek("namespaces", "", namespace)
        if space is None:
            return
        content = list(self._store.everything(namespace))
        for resource, body in content:
            if not body["metadata"].get("deletionTimestamp"):
                self._delete(resource, body)
        if not list(self._store.everything(namespace)):
            self._store.delete("namespaces", "", namespace)
