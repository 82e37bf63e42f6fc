"""The cluster's objects: in memory for reading, on disk for the next start, with versions and a history for watches."""

from __future__ import annotations

import asyncio
import copy
import json
import time
import uuid
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ffdl_ops.local.minicluster.errors import ApiError

__all__ = ["Event", "Store", "now_text"]

Object = dict[str, Any]
Event = tuple[int, str, str, Object]
_HISTORY = 5000


def now_text() -> str:
    """The present moment as Kubernetes writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Store:
    """Objects by kind (the plural), namespace and name.

    :param directory: where they are kept.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.version = 0
        self.oldest = 0
        self._objects: dict[str, dict[tuple[str, str], Object]] = {}
        self._history: deque[Event] = deque(maxlen=_HISTORY)
        self._changed: set[asyncio.Event] = set()
        self._load()

    def _load(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in self.directory.glob("*/*.json"):
            value = json.loads(path.read_text())
            meta = value["metadata"]
            self._objects.setdefault(path.parent.name, {})[meta.get("namespace", ""), meta["name"]] = value
            self.version = max(self.version, int(meta["resourceVersion"]))
        self.oldest = self.version

    def _path(self, kind: str, namespace: str, name: str) -> Path:
        return self.directory / kind / f"{quote(namespace, safe='')}%2F{quote(name, safe='')}.json"

    def list(self, kind: str, namespace: str | None = None) -> list[Object]:
        """All objects of a kind, of one namespace or of all."""
        found = self._objects.get(kind, {})
        return [one for (where, _), one in sorted(found.items()) if namespace is None or where == namespace]

    def find(self, kind: str, namespace: str, name: str) -> Object | None:
        """One object, or ``None``."""
        return self._objects.get(kind, {}).get((namespace, name))

    def get(self, kind: str, namespace: str, name: str) -> Object:
        """One object.

        :raises ApiError: 404.
        """
        found = self.find(kind, namespace, name)
        if found is None:
            raise ApiError.not_found(kind, name)
        return found

    def create(self, kind: str, namespace: str, value: Object) -> Object:
        """Store a new object.

        :raises ApiError: 409 when there is one of that name.
        """
        value = copy.deepcopy(value)
        meta = value.setdefault("metadata", {})
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + uuid.uuid4().hex[:5]
        if self.find(kind, namespace, meta["name"]) is not None:
            raise ApiError.exists(kind, meta["name"])
        if namespace:
            meta["namespace"] = namespace
        meta["uid"] = str(uuid.uuid4())
        meta["creationTimestamp"] = now_text()
        return self._put(kind, namespace, value, "ADDED")

    def update(self, kind: str, namespace: str, value: Object, *, version: str | None = None) -> Object:
        """Replace an object.

        :param version: the resourceVersion that the writer has seen; 409 if it is not the present one.
        """
        present = self.get(kind, namespace, value["metadata"]["name"])
        if version and version != present["metadata"]["resourceVersion"]:
            raise ApiError.conflict(kind, value["metadata"]["name"])
        value = copy.deepcopy(value)
        for name in ("uid", "creationTimestamp", "namespace", "deletionTimestamp", "deletionGracePeriodSeconds"):
            if name in present["metadata"] and name not in value["metadata"]:
                value["metadata"][name] = present["metadata"][name]
        return self._put(kind, namespace, value, "MODIFIED")

    def remove(self, kind: str, namespace: str, name: str) -> Object | None:
        """Remove an object for good."""
        found = self._objects.get(kind, {}).pop((namespace, name), None)
        if found is None:
            return None
        self._path(kind, namespace, name).unlink(missing_ok=True)
        gone = copy.deepcopy(found)
        self.version += 1
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._tell(kind, "DELETED", gone)
        return gone

    def _put(self, kind: str, namespace: str, value: Object, verb: str) -> Object:
        self.version += 1
        value["metadata"]["resourceVersion"] = str(self.version)
        name = value["metadata"]["name"]
        path = self._path(kind, namespace, name)
        path.parent.mkdir(exist_ok=True)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(value))
        temporary.replace(path)
        self._objects.setdefault(kind, {})[namespace, name] = value
        self._tell(kind, verb, value)
        return value

    def _tell(self, kind: str, verb: str, value: Object) -> None:
        if len(self._history) == _HISTORY:
            self.oldest = self._history[0][0]
        self._history.append((self.version, kind, verb, value))
        for waiter in self._changed:
            waiter.set()

    def since(self, version: int, kind: str) -> Iterator[Event]:
        """What happened to a kind after a version.

        :raises ApiError: 410 when the history does not reach back so far.
        """
        if version < self.oldest:
            raise ApiError(410, "Expired", f"too old resource version: {version} ({self.oldest})")
        for event in list(self._history):
            if event[0] > version and event[1] == kind:
                yield event

    async def changed(self, timeout_s: float) -> None:
        """Wait for any change, or for the time to pass."""
        waiter = asyncio.Event()
        self._changed.add(waiter)
        try:
            await asyncio.wait_for(waiter.wait(), timeout_s)
        except TimeoutError:
            pass
        finally:
            self._changed.discard(waiter)
