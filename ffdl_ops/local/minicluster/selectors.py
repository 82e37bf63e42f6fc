"""Label and field selectors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ffdl_ops.local.minicluster.errors import ApiError

__all__ = ["field_filter", "label_filter", "matches_expression"]

_SET = re.compile(r"^\s*(?P<key>[^\s=!,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)\s*$")
_SPLIT = re.compile(r",(?![^(]*\))")


def label_filter(selector: str | None) -> Callable[[Mapping[str, Any]], bool]:
    """A test on objects for a label selector in its text form."""
    tests = [_label_test(part) for part in _SPLIT.split(selector or "") if part.strip()]

    def test(value: Mapping[str, Any]) -> bool:
        labels = value["metadata"].get("labels") or {}
        return all(one(labels) for one in tests)

    return test


def _label_test(part: str) -> Callable[[Mapping[str, str]], bool]:
    found = _SET.match(part)
    if found:
        key, operator = found["key"], "In" if found["op"] == "in" else "NotIn"
        values = [value.strip() for value in found["values"].split(",")]
        return lambda labels: matches_expression(labels, key, operator, values)
    for sign, operator in (("!=", "NotIn"), ("==", "In"), ("=", "In")):
        if sign in part:
            key, value = (text.strip() for text in part.split(sign, 1))
            return lambda labels: matches_expression(labels, key, operator, [value])
    key = part.strip()
    if key.startswith("!"):
        return lambda labels: key[1:].strip() not in labels
    return lambda labels: key in labels


def matches_expression(labels: Mapping[str, str], key: str, operator: str, values: list[str]) -> bool:
    """One requirement of a selector, as node affinity writes it too."""
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    number = labels.get(key, "")
    if operator in ("Gt", "Lt") and number.isdigit() and values:
        return int(number) > int(values[0]) if operator == "Gt" else int(number) < int(values[0])
    return False


def field_filter(selector: str | None) -> Callable[[Mapping[str, Any]], bool]:
    """A test on objects for a field selector (any path of plain fields).

    :raises ApiError: 400 for a selector that can't be read.
    """
    tests: list[tuple[list[str], str, bool]] = []
    for part in (selector or "").split(","):
        if not part.strip():
            continue
        found = re.match(r"^\s*([\w./-]+)\s*(!=|==|=)\s*(.*?)\s*$", part)
        if not found:
            raise ApiError(400, "BadRequest", f"unable to parse requirement: {part!r}")
        tests.append((found[1].split("."), found[3], found[2] != "!="))

    def test(value: Mapping[str, Any]) -> bool:
        for path, wanted, equal in tests:
            present: Any = value
            for name in path:
                present = present.get(name) if isinstance(present, Mapping) else None
            if (str(present if present is not None else "") == wanted) != equal:
                return False
        return True

    return test
