"""How text, times, durations and records are shown, whoever shows them; what users wrote is text, whatever it holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

__all__ = ["clean", "one_line", "plain", "show_duration", "show_time"]

# CSI and OSC sequences as a whole, then any other escape with the character after it.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?")
# Controls but tab and newline; characters that reorder text or are invisible; half surrogates.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]"
)
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def clean(text: object) -> str:
    """The text without what would steer a terminal; tabs and line ends stay."""
    return _CONTROLS.sub("", _ESCAPES.sub("", str(text)))


def one_line(text: object) -> str:
    """As `clean`, on one line."""
    return " ".join(clean(text).split())


def show_time(moment: datetime | None) -> str:
    """A moment in UTC, ``2026-01-31 12:00:00Z``; ``-`` for none."""
    return "-" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def show_duration(seconds: float | None) -> str:
    """A duration with its units, ``1.5 s``, ``2 min 05 s``, ``3 h 07 min``, ``2 d 04 h``; ``-`` for none."""
    if seconds is None:
        return "-"
    if seconds < _MINUTE:
        return f"{max(seconds, 0):.1f} s"
    whole = round(seconds)
    for size, unit, part, part_unit in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1, "s"),
    ):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part:02d} {part_unit}"
    return f"{whole} s"


def plain(value: Any) -> Any:
    """A value as JSON has it: records as mappings, times as text, numbers that are none as ``null``."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return str(value)
