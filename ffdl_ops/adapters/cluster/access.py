"""What the platform's own account may do: just what this package asks of the API server, in tenants' namespaces.

A test walks all calls of `Cluster` and compares them with these rules, so that neither has more than the other. What
`ffdl tenants apply` itself does (namespaces, quotas, policies, roles) is an administrator's, and not in here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ffdl_ops.core.kueue import GROUP

if TYPE_CHECKING:
    from ffdl_ops.core.oncluster import Account, OnCluster

__all__ = ["CLUSTER_RULES", "KUEUE_RULES", "NAMESPACE_RULES", "WALL_RULES", "node_reader", "role_and_binding"]

Manifest = dict[str, Any]

RBAC = "rbac.authorization.k8s.io"
NODES = "ffdl-platform-nodes"
PLATFORM = "ffdl-platform"


def _rule(group: str, resource: str, *verbs: str) -> Manifest:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


NAMESPACE_RULES: tuple[Manifest, ...] = (
    _rule("", "pods", "create", "delete", "get", "list"),
    _rule("", "pods/log", "get"),
    _rule("", "secrets", "create", "get", "update"),
    _rule("", "services", "create", "delete"),
)
"""In each tenant's namespace."""

KUEUE_RULES: tuple[Manifest, ...] = (_rule(GROUP, "workloads", "get"),)
"""In each tenant's namespace as well, where Kueue admits gangs."""

WALL_RULES: tuple[Manifest, ...] = (
    _rule("", "namespaces", "get"),
    _rule("networking.k8s.io", "networkpolicies", "list"),
)
"""In each tenant's namespace as well, where isolation is required: `plan` looks whether the walls are in place."""

CLUSTER_RULES: tuple[Manifest, ...] = (_rule("", "nodes", "list", "patch"), _rule("", "pods", "list"))
"""In the whole cluster: sizes and GPU types of nodes, and what others' pods take of them, which admission counts with.

Without the second, gangs are placed by leases alone."""


def role_and_binding(cluster: OnCluster, meta: Manifest, *, looks_at_walls: bool = False) -> list[Manifest]:
    """The platform's rights in one namespace.

    :param looks_at_walls: whether isolation is required.
    :param meta: namespace and labels of both objects.
    """
    return [
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "Role",
            "metadata": {**meta, "name": PLATFORM},
            "rules": [
                *NAMESPACE_RULES,
                *(KUEUE_RULES if cluster.admission == "kueue" else ()),
                *(WALL_RULES if looks_at_walls else ()),
            ],
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {**meta, "name": PLATFORM},
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": PLATFORM},
            "subjects": [_subject(cluster.account)],
        },
    ]


def node_reader(account: Account, labels: Manifest) -> list[Manifest]:
    """The platform's rights on the nodes."""
    return [
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": NODES, "labels": labels},
            "rules": list(CLUSTER_RULES),
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NODES, "labels": labels},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": NODES},
            "subjects": [_subject(account)],
        },
    ]


def _subject(account: Account) -> Manifest:
    return {"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}
