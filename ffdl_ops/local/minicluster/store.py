"""All objects, their versions, and the recent changes that watches replay.

Objects in memory are never changed in place: an update puts a new one there, so that lists and watches may hold what they
have read. Every write is in SQLite before it is told to anyone.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ffdl_ops.local.minicluster.errors import already_exists, conflict, expired, not_found
from ffdl_ops.local.minicluster.resources import Resource, find
from ffdl_ops.local.minicluster.times import now_iso

__all__ = ["Change", "Object", "Store"]

Object = dict[str, Any]
Objects = list[Object]
_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (kind TEXT, namespace TEXT, name TEXT, version INTEGER, body TEXT,
                                    PRIMARY KEY (kind, namespace, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Change:
    """One write.

    :param version: the resource version it made.
    :param type: "ADDED", "MODIFIED" or "DELETED".
    :param resource: what kind of object.
    :param object: as it is after the write (for a deletion: as it last was, with the new version).
    :param previous: as it was before.
    """

    version: int
    type: str
    resource: Resource
    object: Object
    previous: Object | None

    @property
    def namespace(self) -> str:
        """The object's namespace, empty when it has none."""
        return str(self.object["metadata"].get("namespace", ""))


class Store:
    """Objects by kind, namespace and name.

    :param path: the SQLite file.
    :param history: how many changes are kept for watches.
    """

    def __init__(self, path: Path, *, history: int = 4096) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.executescript(_SCHEMA)
        self._objects: dict[str, dict[tuple[str, str], Object]] = {}
        for kind, namespace, name, body in self._database.execute("SELECT kind, namespace, name, body FROM objects"):
            self._objects.setdefault(kind, {})[namespace, name] = json.loads(body)
        self.version = int(self.fact("version", "1"))
        self._changes: deque[Change] = deque(maxlen=history)
        self._oldest = self.version
        self._listeners: list[Callable[[Change], None]] = []
        self._untold: deque[Change] = deque()
        self._telling = False

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    # -- reading -------------------------------------------------------------------------------------------------
    def peek(self, key: str, namespace: str, name: str) -> Object | None:
        """An object, or ``None``. It must not be changed."""
        return self._objects.get(key, {}).get((namespace, name))

    def get(self, key: str, namespace: str, name: str) -> Object:
        """An object. It must not be changed.

        :raises ApiError: 404.
        """
        found = self.peek(key, namespace, name)
        if found is None:
            resource = find(key)
            raise not_found(resource.plural, name, resource.group)
        return found

    def list(self, key: str, namespace: str = "") -> Objects:
        """The objects of a kind, in one namespace or in all, by namespace and name."""
        kept = self._objects.get(key, {})
        return [kept[where] for where in sorted(kept) if not namespace or where[0] == namespace]

    def everything(self, namespace: str) -> Iterator[tuple[Resource, Object]]:
        """Every object in a namespace."""
        for key, kept in self._objects.items():
            for where, found in list(kept.items()):
                if where[0] == namespace:
                    yield find(key), found

    def with_uid(self, uid: str) -> tuple[Resource, Object] | None:
        """The object with a uid."""
        for key, kept in self._objects.items():
            for found in kept.values():
                if found["metadata"]["uid"] == uid:
                    return find(key), found
        return None

    def fact(self, name: str, default: str = "") -> str:
        """One of the server's own small facts."""
        row = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return row[0] if row else default

    def set_fact(self, name: str, value: str) -> None:
        """Keep a small fact."""
        self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def drop_fact(self, name: str) -> None:
        """Forget a small fact."""
        self._database.execute("DELETE FROM facts WHERE name = ?", (name,))

    # -- writing -------------------------------------------------------------------------------------------------
    def create(self, key: str, body: Object) -> Object:
        """Add an object: uid, creation time and version are set here.

        :raises ApiError: 409 when the name is taken.
        """
        resource = find(key)
        meta = body["metadata"]
        where = (meta.get("namespace", ""), meta["name"])
        if where in self._objects.get(key, {}):
            raise already_exists(resource.plural, meta["name"], resource.group)
        fresh = {"uid": str(uuid.uuid4()), "creationTimestamp": now_iso()}
        created = {**body, "metadata": {**meta, **fresh}}
        return self._write("ADDED", resource, created, None)

    def update(self, key: str, body: Object, *, expected: str | None = None) -> Object:
        """Replace an object.

        :param expected: the version that it must have now, or ``None`` for any.
        :raises ApiError: 404, or 409 when the version is another.
        """
        resource = find(key)
        meta = body["metadata"]
        previous = self.get(key, meta.get("namespace", ""), meta["name"])
        if expected and expected != previous["metadata"]["resourceVersion"]:
            why = "the object has been modified; please apply your changes to the latest version and try again"
            raise conflict(resource.plural, meta["name"], why, resource.group)
        kept = {name: previous["metadata"][name] for name in ("uid", "creationTimestamp")}
        version = previous["metadata"]["resourceVersion"]
        updated = {**body, "metadata": {**meta, **kept, "resourceVersion": version}}
        if updated == previous:
            return previous
        return self._write("MODIFIED", resource, updated, previous)

    def delete(self, key: str, namespace: str, name: str) -> Object:
        """Remove an object at once.

        :raises ApiError: 404.
        """
        previous = self.get(key, namespace, name)
        return self._write("DELETED", find(key), {**previous, "metadata": dict(previous["metadata"])}, previous)

    def _write(self, kind: str, resource: Resource, body: Object, previous: Object | None) -> Object:
        version = self.version + 1
        body["metadata"]["resourceVersion"] = str(version)
        where = (body["metadata"].get("namespace", ""), body["metadata"]["name"])
        row = (resource.key, *where)
        self._database.execute("BEGIN")
        if kind == "DELETED":
            self._database.execute("DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?", row)
        else:
            text = json.dumps(body, separators=(",", ":"))
            self._database.execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)", (*row, version, text))
        self.set_fact("version", str(version))
        self._database.execute("COMMIT")
        self.version = version
        kept = self._objects.setdefault(resource.key, {})
        if kind == "DELETED":
            kept.pop(where, None)
        else:
            kept[where] = body
        self._tell(Change(version, kind, resource, body, previous))
        return body

    # -- changes -------------------------------------------------------------------------------------------------
    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call a listener after each write, in order.

        :returns: what ends it.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def since(self, version: int) -> tuple[Change, ...]:
        """The changes after a version.

        :raises ApiError: 410 when they are no longer kept.
        """
        if version < self._oldest:
            raise expired(f"too old resource version: {version} ({self._oldest})")
        return tuple(change for change in self._changes if change.version > version)

    def compact(self) -> None:
        """Forget the kept changes, as a cluster does after some minutes: older watches get 410."""
        self._changes.clear()
        self._oldest = self.version

    def _tell(self, change: Change) -> None:
        if len(self._changes) == self._changes.maxlen:
            self._oldest = self._changes[0].version
        self._changes.append(change)
        self._untold.append(change)
        if self._telling:  # a listener wrote: whoever is telling tells this one next, so that all see one order
            return
        self._telling = True
        try:
            while self._untold:
                told = self._untold.popleft()
                for listener in list(self._listeners):
                    listener(told)
        finally:
            self._telling = False
