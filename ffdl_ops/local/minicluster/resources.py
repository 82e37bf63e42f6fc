"""The kinds of objects that minicluster keeps, and what is and is not done with them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ALL", "BY_PATH", "Resource", "find"]

_ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Resource:
    """One kind of object.

    :param group: API group, empty for the core.
    :param version: the only version served.
    :param plural: as in paths.
    :param kind: as in objects.
    :param namespaced: whether it lives in a namespace.
    :param short: kubectl's short names.
    :param status: whether it has a status subresource.
    :param caveat: what is stored but not enforced, told in a ``Warning`` header on creation; empty when all is.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    status: bool = False
    caveat: str = ""
    categories: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """As in objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """As in tables."""
        return self.kind.lower()

    @property
    def key(self) -> str:
        """Unique name, as the store keeps it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def verbs(self) -> tuple[str, ...]:
        """What can be done with it."""
        return tuple(verb for verb in _ALL_VERBS if verb != "deletecollection" or self.plural != "namespaces")


_RBAC = "rbac.authorization.k8s.io"
_STORED = "minicluster stores {} but does not enforce them"

ALL: tuple[Resource, ...] = (
    Resource("", "v1", "namespaces", "Namespace", False, ("ns",), True),
    Resource("", "v1", "nodes", "Node", False, ("no",), True),
    Resource("", "v1", "pods", "Pod", True, ("po",), True, categories=("all",)),
    Resource("", "v1", "services", "Service", True, ("svc",), True, "minicluster has no DNS and no virtual addresses: "
             "services are only stored", ("all",)),
    Resource("", "v1", "endpoints", "Endpoints", True, ("ep",)),
    Resource("", "v1", "configmaps", "ConfigMap", True, ("cm",)),
    Resource("", "v1", "secrets", "Secret"),
    Resource("", "v1", "events", "Event", True, ("ev",)),
    Resource("", "v1", "resourcequotas", "ResourceQuota", True, ("quota",), True),
    Resource("", "v1", "limitranges", "LimitRange", True, ("limits",)),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", True, ("sa",), caveat="minicluster issues no tokens to "
             "service accounts"),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, ("pvc",), True),
    Resource("", "v1", "persistentvolumes", "PersistentVolume", False, ("pv",), True, _STORED.format("persistent volumes")),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", True, ("netpol",),
             caveat=_STORED.format("network policies")),
    Resource(_RBAC, "v1", "roles", "Role", caveat=_STORED.format("RBAC rules")),
    Resource(_RBAC, "v1", "rolebindings", "RoleBinding", caveat=_STORED.format("RBAC rules")),
    Resource(_RBAC, "v1", "clusterroles", "ClusterRole", False, caveat=_STORED.format("RBAC rules")),
    Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", False, caveat=_STORED.format("RBAC rules")),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, ("pc",),
             caveat="minicluster orders waiting pods by priority but preempts none"),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, ("pdb",), True,
             _STORED.format("disruption budgets")),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
)  # fmt: skip

BY_PATH: dict[tuple[str, str, str], Resource] = {(r.group, r.version, r.plural): r for r in ALL}
_BY_KEY = {resource.key: resource for resource in ALL}


def find(key: str) -> Resource:
    """The resource with a key, such as ``pods`` or ``roles.rbac.authorization.k8s.io``."""
    return _BY_KEY[key]
