"""What each tenant has on the cluster: namespace, quota, network policy, service account, storage secret.

Applied as often as wanted: what is there is replaced by what the configuration says, and nothing else is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.cluster.client import Cluster
from ffdl_ops.adapters.cluster.specs import STORAGE_SECRET
from ffdl_ops.core.jobs.ids import namespace as namespace_of

if TYPE_CHECKING:
    from ffdl_ops.adapters.settings import Settings
    from ffdl_ops.adapters.storage.config import StoreConfig
    from ffdl_ops.core.tenancy.tenants import Tenant

__all__ = ["apply_tenants", "storage_secret_values"]


def apply_tenants(settings: Settings) -> list[str]:
    """Bring every tenant's namespace to what the configuration says.

    :returns: the namespaces, in the configuration's order.
    """
    cluster = Cluster(settings.kubeconfig)
    for tenant in settings.tenants:
        _apply(cluster, tenant, settings.store_config(tenant.name))
    return [namespace_of(tenant.name) for tenant in settings.tenants]


def storage_secret_values(store: StoreConfig) -> dict[str, str]:
    """The keys of a tenant's storage secret, as the staging helpers read them."""
    return {
        "FFDL_S3_ENDPOINT": store.endpoint_url or "",
        "FFDL_S3_ACCESS_KEY_ID": store.access_key,
        "FFDL_S3_SECRET_ACCESS_KEY": store.secret_key,
        "FFDL_S3_REGION": store.region,
    }


def _apply(cluster: Cluster, tenant: Tenant, store: StoreConfig) -> None:
    from kubernetes import client

    namespace = namespace_of(tenant.name)
    labels = {
        "app.kubernetes.io/part-of": "ffdl-ops",
        "app.kubernetes.io/managed-by": "ffdl-ops",
        "ffdl.dev/tenant": tenant.name,
    }

    def meta(name: str) -> client.V1ObjectMeta:
        return client.V1ObjectMeta(name=name, namespace=namespace, labels=labels)

    core = cluster.core
    _put(
        cluster,
        f"namespace {namespace}",
        core.create_namespace,
        partial(core.patch_namespace, namespace),
        client.V1Namespace(
            metadata=client.V1ObjectMeta(
                name=namespace,
                labels={**labels, "pod-security.kubernetes.io/enforce": "restricted"},
            )
        ),
    )
    hard = {f"requests.{kind}": value for kind, value in _limits(tenant).items()}
    _put(
        cluster,
        f"quota of {namespace}",
        partial(core.create_namespaced_resource_quota, namespace),
        partial(core.replace_namespaced_resource_quota, "ffdl", namespace),
        client.V1ResourceQuota(metadata=meta("ffdl"), spec=client.V1ResourceQuotaSpec(hard=hard)),
    )
    networking = client.NetworkingV1Api(cluster.api)
    _put(
        cluster,
        f"network policy of {namespace}",
        partial(networking.create_namespaced_network_policy, namespace),
        partial(networking.replace_namespaced_network_policy, "ffdl-default-deny", namespace),
        client.V1NetworkPolicy(
            metadata=meta("ffdl-default-deny"),
            spec=client.V1NetworkPolicySpec(
                pod_selector=client.V1LabelSelector(match_labels={}),
                policy_types=["Ingress"],
                ingress=[
                    client.V1NetworkPolicyIngressRule(
                        _from=[client.V1NetworkPolicyPeer(pod_selector=client.V1LabelSelector(match_labels={}))]
                    )
                ],
            ),
        ),
    )
    cluster.put_secret(
        client.V1Secret(metadata=meta(STORAGE_SECRET), type="Opaque", string_data=storage_secret_values(store))
    )


def _limits(tenant: Tenant) -> dict[str, str]:
    """The namespace's ResourceQuota: the tenant's GPUs of all types, and its CPU and memory when they are limited."""
    limits = {"nvidia.com/gpu": str(sum(tenant.gpu_quota.values()))}
    if tenant.cpu_quota:
        limits["cpu"] = f"{tenant.cpu_quota_millis}m"
    if tenant.memory_quota:
        limits["memory"] = str(tenant.memory_quota_bytes)
    return limits


def _put(cluster: Cluster, what: str, create: Callable[[Any], Any], replace: Callable[[Any], Any], body: Any) -> None:
    from ffdl_ops.adapters.cluster.client import ClusterRefused

    try:
        cluster.call(f"create {what}", create, body)
    except ClusterRefused as error:
        if error.status != 409:
            raise
        cluster.call(f"replace {what}", replace, body)
