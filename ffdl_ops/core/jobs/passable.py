"""What a run's configuration may hold so that Airflow can pass it on to the run's tasks.

Airflow takes any JSON when a run is triggered, and gives it to each task in a form that knows no number beyond 64 bits and
no deep nesting: a task of such a run dies before its first line, `plan` too, and nobody reads why. Only names that the form
does not have can hold such a value, and `plan` refuses these by name; it has to start for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["passable"]

_LEAST, _MOST = -(2**63), 2**64 - 1
_DEEPEST = 50


def passable(conf: Mapping[str, Any]) -> dict[str, Any] | None:
    """The configuration with a note in place of each value that no task can be given.

    :returns: ``None`` when every value can be.
    """
    notes = {name: f"not passed on: {why}" for name, value in conf.items() if (why := _obstacle(value, 1))}
    return {**conf, **notes} if notes else None


def _obstacle(value: Any, depth: int) -> str | None:
    """Why a value can't be passed on, or ``None``."""
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        return "a number beyond 64 bits"
    if not isinstance(value, dict | list):
        return None
    if depth > _DEEPEST:
        return f"nested deeper than {_DEEPEST} levels"
    parts = value.values() if isinstance(value, dict) else value
    return next((why for part in parts if (why := _obstacle(part, depth + 1))), None)
