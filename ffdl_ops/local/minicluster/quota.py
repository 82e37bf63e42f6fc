"""ResourceQuota: what a namespace uses, and the 403 of what would be too much."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from ffdl_ops.local.minicluster.errors import ApiError, forbidden
from ffdl_ops.local.minicluster.podresources import TERMINAL, add, pod_amounts
from ffdl_ops.local.minicluster.quantity import format_quantity, quantity
from ffdl_ops.local.minicluster.resources import Resource
from ffdl_ops.local.minicluster.store import Change, Object, Store

__all__ = ["QuotaKeeper", "check_quota", "usage_of"]

_COUNTED = ("configmaps", "persistentvolumeclaims", "pods", "resourcequotas", "secrets", "services")
_COMPUTE = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
Amounts = dict[str, Decimal]


def usage_of(resource: Resource, body: Mapping[str, Any]) -> Amounts:
    """What one object counts, by the names that quotas use."""
    counted: Amounts = {f"count/{resource.key}": Decimal(1)}
    if resource.key == "pods":
        if (body.get("status") or {}).get("phase") in TERMINAL:
            return counted
        requests, limits = pod_amounts(body), pod_amounts(body, "limits")
        for name, amount in requests.items():
            counted[f"requests.{name}"] = amount
            if "/" not in name:
                counted[name] = amount
        counted |= {f"limits.{name}": amount for name, amount in limits.items()}
    if resource.key in _COUNTED:
        counted[resource.key] = Decimal(1)
    return counted


def _used(store: Store, namespace: str) -> Amounts:
    total: Amounts = {}
    for resource, body in store.everything(namespace):
        if resource.key != "events":
            total = add(total, usage_of(resource, body))
    return total


def check_quota(store: Store, resource: Resource, body: Mapping[str, Any]) -> None:
    """Refuse an object that would exceed a quota of its namespace.

    :raises ApiError: 403 in the real server's words.
    """
    namespace = body["metadata"].get("namespace", "")
    quotas = store.list("resourcequotas", namespace) if namespace and resource.key != "events" else []
    if not quotas:
        return
    wanted = usage_of(resource, body)
    used = _used(store, namespace)
    for quota in quotas:
        hard = {name: quantity(value) for name, value in (quota["spec"].get("hard") or {}).items()}
        name = quota["metadata"]["name"]
        if resource.key == "pods":
            _check_given(quota, body, hard)
        over = sorted(
            one for one in wanted if one in hard and wanted[one] and used.get(one, Decimal(0)) + wanted[one] > hard[one]
        )
        if over:
            raise _exceeded(resource, body, name, over, wanted, used, quota["spec"]["hard"])


def _check_given(quota: Mapping[str, Any], pod: Mapping[str, Any], hard: Amounts) -> None:
    missing = []
    for limited in sorted(set(hard) & set(_COMPUTE)):
        kind, _, name = limited.rpartition(".")
        field = "limits" if kind == "limits" else "requests"
        without = [
            one["name"]
            for one in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
            if name not in ((one.get("resources") or {}).get(field) or {})
        ]
        if without:
            missing.append(f"{limited} for: {','.join(without)}")
    if missing:
        text = f"failed quota: {quota['metadata']['name']}: must specify {'; '.join(missing)}"
        raise forbidden("pods", pod["metadata"]["name"], text)


def _exceeded(
    resource: Resource, body: Mapping[str, Any], quota: str, over: list[str], wanted: Amounts, used: Amounts,
    hard: Mapping[str, Any],
) -> ApiError:  # fmt: skip
    listed: Callable[[Callable[[str], str]], str] = lambda of: ",".join(f"{name}={of(name)}" for name in over)  # noqa: E731
    like = {name: str(hard[name]) for name in over}
    text = (
        f"exceeded quota: {quota}, requested: {listed(lambda n: format_quantity(wanted[n], like[n]))}, used: "
        f"{listed(lambda n: format_quantity(used.get(n, Decimal(0)), like[n]))}, limited: {listed(lambda n: like[n])}"
    )
    return forbidden(resource.plural, body["metadata"]["name"], text, resource.group)


def _same_usage(change: Change) -> bool:
    """Whether a change leaves what is used as it was."""
    if change.type != "MODIFIED" or change.previous is None:
        return False
    return usage_of(change.resource, change.previous) == usage_of(change.resource, change.object)


class QuotaKeeper:
    """Keeps ``status.used`` of every quota right.

    :param store: the objects.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        store.listen(self._changed)

    def _changed(self, change: Change) -> None:
        if not change.namespace or change.resource.key == "events":
            return
        if change.resource.key != "resourcequotas" and _same_usage(change):
            return
        quotas = self._store.list("resourcequotas", change.namespace)
        if quotas:
            used = _used(self._store, change.namespace)
            for quota in quotas:
                self._put(quota, used)

    def _put(self, quota: Object, used: Amounts) -> None:
        hard = quota["spec"].get("hard") or {}
        status = {
            "hard": hard,
            "used": {name: format_quantity(used.get(name, Decimal(0)), str(value)) for name, value in hard.items()},
        }
        self._store.update("resourcequotas", {**quota, "status": status})
