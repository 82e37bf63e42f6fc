"""Kubernetes' quantities as numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

__all__ = ["amount", "pod_requests", "show"]

_SUFFIX = {
    "": Fraction(1), "m": Fraction(1, 1000), "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9),
    "T": Fraction(10**12), "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
}  # fmt: skip
_QUANTITY = re.compile(r"^([+-]?[0-9.]+)([a-zA-Z]*)$")


def amount(value: Any) -> Fraction:
    """A quantity's value (cores, bytes, devices).

    :raises ValueError: when it is none.
    """
    found = _QUANTITY.match(str(value).strip())
    if not found or found[2] not in _SUFFIX:
        raise ValueError(f"quantities must match the regular expression of Kubernetes: {value!r}")
    return Fraction(found[1]) * _SUFFIX[found[2]]


def show(value: Fraction) -> str:
    """A quantity in its shortest exact form."""
    return str(int(value)) if value.denominator == 1 else f"{int(value * 1000)}m"


def pod_requests(spec: Mapping[str, Any], which: str = "requests") -> dict[str, Fraction]:
    """What a pod takes: its containers and side-cars together, or its largest init container if that is more."""
    total: dict[str, Fraction] = {}
    largest: dict[str, Fraction] = {}
    sidecars: dict[str, Fraction] = {}
    for container in spec.get("initContainers") or []:
        own = _of(container, which)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, own.items())
        else:
            for name, value in own.items():
                largest[name] = max(largest.get(name, Fraction(0)), value + sidecars.get(name, 0))
    for container in spec.get("containers") or []:
        _add(total, _of(container, which).items())
    _add(total, sidecars.items())
    for name, value in largest.items():
        total[name] = max(total.get(name, Fraction(0)), value)
    return total


def _of(container: Mapping[str, Any], which: str) -> dict[str, Fraction]:
    resources = container.get("resources") or {}
    values = (
        {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        if which == "requests"
        else (resources.get("limits") or {})
    )
    return {name: amount(value) for name, value in values.items()}


def _add(total: dict[str, Fraction], items: Iterable[tuple[str, Fraction]]) -> None:
    for name, value in items:
        total[name] = total.get(name, Fraction(0)) + value
