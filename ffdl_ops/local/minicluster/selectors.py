"""Label and field selectors, as query parameters write them and as objects hold them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ffdl_ops.local.minicluster.errors import bad_request

__all__ = ["field_selector", "label_selector", "matches_expressions", "matches_selector"]

Labels = Mapping[str, str]
Object = Mapping[str, Any]

_SET = re.compile(r"^(?P<key>[^\s!=,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^\s!=,()]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s!=,()]*)$")
_EXISTS = re.compile(r"^(?P<no>!?)\s*(?P<key>[^\s!=,()<>]+)$")
_POD_FIELDS = ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase",
               "status.podIP", "status.nominatedNodeName")  # fmt: skip
_FIELDS = {
    "pods": _POD_FIELDS,
    "events": (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
        "reportingComponent", "source", "type",
    ),
    "secrets": ("type",),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "services": ("spec.clusterIP", "spec.type"),
}  # fmt: skip


def _split(text: str) -> list[str]:
    """The requirements of a selector: commas inside parentheses don't separate."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def label_selector(text: str) -> Callable[[Labels], bool]:
    """A label selector as a test of labels.

    :raises ApiError: 400 when it cannot be read.
    """
    tests = [_requirement(part) for part in _split(text)]
    return lambda labels: all(test(labels) for test in tests)


def _requirement(part: str) -> Callable[[Labels], bool]:
    if found := _SET.match(part):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        if found["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.match(part):
        key, value = found["key"], found["value"]
        if found["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTS.match(part):
        key = found["key"]
        if found["no"]:
            return lambda labels: key not in labels
        return lambda labels: key in labels
    raise bad_request(f'unable to parse requirement: found "{part}", expected a label selector requirement')


def field_selector(text: str, resource: str) -> Callable[[Object], bool]:
    """A field selector as a test of objects of one resource.

    :raises ApiError: 400 when it cannot be read, or names a field that the resource can't be selected by.
    """
    tests: list[tuple[str, bool, str]] = []
    for part in _split(text):
        found = _EQUAL.match(part)
        if found is None:
            raise bad_request(f'invalid selector: "{part}"; can\'t understand it')
        key = found["key"]
        if key not in ("metadata.name", "metadata.namespace", *_FIELDS.get(resource, ())):
            raise bad_request(f"field label not supported: {key}")
        tests.append((key, found["op"] != "!=", found["value"]))
    return lambda body: all((_field(body, key) == value) is equal for key, equal, value in tests)


def _field(body: Object, path: str) -> str:
    value: Any = body
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
        if isinstance(value, Mapping) and path == "source":
            return str(value.get("component", ""))
    if path == "spec.unschedulable":
        return "true" if value else "false"
    return "" if value is None else str(value)


def matches_selector(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Whether labels match a ``LabelSelector`` object; an absent one matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return matches_expressions(selector.get("matchExpressions") or (), labels)


def matches_expressions(expressions: Any, labels: Labels) -> bool:
    """Whether labels match all expressions of a label or node selector (``In``, ``NotIn``, ``Exists``, ``Gt``, …)."""
    return all(_expression(one, labels) for one in expressions)


def _expression(one: Mapping[str, Any], labels: Labels) -> bool:
    value, values = labels.get(one["key"]), one.get("values") or []
    match one.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            try:
                left, right = int(str(value)), int(values[0])
            except (ValueError, IndexError):
                return False
            return left > right if operator == "Gt" else left < right
    return False
