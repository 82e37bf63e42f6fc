"""Objects of any kind as plain mappings, read and written whole.

The client's own classes leave out what they do not know; an object that was read into them and written back would lose it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ffdl_ops.adapters.cluster.client import Cluster, ClusterRefused

__all__ = ["Objects", "kinds_in_namespaces"]

Manifest = dict[str, Any]

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_PATHS = {
    "Namespace": ("/api/v1", "namespaces"),
    "ClusterRole": (_RBAC, "clusterroles"),
    "ClusterRoleBinding": (_RBAC, "clusterrolebindings"),
    "ResourceQuota": ("/api/v1", "resourcequotas"),
    "LimitRange": ("/api/v1", "limitranges"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "Role": (_RBAC, "roles"),
    "RoleBinding": (_RBAC, "rolebindings"),
    "Secret": ("/api/v1", "secrets"),
}
_OF_THE_CLUSTER = ("Namespace", "ClusterRole", "ClusterRoleBinding")


def kinds_in_namespaces() -> list[str]:
    """The kinds that live in a namespace, secrets left out (jobs bring some of their own)."""
    return [kind for kind in _PATHS if kind not in _OF_THE_CLUSTER and kind != "Secret"]


@dataclass(frozen=True)
class Objects:
    """The objects of one cluster.

    :param dry_run: let the server check and complete what is written, and keep nothing of it.
    """

    cluster: Cluster
    dry_run: bool = False

    def read(self, kind: str, namespace: str | None, name: str) -> Manifest | None:
        """An object, or ``None``."""
        try:
            return self._ask(f"read {_words(kind, namespace, name)}", "GET", _path(kind, namespace, name))
        except ClusterRefused as error:
            if error.status == 404:
                return None
            raise

    def of_kind(self, kind: str, namespace: str | None = None, selector: str | None = None) -> list[Manifest]:
        """The objects of a kind, of one namespace or of the cluster."""
        query = [("labelSelector", selector)] if selector else []
        return list(self._ask(f"list {kind} objects", "GET", _path(kind, namespace), query=query)["items"])

    def create(self, body: Manifest) -> Manifest | None:
        """A new object as the server has it; ``None`` when there is one of its name already."""
        kind, namespace, name = _who(body)
        try:
            return self._write(f"create {_words(kind, namespace, name)}", "POST", _path(kind, namespace), body)
        except ClusterRefused as error:
            if error.status == 409:
                return None
            raise

    def replace(self, body: Manifest) -> Manifest | None:
        """An object that was read, changed, as the server has it; ``None`` when somebody else has changed it since."""
        kind, namespace, name = _who(body)
        try:
            return self._write(f"change {_words(kind, namespace, name)}", "PUT", _path(kind, namespace, name), body)
        except ClusterRefused as error:
            if error.status == 409:
                return None
            raise

    def _write(self, what: str, method: str, path: str, body: Manifest) -> Manifest:
        return self._ask(what, method, path, body, [("dryRun", "All")] if self.dry_run else [])

    def _ask(
        self,
        what: str,
        method: str,
        path: str,
        body: Manifest | None = None,
        query: list[tuple[str, str]] | None = None,
    ) -> Manifest:
        answer = self.cluster.call(
            what,
            self.cluster.api.call_api,
            path,
            method,
            query_params=query or [],
            header_params={"Accept": "application/json", "Content-Type": "application/json"},
            body=body,
            auth_settings=["BearerToken"],
            _return_http_data_only=True,
            _preload_content=False,
        )
        return dict(json.loads(answer.data))


def _who(body: Manifest) -> tuple[str, str | None, str]:
    return body["kind"], body["metadata"].get("namespace"), body["metadata"]["name"]


def _path(kind: str, namespace: str | None, name: str | None = None) -> str:
    root, plural = _PATHS[kind]
    inside = f"/namespaces/{namespace}" if namespace and kind not in _OF_THE_CLUSTER else ""
    return f"{root}{inside}/{plural}" + (f"/{name}" if name else "")


def _words(kind: str, namespace: str | None, name: str) -> str:
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
