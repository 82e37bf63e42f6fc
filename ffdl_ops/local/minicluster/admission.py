"""What is checked before an object is stored: names, a pod's fields, the namespace's quota."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from ffdl_ops.local.minicluster.errors import ApiError
from ffdl_ops.local.minicluster.quantities import amount, pod_requests, show
from ffdl_ops.local.minicluster.store import Store

__all__ = ["admit"]

_NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
_RULE = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"


def admit(store: Store, plural: str, namespace: str, value: dict[str, Any]) -> None:
    """Check and complete a new object.

    :raises ApiError: 404 (namespace), 422 (fields), 403 (quota).
    """
    meta = value.setdefault("metadata", {})
    name = meta.get("name") or (meta.get("generateName", "") + "x")
    if not _NAME.match(name) or len(name) > 253:
        raise ApiError.invalid(plural, name, "metadata.name", f'Invalid value: "{name}": {_RULE}')
    if namespace and store.find("namespaces", "", namespace) is None:
        raise ApiError.not_found("namespaces", namespace)
    if plural == "secrets":
        for key, text in (value.pop("stringData", None) or {}).items():
            value.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()
    if plural == "namespaces":
        value["status"] = {"phase": "Active"}
    if plural == "pods":
        _admit_pod(store, namespace, value)


def _admit_pod(store: Store, namespace: str, pod: dict[str, Any]) -> None:
    spec, name = pod.setdefault("spec", {}), pod["metadata"].get("name", "")
    if not spec.get("containers"):
        raise ApiError.invalid("Pod", name, "spec.containers", "Required value")
    seen = set()
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or []):
            where = f"spec.{kind}[{index}]"
            if not container.get("name") or container["name"] in seen:
                raise ApiError.invalid("Pod", name, f"{where}.name", "Required value, and not twice")
            if not container.get("image"):
                raise ApiError.invalid("Pod", name, f"{where}.image", "Required value")
            seen.add(container["name"])
    try:
        wanted = {f"requests.{kind}": value for kind, value in pod_requests(spec).items()}
        wanted |= {f"limits.{kind}": value for kind, value in pod_requests(spec, "limits").items()}
    except ValueError as error:
        raise ApiError.invalid("Pod", name, "spec.containers.resources", str(error)) from None
    wanted |= {kind: wanted[f"requests.{kind}"] for kind in ("cpu", "memory") if f"requests.{kind}" in wanted}
    wanted["pods"] = Fraction(1)
    _check_quota(store, namespace, name, wanted)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.pop("nodeName", None)
    pod["status"] = {"phase": "Pending", "qosClass": "Burstable"}


def _check_quota(store: Store, namespace: str, name: str, wanted: Mapping[str, Fraction]) -> None:
    for quota in store.list("resourcequotas", namespace):
        hard = {kind: amount(value) for kind, value in (quota["spec"].get("hard") or {}).items()}
        used = quota_used(store, namespace)
        over = [kind for kind in hard if kind in wanted and used.get(kind, Fraction(0)) + wanted[kind] > hard[kind]]
        if over:
            text = [
                ",".join(f"{kind}={show(values.get(kind, Fraction(0)))}" for kind in over)
                for values in (wanted, used, hard)
            ]
            raise ApiError(
                403,
                "Forbidden",
                f'pods "{name}" is forbidden: exceeded quota: {quota["metadata"]["name"]}, requested: {text[0]}, '
                f"used: {text[1]}, limited: {text[2]}",
                {"name": name, "kind": "pods"},
            )


def quota_used(store: Store, namespace: str) -> dict[str, Fraction]:
    """What the namespace's pods that have not ended take of a quota."""
    used: dict[str, Fraction] = {"pods": Fraction(0)}
    for pod in store.list("pods", namespace):
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            continue
        used["pods"] += 1
        for which in ("requests", "limits"):
            for kind, value in pod_requests(pod["spec"], which).items():
                used[f"{which}.{kind}"] = used.get(f"{which}.{kind}", Fraction(0)) + value
                if which == "requests":
                    used[kind] = used.get(kind, Fraction(0)) + value
    return used
