"""What a metric is, and what of it MLflow can keep.

MLflow's limits (version 3): a key has at most 250 characters out of letters, digits and ``_ - . : /`` and
blank, and has to be a plain relative path; a tag's value has at most 8,000 characters, a parameter's 6,000.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

__all__ = ["MAX_KEYS", "Point", "clean_key", "number", "wire_value"]

MAX_KEYS = 200
"""Distinct metric keys that a run may have; thousands would make MLflow's pages unusable."""

_MAX_KEY = 120
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_\-.:/ ]+")
_OWN_PREFIX = "ffdl."
_LARGEST = 1.79e308


@dataclass(frozen=True, slots=True)
class Point:
    """One value of one metric.

    :param key: the metric's name.
    :param value: its value; may be NaN or infinite.
    :param step: the training step that it belongs to, 0 when the program names none.
    :param timestamp_ms: when the learner printed it, by the learner's clock, milliseconds since the epoch.
    """

    key: str
    value: float
    step: int
    timestamp_ms: int


def clean_key(key: str) -> str | None:
    """A key that MLflow accepts, as near to the given one as can be; ``None`` when nothing of it is left.

    The platform's own prefix ``ffdl.`` is not a user's to write: ``ffdl.seconds.admit`` becomes
    ``user.ffdl.seconds.admit``.
    """
    text = _FORBIDDEN.sub("_", key)
    parts = [part.strip() for part in text.split("/")]
    text = "/".join(part for part in parts if part.strip("."))[:_MAX_KEY].strip(" /")
    if not text.strip("_"):
        return None
    return f"user.{text}"[:_MAX_KEY] if text.lower().startswith(_OWN_PREFIX) else text


def number(text: Any) -> float | None:
    """A number as a program prints it (``1e-3``, ``nan``, ``-inf``), else ``None``."""
    try:
        return float(text)
    except (TypeError, ValueError, OverflowError):
        return None


def wire_value(value: float) -> float | str:
    """A value as MLflow's REST interface takes it: JSON has no NaN, and its database no infinity."""
    if math.isnan(value):
        return "NaN"
    return max(-_LARGEST, min(_LARGEST, value))
