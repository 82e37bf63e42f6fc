"""The kinds of object that are served, and what clients are told of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["KINDS", "Kind", "discovery"]


@dataclass(frozen=True)
class Kind:
    """One kind.

    :param plural: its name in paths.
    :param group: its API group; empty for the core.
    :param enforced: whether anything here acts on it; what is only stored is said in a warning.
    """

    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    enforced: bool = True
    short: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """`apiVersion` as objects carry it."""
        return f"{self.group}/{self.version}" if self.group else self.version


KINDS = {
    one.plural: one
    for one in (
        Kind("namespaces", "Namespace", namespaced=False, short=("ns",)),
        Kind("nodes", "Node", namespaced=False, short=("no",)),
        Kind("pods", "Pod", short=("po",)),
        Kind("services", "Service", enforced=False, short=("svc",)),
        Kind("secrets", "Secret"),
        Kind("configmaps", "ConfigMap", short=("cm",)),
        Kind("events", "Event", short=("ev",)),
        Kind("resourcequotas", "ResourceQuota", short=("quota",)),
        Kind("limitranges", "LimitRange", enforced=False, short=("limits",)),
        Kind("serviceaccounts", "ServiceAccount", enforced=False, short=("sa",)),
        Kind("persistentvolumeclaims", "PersistentVolumeClaim", enforced=False, short=("pvc",)),
        Kind("networkpolicies", "NetworkPolicy", group="networking.k8s.io", enforced=False, short=("netpol",)),
        Kind("roles", "Role", group="rbac.authorization.k8s.io", enforced=False),
        Kind("rolebindings", "RoleBinding", group="rbac.authorization.k8s.io", enforced=False),
    )
}
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def discovery(path: str) -> dict[str, Any] | None:
    """The answer to a discovery request, or ``None`` when the path is none."""
    groups = sorted({one.group for one in KINDS.values() if one.group})
    parts = path.strip("/").split("/")
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"]}
    if parts == ["apis"]:
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [
                {
                    "name": group,
                    "versions": [{"groupVersion": f"{group}/v1", "version": "v1"}],
                    "preferredVersion": {"groupVersion": f"{group}/v1", "version": "v1"},
                }
                for group in groups
            ],
        }
    if parts == ["version"]:
        return {"major": "1", "minor": "32", "gitVersion": "v1.32.0-minicluster", "platform": "linux/amd64"}
    wanted = "" if parts == ["api", "v1"] else parts[1] if len(parts) == 3 and parts[0] == "apis" else None
    if wanted is None or (wanted and wanted not in groups):
        return None
    resources = [
        {
            "name": one.plural, "singularName": one.kind.lower(), "namespaced": one.namespaced, "kind": one.kind,
            "verbs": _VERBS, "shortNames": list(one.short),
        }
        for one in KINDS.values()
        if one.group == wanted
    ]  # fmt: skip
    if not wanted:
        resources.append({"name": "pods/log", "singularName": "", "namespaced": True, "kind": "Pod", "verbs": ["get"]})
    version = f"{wanted}/v1" if wanted else "v1"
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}
