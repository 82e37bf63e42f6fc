"""What keeps a tenant's namespace apart on a cluster: is it in place, as `ffdl tenants apply` makes it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ffdl_ops.adapters.cluster.changes import differs
from ffdl_ops.adapters.cluster.client import ClusterRefused
from ffdl_ops.adapters.cluster.manifests import tenant_manifests
from ffdl_ops.adapters.cluster.objects import Objects

if TYPE_CHECKING:
    from ffdl_ops.adapters.cluster.client import Cluster
    from ffdl_ops.adapters.settings import Settings

__all__ = ["missing_walls"]

_LEVEL = "pod-security.kubernetes.io/enforce"


def missing_walls(settings: Settings, cluster: Cluster, tenant: str) -> list[str]:
    """What of a tenant's walls is not there or not as it should be: Pod Security and network policies. Two calls.

    Policies of others in the namespace may open more; this does not judge them.
    """
    wanted = tenant_manifests(
        settings.tenants[tenant], settings.tenants, settings.platform, settings.store_config(tenant)
    )
    space = next(body for body in wanted if body["kind"] == "Namespace")
    name, level = space["metadata"]["name"], space["metadata"]["labels"][_LEVEL]
    objects = Objects(cluster)
    missing = []
    try:
        found = objects.read("Namespace", None, name)
        if found is None or (found["metadata"].get("labels") or {}).get(_LEVEL) != level:
            missing.append(f"the label {_LEVEL}={level} of namespace {name}")
        live = {one["metadata"]["name"]: one for one in objects.of_kind("NetworkPolicy", name)}
        for policy in (body for body in wanted if body["kind"] == "NetworkPolicy"):
            known = live.get(policy["metadata"]["name"])
            if known is None or differs({"kind": "NetworkPolicy", **known}, policy):
                missing.append(f"NetworkPolicy {name}/{policy['metadata']['name']}")
    except ClusterRefused as error:
        missing.append(f"the right to look at namespace {name} and its network policies ({error})")
    return missing
