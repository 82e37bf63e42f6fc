"""Kubernetes quantities ("500m", "2Gi", "1e3") as exact numbers, and back to text."""

from __future__ import annotations

import re
from decimal import Decimal

__all__ = ["format_quantity", "is_quantity", "quantity"]

_PATTERN = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d+)?$")
_BINARY = {unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_DECIMAL = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal("1e3"), "M": Decimal("1e6"),
    "G": Decimal("1e9"), "T": Decimal("1e12"), "P": Decimal("1e15"), "E": Decimal("1e18"),
}  # fmt: skip


def is_quantity(text: object) -> bool:
    """Whether a value is a valid quantity."""
    return bool(_PATTERN.match(str(text))) and not isinstance(text, bool)


def quantity(text: object) -> Decimal:
    """The number of base units (cores, bytes, devices) that a quantity stands for.

    :raises ValueError: when it is not a quantity.
    """
    found = _PATTERN.match(str(text))
    if found is None:
        raise ValueError(f"{text!r} is not a quantity")
    number, unit = Decimal(found[1]), found[2]
    if not unit:
        return number
    if unit in _BINARY:
        return number * _BINARY[unit]
    if unit in _DECIMAL:
        return number * _DECIMAL[unit]
    return number * Decimal(10) ** int(unit[1:])


def format_quantity(value: Decimal, like: str = "") -> str:
    """The shortest usual text of a number.

    :param like: a quantity whose style (binary or decimal) is kept.
    """
    if value != value.to_integral_value():
        return f"{int((value * 1000).to_integral_value(rounding='ROUND_CEILING'))}m"
    number = int(value)
    if like.endswith("i") or (number >= 1 << 20 and number % (1 << 20) == 0):
        for unit, factor in reversed(_BINARY.items()):
            if number and number % int(factor) == 0:
                return f"{number // int(factor)}{unit}"
    return str(number)
