"""The values that the API server fills in."""

from __future__ import annotations

import base64
import copy
from typing import Any

from ffdl_ops.local.minicluster.podresources import qos_class
from ffdl_ops.local.minicluster.resources import Resource
from ffdl_ops.local.minicluster.store import Object

__all__ = ["DEFAULTED_AGAIN", "apply_defaults", "merge_string_data"]

_RBAC = "rbac.authorization.k8s.io"
DEFAULTED_AGAIN = (
    "limitranges",
    "networkpolicies.networking.k8s.io",
    f"rolebindings.{_RBAC}",
    f"clusterrolebindings.{_RBAC}",
)
"""Kinds whose defaults are filled in on every write; none of them has a state that a default would reset."""

_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def apply_defaults(resource: Resource, body: Object) -> Object:
    """A new object with what its author left out."""
    body = copy.deepcopy(body)
    match resource.key:
        case "pods":
            _pod(body)
        case "namespaces":
            body.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
            body["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = body["metadata"]["name"]
            body["status"] = {"phase": "Active"}
        case "secrets":
            body.setdefault("type", "Opaque")
            _string_data(body)
        case "services":
            _service(body)
        case "persistentvolumeclaims":
            body["status"] = {"phase": "Bound", "accessModes": body.get("spec", {}).get("accessModes", []),
                              "capacity": body.get("spec", {}).get("resources", {}).get("requests", {})}  # fmt: skip
        case "persistentvolumes":
            body["status"] = {"phase": "Available"}
        case "resourcequotas":
            body["status"] = {}
        case "limitranges":
            for entry in (body.get("spec") or {}).get("limits") or ():
                _limit(entry)
        case "networkpolicies.networking.k8s.io":
            _network_policy(body.setdefault("spec", {}))
        case "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io":
            _binding(body)
    return body


def merge_string_data(body: Object) -> None:
    """Move a secret's write-only ``stringData`` into ``data``."""
    _string_data(body)


def _string_data(body: Object) -> None:
    plain = body.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}
        body["data"] = {**(body.get("data") or {}), **encoded}


def _service(body: Object) -> None:
    spec = body.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("clusterIP", "None")
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    body.setdefault("status", {"loadBalancer": {}})


def _limit(entry: Object) -> None:
    """A container's default limit is the maximum, its default request is the default limit, then the minimum."""
    if entry.get("type") == "Container":
        limits = {**(entry.get("max") or {}), **(entry.get("default") or {})}
        requests = {**(entry.get("min") or {}), **limits, **(entry.get("defaultRequest") or {})}
        entry |= {key: value for key, value in (("default", limits), ("defaultRequest", requests)) if value}


def _network_policy(spec: Object) -> None:
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _binding(body: Object) -> None:
    if isinstance(body.get("roleRef"), dict):
        body["roleRef"].setdefault("apiGroup", _RBAC)
    for subject in body.get("subjects") or ():
        if subject.get("kind") != "ServiceAccount":
            subject.setdefault("apiGroup", _RBAC)


def _pod(body: Object) -> None:
    spec = body["spec"]
    for key, value in {
        "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler", "securityContext": {}, "enableServiceLinks": True,
    }.items():  # fmt: skip
        if spec.get(key) is None:
            spec[key] = copy.deepcopy(value)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = account
    spec["tolerations"] = _tolerations(spec.get("tolerations") or [])
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        _container(container)
    for volume in spec.get("volumes") or ():
        _volume(volume)
    body["status"] = {"phase": "Pending", "qosClass": qos_class(body)}


def _tolerations(given: list[Any]) -> list[Any]:
    known = {one.get("key") for one in given}
    fresh = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in _TOLERATED
        if key not in known and None not in known
    ]
    return [*given, *fresh]


def _container(container: Object) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    name = str(container.get("image", "")).rpartition("/")[2]
    latest = name.endswith(":latest") or (":" not in name and "@" not in name)
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    resources = container.get("resources") or {}
    container["resources"] = resources
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for entry in container.get("env") or ():
        if "fieldRef" in (entry.get("valueFrom") or {}):
            entry["valueFrom"]["fieldRef"].setdefault("apiVersion", "v1")


def _volume(volume: Object) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for kind in ("secret", "configMap", "downwardAPI", "projected"):
        if kind in volume:
            volume[kind].setdefault("defaultMode", 420)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
