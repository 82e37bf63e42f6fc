"""Events as kubelet and scheduler record them: the same again counts up."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ffdl_ops.local.minicluster.resources import BY_PATH
from ffdl_ops.local.minicluster.store import Store
from ffdl_ops.local.minicluster.times import now_iso, parse_time

__all__ = ["Recorder"]

_KEPT_S = 3600.0


class Recorder:
    """Writes events.

    :param store: where they go.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def record(
        self, about: Mapping[str, Any], reason: str, message: str, *, kind: str = "Normal", component: str = "kubelet",
        host: str = "", field_path: str = "",
    ) -> None:  # fmt: skip
        """Say that something happened to an object.

        :param kind: "Normal" or "Warning".
        """
        meta = about["metadata"]
        namespace = meta.get("namespace") or "default"
        if about["kind"] == "Namespace" or self._store.peek("namespaces", "", namespace) is None:
            return
        digest = hashlib.sha256(f"{meta['uid']}{reason}{message}{field_path}".encode()).hexdigest()[:16]
        name = f"{meta['name'][:230]}.{digest}"
        now = now_iso()
        known = self._store.peek("events", namespace, name)
        if known is not None:
            self._store.update("events", {**known, "count": known["count"] + 1, "lastTimestamp": now})
            return
        involved = {
            "kind": about["kind"], "namespace": meta.get("namespace", ""), "name": meta["name"], "uid": meta["uid"],
            "apiVersion": about["apiVersion"], "resourceVersion": meta.get("resourceVersion", ""),
        }  # fmt: skip
        if field_path:
            involved["fieldPath"] = field_path
        event = {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {key: value for key, value in involved.items() if value},
            "reason": reason, "message": message, "type": kind, "count": 1, "firstTimestamp": now, "lastTimestamp": now,
            "source": {"component": component, **({"host": host} if host else {})}, "eventTime": None,
            "reportingComponent": component, "reportingInstance": host,
        }  # fmt: skip
        self._store.create("events", event)

    def expire(self, now: float) -> None:
        """Remove events older than an hour."""
        for event in self._store.list(BY_PATH["", "v1", "events"].key):
            last = event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
            if now - parse_time(last) > _KEPT_S:
                self._store.delete("events", event["metadata"]["namespace"], event["metadata"]["name"])
