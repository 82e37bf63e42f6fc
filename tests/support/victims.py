"""A tenant that others attack: all that it has, to be compared before and after."""

from __future__ import annotations

from typing import Any

from ffdl_ops.adapters.storage.store import ObjectStore
from ffdl_ops.core.jobs.ids import namespace
from tests.support.rig import Rig

__all__ = ["VICTIM", "Victims"]

VICTIM = "speech"


class Victims:
    """All that the victim has."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._store = ObjectStore(rig.settings.store_config(VICTIM))
        self._bucket = rig.settings.tenants[VICTIM].bucket

    def everything(self) -> dict[str, Any]:
        """Objects, records, and what is in the namespace, with versions."""
        core = self._rig.cluster.core
        space = namespace(VICTIM)
        lists = {
            "pods": core.list_namespaced_pod, "secrets": core.list_namespaced_secret,
            "services": core.list_namespaced_service, "config maps": core.list_namespaced_config_map,
        }  # fmt: skip
        return {
            "objects": sorted((one.key, one.size, one.etag) for one in self._store.list(self._bucket)),
            "jobs": sorted(map(str, self._rig.ledger.jobs(VICTIM, limit=10_000))),
            "queue": [one for one in self._rig.ledger.queue() if one.request.tenant == VICTIM],
            **{
                kind: sorted((one.metadata.name, one.metadata.resource_version) for one in ask(space).items)
                for kind, ask in lists.items()
            },
        }
