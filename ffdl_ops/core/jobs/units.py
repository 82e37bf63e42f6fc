"""Quantities as people write them: memory, processors, durations, GPU types.

Memory follows both of its worlds. FfDL: ``8Gb``, ``512MiB``, any case, where ``b`` is a *byte*, ``1GB`` is 1000 MB and
``1GiB`` is 1024 MiB. Kubernetes: ``16Gi``, ``500M``, ``1e9``, plain bytes, and ``m`` for thousandths of a byte.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation

__all__ = ["format_memory", "normalise_gpu_type", "parse_cpu", "parse_duration", "parse_memory"]

_NUMBER = r"(?P<number>[+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,2})?)"
_QUANTITY = re.compile(_NUMBER + r"\s{0,4}(?P<unit>[A-Za-z]{0,3})", re.ASCII)
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15, "e": 10**18}
_BINARY = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50, "e": 2**60}
_SMALL = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")}
_KUBERNETES_DECIMAL = frozenset("kMGTPE")
_DURATION = re.compile(
    r"\s*".join(rf"(?:(?P<{unit}>\d{{1,9}}(?:\.\d{{1,9}})?)\s*{unit})?" for unit in "dhms"), re.ASCII
)
_DURATION_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_MAX_TEXT = 64
_MODEL = re.compile(r"(?<![A-Z0-9])(?:RTX|GTX|GT|MI|[A-Z]{1,2})-?\d{1,4}[A-Z]{0,2}", re.ASCII)


def parse_memory(value: str | int | float) -> int:
    """Bytes in a memory quantity, rounded up.

    :param value: as FfDL or Kubernetes write it; a number without a unit is bytes.
    :raises ValueError: when it is no such quantity.
    """
    number, unit = _split(value, "memory", "8Gb, 512MiB or 16Gi")
    if not unit:
        return math.ceil(number)
    if unit in _SMALL:
        return math.ceil(number * _SMALL[unit])
    multiple, rest = unit[0].lower(), unit[1:].lower()
    if multiple in _BINARY:
        if rest in ("i", "ib"):
            return math.ceil(number * _BINARY[multiple])
        if rest == "b" or (not rest and unit in _KUBERNETES_DECIMAL):
            return math.ceil(number * _DECIMAL[multiple])
    if unit.lower() == "b":
        return math.ceil(number)
    raise ValueError(f"{value!r} has the unknown unit {unit!r}; write it like 8Gb, 512MiB or 16Gi")


def parse_cpu(value: str | int | float) -> int:
    """Thousandths of a processor in a CPU quantity, rounded up.

    :param value: ``0.5``, ``"2"``, ``"500m"`` (also Kubernetes' ``u`` and ``n``).
    :raises ValueError: when it is no such quantity.
    """
    number, unit = _split(value, "cpus", "0.5, 4 or 500m")
    if not unit:
        return math.ceil(number * 1000)
    if unit in _SMALL:
        return math.ceil(number * _SMALL[unit] * 1000)
    raise ValueError(f"{value!r} has the unknown unit {unit!r}; write it like 0.5, 4 or 500m")


def parse_duration(value: str) -> float:
    """Seconds in a duration such as ``90s``, ``45m``, ``12h``, ``1d`` or ``1h30m``.

    :raises ValueError: when it is no such duration.
    """
    text = value.strip() if isinstance(value, str) else ""
    found = _DURATION.fullmatch(text) if 0 < len(text) <= _MAX_TEXT else None
    if found is None:
        raise ValueError(f"{str(value)[:_MAX_TEXT]!r} is no duration; write it like 90s, 45m, 12h or 1h30m")
    parts = {unit: number for unit, number in found.groupdict().items() if number is not None}
    return float(sum(Decimal(number) * _DURATION_SECONDS[unit] for unit, number in parts.items()))


def format_memory(count: int) -> str:
    """A number of bytes for a person, in binary units: ``2 GiB``, ``1.5 GiB``, ``500 MiB``."""
    for power, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= power:
            return f"{count / power:.4g} {name}"
    return f"{count} bytes"


def normalise_gpu_type(value: str) -> str:
    """A GPU's type by its model alone: ``nvidia-TeslaV100``, ``Tesla V100-SXM2-16GB`` and ``v100`` are all ``V100``."""
    text = re.sub(r"NVIDIA|TESLA|GEFORCE|QUADRO|[^A-Z0-9.]+", "-", value.upper()).strip("-")
    found = _MODEL.search(text)
    return found[0].replace("-", "") if found else re.sub("-+", "-", text)


def _split(value: str | int | float, what: str, like: str) -> tuple[Decimal, str]:
    """Number and unit of a quantity that is neither negative nor endless."""
    text = str(value).strip() if not isinstance(value, bool) else "a truth value"
    found = _QUANTITY.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if found is None:
        raise ValueError(f"{text[:_MAX_TEXT]!r} is no {what} quantity; write it like {like}")
    try:
        number = Decimal(found["number"])
    except InvalidOperation:
        raise ValueError(f"{text!r} is no {what} quantity; write it like {like}") from None
    if number < 0:
        raise ValueError(f"{text!r} is negative; it can't be less than 0")
    return number, found["unit"]
