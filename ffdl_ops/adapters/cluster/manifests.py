"""What a tenant has on the cluster, written as manifests: pure, and complete, so that they can be compared with what is there.

Values are written as the API server writes them back, with what it would fill in; else every comparison would find them
changed.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.cluster.access import node_reader, role_and_binding
from ffdl_ops.adapters.cluster.network import network_policies
from ffdl_ops.adapters.cluster.specs import POD_ACCOUNT, STORAGE_SECRET
from ffdl_ops.core.jobs.fields import MAX_CPU_MILLIS, MAX_MEMORY
from ffdl_ops.core.jobs.ids import namespace as namespace_of
from ffdl_ops.core.jobs.units import parse_cpu, parse_memory

if TYPE_CHECKING:
    from ffdl_ops.adapters.storage.config import StoreConfig
    from ffdl_ops.core.platform import PlatformConfig
    from ffdl_ops.core.tenancy.tenants import Tenant, Tenants

__all__ = [
    "COMPONENT", "MANAGED", "MANAGER", "TENANT", "namespace_gpu_limit", "namespace_pod_limit", "platform_manifests",
    "storage_secret_values", "tenant_manifests",
]  # fmt: skip

Manifest = dict[str, Any]

TENANT = "ffdl.dev/tenant"
MANAGED = "app.kubernetes.io/managed-by"
MANAGER = "ffdl-ops"
COMPONENT = "tenant"
_LEVEL = "restricted"
_NAME = "ffdl"


def tenant_manifests(tenant: Tenant, tenants: Tenants, platform: PlatformConfig, store: StoreConfig) -> list[Manifest]:
    """A tenant's objects, in the order in which they are made: its namespace first.

    :param tenants: all of them; they may lend each other GPUs.
    :param store: what opens its object store; goes into its storage secret.
    """
    namespace = namespace_of(tenant.name)
    labels = _labels(COMPONENT, tenant.name)
    meta = {"namespace": namespace, "labels": labels}
    levels = {f"pod-security.kubernetes.io/{mode}": _LEVEL for mode in ("enforce", "audit", "warn")}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": {**labels, **levels}}},
        _quota(tenant, tenants, platform, meta),
        _limits(tenant, platform, meta),
        *network_policies(store.endpoint_url, platform.cluster, meta),
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {**meta, "name": POD_ACCOUNT},
            "automountServiceAccountToken": False,
        },
        *role_and_binding(platform.cluster, meta, looks_at_walls=platform.isolation == "required"),
        _storage_secret(store, meta),
    ]


def platform_manifests(platform: PlatformConfig) -> list[Manifest]:
    """What belongs to no tenant: the platform's right to see the nodes."""
    return node_reader(platform.cluster.account, _labels("platform"))


def namespace_gpu_limit(tenant: Tenant, tenants: Tenants) -> int:
    """GPUs of all types that the namespace's ResourceQuota lets through: the tenant's quota, and what it may borrow.

    The quota by type, and what may be borrowed at this moment, are the scheduler's to keep; the namespace's is the wall
    behind it, and must never stop what the scheduler has granted.
    """
    return sum(tenants.most_gpus(tenant.name).values())


def namespace_pod_limit(tenant: Tenant, *, waiting_have_pods: bool = False) -> int | None:
    """Pods at the same time, or ``None`` for no limit.

    A running job has its learners and one pod beside (a helper, a preflight); one that waits has a helper at most.

    :param waiting_have_pods: whether jobs that wait have their learners' pods already (Kueue holds these back).
    """
    if tenant.max_running is None:
        return None
    whole = tenant.max_learners + 1
    return tenant.max_running * whole + tenant.max_queued * (whole if waiting_have_pods else 1)


def storage_secret_values(store: StoreConfig) -> dict[str, str]:
    """The keys of a tenant's storage secret, as the staging helpers read them."""
    return {
        "FFDL_S3_ENDPOINT": store.endpoint_url or "",
        "FFDL_S3_ACCESS_KEY_ID": store.access_key,
        "FFDL_S3_SECRET_ACCESS_KEY": store.secret_key,
        "FFDL_S3_REGION": store.region,
    }


def _labels(component: str, tenant: str | None = None) -> dict[str, str]:
    """Kubernetes' recommended labels and this platform's own."""
    labels = {
        "app.kubernetes.io/name": "ffdl-tenant" if tenant else "ffdl-platform",
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/part-of": MANAGER,
        MANAGED: MANAGER,
    }
    return {**labels, "app.kubernetes.io/instance": tenant, TENANT: tenant} if tenant else labels


def _quota(tenant: Tenant, tenants: Tenants, platform: PlatformConfig, meta: Manifest) -> Manifest:
    """Amounts are left out where Kueue counts them: its pods are there, and count, before they are admitted."""
    kueue = platform.cluster.admission == "kueue"
    hard = {} if kueue else _amounts(tenant, tenants)
    pods = namespace_pod_limit(tenant, waiting_have_pods=kueue)
    if pods is not None:
        hard["pods"] = str(pods)
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {**meta, "name": _NAME},
        "spec": {"hard": hard},
    }


def _amounts(tenant: Tenant, tenants: Tenants) -> dict[str, str]:
    hard = {"requests.nvidia.com/gpu": str(namespace_gpu_limit(tenant, tenants))}
    if tenant.cpu_quota_millis is not None:
        hard["requests.cpu"] = _cpu(tenant.cpu_quota_millis)
    if tenant.memory_quota_bytes is not None:
        hard["requests.memory"] = _memory(tenant.memory_quota_bytes)
    return hard


def _limits(tenant: Tenant, platform: PlatformConfig, meta: Manifest) -> Manifest:
    """A container's sizes when it says none, and the most that it may ask for.

    GPUs are left out: a cluster takes a maximum for the default, and would give them to every helper. For the same reason
    the default CPU limit is the maximum itself.
    """
    size = platform.size_for("default")
    most_cpu = tenant.cpu_quota_millis or MAX_CPU_MILLIS
    most_memory = tenant.memory_quota_bytes or MAX_MEMORY
    usual_cpu = min(parse_cpu(size.cpus), most_cpu)
    usual_memory = min(parse_memory(size.memory), most_memory)
    entry = {
        "type": "Container",
        "defaultRequest": {"cpu": _cpu(usual_cpu), "memory": _memory(usual_memory)},
        "default": {"cpu": _cpu(most_cpu), "memory": _memory(usual_memory)},
        "max": {"cpu": _cpu(most_cpu), "memory": _memory(most_memory)},
    }
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {**meta, "name": _NAME},
        "spec": {"limits": [entry]},
    }


def _storage_secret(store: StoreConfig, meta: Manifest) -> Manifest:
    values = storage_secret_values(store)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {**meta, "name": STORAGE_SECRET},
        "type": "Opaque",
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    }


def _cpu(millis: int) -> str:
    """Processors as the API server writes them."""
    return str(millis // 1000) if millis % 1000 == 0 else f"{millis}m"


def _memory(count: int) -> str:
    """Bytes in the largest binary unit that writes them whole, as the API server keeps them."""
    for power, unit in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if count % 2**power == 0:
            return f"{count >> power}{unit}"
    return str(count)
