"""What pods held, kept from the cluster's own records in their order: the witness against our ledger.

A pod is counted for its node from its creation (its affinity names the node) until the cluster says that it is over or gone.
That is stricter than the cluster's own count, which begins when the pod is put there: two learners that were promised the same
GPU would only be seen as one that waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ffdl_ops.adapters.cluster.watching import PodChange

__all__ = ["GangTimes", "PodBook"]


@dataclass
class GangTimes:
    """When the pods of one attempt were seen to come and go, in seconds since the epoch, by pod."""

    created: dict[str, float] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    gone: dict[str, float] = field(default_factory=dict)


class PodBook:
    """Counts GPUs by node and by tenant.

    :param sizes: GPUs of each node.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = dict(sizes)
        self.peak_by_node = dict.fromkeys(sizes, 0)
        self.bound_peak_by_node = dict.fromkeys(sizes, 0)
        self.peak_by_tenant: dict[str, int] = {}
        self.peak = 0
        self.pods_seen = 0
        self.over: list[str] = []
        self.gangs: dict[tuple[str, int], GangTimes] = {}
        self._live: dict[str, PodChange] = {}
        self._seen: set[str] = set()

    def note(self, change: PodChange) -> None:
        """Take in the next change."""
        if not change.gpus:
            return
        if change.uid not in self._seen:
            self._seen.add(change.uid)
            self.pods_seen += 1
        if change.ended or change.removed:
            self._live.pop(change.uid, None)
        else:
            self._live[change.uid] = change
            self._count(change)
        self._keep_times(change)

    @property
    def oversubscribed(self) -> bool:
        """Whether a node's pods asked for more GPUs than it has, at any moment."""
        return bool(self.over)

    def _count(self, change: PodChange) -> None:
        live = self._live.values()
        self.peak = max(self.peak, sum(one.gpus for one in live))
        own = sum(one.gpus for one in live if one.namespace == change.namespace)
        self.peak_by_tenant[change.namespace] = max(self.peak_by_tenant.get(change.namespace, 0), own)
        node = change.node
        if node is None:
            return
        there = [one for one in live if one.node == node]
        used, bound = sum(one.gpus for one in there), sum(one.gpus for one in there if one.bound)
        self.peak_by_node[node] = max(self.peak_by_node.get(node, 0), used)
        self.bound_peak_by_node[node] = max(self.bound_peak_by_node.get(node, 0), bound)
        if used > self.sizes.get(node, 0):
            names = ", ".join(sorted(f"{one.namespace}/{one.name}" for one in there))
            self.over.append(f"{node}: {used} GPUs of {self.sizes.get(node, 0)} by {names}")

    def _keep_times(self, change: PodChange) -> None:
        if not change.job:
            return
        times = self.gangs.setdefault((change.job, change.attempt), GangTimes())
        times.created.setdefault(change.name, change.seen_at)
        if change.running or change.ended:
            times.running.setdefault(change.name, change.seen_at)
        if change.ended or change.removed:
            times.ended.setdefault(change.name, change.seen_at)
        if change.removed:
            times.gone.setdefault(change.name, change.seen_at)
