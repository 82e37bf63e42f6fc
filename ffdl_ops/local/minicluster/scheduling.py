"""Where a pod goes: requests, selectors, affinity, taints; and why nowhere, in the real scheduler's words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from ffdl_ops.local.minicluster.quantities import amount, pod_requests
from ffdl_ops.local.minicluster.selectors import matches_expression

__all__ = ["place"]

Object = Mapping[str, Any]


def place(pod: Object, nodes: Sequence[Object], pods: Sequence[Object]) -> tuple[str | None, str]:
    """The node for a pod, else why there is none.

    :param pods: every pod of the cluster; those that are bound and not ended take room.
    :returns: the node's name and an empty text, or ``None`` and the message.
    """
    reasons: Counter[str] = Counter()
    fitting: list[tuple[Fraction, str]] = []
    for node in nodes:
        name = node["metadata"]["name"]
        why = _excluded(pod, node)
        free = _free(node, pods)
        if why is None:
            short = [
                f"Insufficient {kind}" for kind, value in pod_requests(pod["spec"]).items() if value > free.get(kind, 0)
            ]
            why = short[0] if short else None
        if why is None:
            fitting.append((free.get("nvidia.com/gpu", Fraction(0)), name))
        else:
            reasons[why] += 1
    if fitting:
        return min(fitting)[1], ""
    told = ", ".join(f"{count} {why}" for why, count in sorted(reasons.items()))
    return None, f"0/{len(nodes)} nodes are available: {told}."


def _free(node: Object, pods: Sequence[Object]) -> dict[str, Fraction]:
    free = {kind: amount(value) for kind, value in node["status"]["allocatable"].items()}
    for pod in pods:
        ended = pod["status"].get("phase") in ("Succeeded", "Failed")
        if pod["spec"].get("nodeName") == node["metadata"]["name"] and not ended:
            for kind, value in pod_requests(pod["spec"]).items():
                free[kind] = free.get(kind, Fraction(0)) - value
    return free


def _excluded(pod: Object, node: Object) -> str | None:
    """Why a node is out of the question, whatever is free on it."""
    spec, labels = pod["spec"], node["metadata"].get("labels") or {}
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])
    if not ready:
        return "node(s) were not ready"
    if node["spec"].get("unschedulable"):
        return "node(s) were unschedulable"
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return "node(s) didn't match Pod's node affinity/selector"
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if affinity and not any(_term(term, labels, node) for term in affinity["nodeSelectorTerms"]):
        return "node(s) didn't match Pod's node affinity/selector"
    for taint in node["spec"].get("taints") or []:
        if taint["effect"] != "PreferNoSchedule" and not any(
            _tolerates(one, taint) for one in spec.get("tolerations") or []
        ):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    return None


def _term(term: Object, labels: Mapping[str, str], node: Object) -> bool:
    fields = {"metadata.name": node["metadata"]["name"]}
    checks = [(one, labels) for one in term.get("matchExpressions") or []]
    checks += [(one, fields) for one in term.get("matchFields") or []]
    return all(matches_expression(where, one["key"], one["operator"], one.get("values") or []) for one, where in checks)


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("operator") == "Exists":
        return not toleration.get("key") or toleration["key"] == taint["key"]
    return toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", "")
