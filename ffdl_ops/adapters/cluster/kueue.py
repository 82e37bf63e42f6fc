"""Gangs that Kueue admits: their pods marked for it, their Workload read.

The rules are in `core.kueue`; this is their way to the API server. What Kueue needs on the cluster (its controller, a
ClusterQueue, a LocalQueue in each tenant's namespace) is an administrator's: docs/deployment.md.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.cluster.client import Cluster, ClusterRefused
from ffdl_ops.core.errors import UserError
from ffdl_ops.core.kueue import GROUP, GroupStanding, group_name, kueue_pod_metadata, standing_of

if TYPE_CHECKING:
    from kubernetes import client as k8s

    from ffdl_ops.core.oncluster import OnCluster

__all__ = ["Kueue", "held_back", "mark_pod"]

_VERSIONS = ("v1beta2", "v1beta1")
_PLURAL = "workloads"


class Kueue:
    """Kueue on one cluster.

    :param cluster: the cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @functools.cached_property
    def version(self) -> str:
        """The newest version of its API that both the cluster and this platform know.

        :raises UserError: when there is none.
        """
        from kubernetes import client

        groups = self._cluster.call("list API groups", client.ApisApi(self._cluster.api).get_api_versions).groups
        served = {one.version for group in groups if group.name == GROUP for one in group.versions}
        for version in _VERSIONS:
            if version in served:
                return version
        raise UserError(
            f"cluster.admission is kueue, and the cluster serves {', '.join(sorted(served)) or 'nothing'} of {GROUP}; "
            f"install Kueue ({' or '.join(_VERSIONS)}), or set cluster.admission to ffdl."
        )

    def workload(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """A group's Workload, or ``None`` while Kueue has not made it."""
        from kubernetes import client

        try:
            return self._cluster.call(
                f"read workload {name}",
                client.CustomObjectsApi(self._cluster.api).get_namespaced_custom_object,
                GROUP,
                self.version,
                namespace,
                _PLURAL,
                name,
            )
        except ClusterRefused as error:
            if error.status == 404:
                return None
            raise

    def standing(self, namespace: str, job_id: str, attempt: int) -> GroupStanding:
        """How an attempt's gang stands: why it waits, that it may run, or that it was put out."""
        return standing_of(self.workload(namespace, group_name(job_id, attempt)))


def mark_pod(pod: k8s.V1Pod, cluster: OnCluster, job_id: str, attempt: int, count: int) -> None:
    """Give a learner's pod what the configured admission and scheduler need.

    :param attempt: 0 for a preflight, which is a pod by itself.
    :param count: the gang's size.
    """
    if cluster.scheduler_name:
        pod.spec.scheduler_name = cluster.scheduler_name
    if cluster.admission != "kueue":
        return
    group = group_name(job_id, attempt) if attempt else None
    marks = kueue_pod_metadata(cluster.local_queue, group=group, count=count)
    pod.metadata.labels = {**(pod.metadata.labels or {}), **marks.labels}
    pod.metadata.annotations = {**(pod.metadata.annotations or {}), **marks.annotations}


def held_back(pod: k8s.V1Pod) -> bool:
    """Whether a scheduling gate still holds a pod back: it waits for admission, and no start-up time runs."""
    return bool(pod.spec.scheduling_gates)
