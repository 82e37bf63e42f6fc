"""The launcher's log lines: ``<ISO-8601 UTC>Z [learner <k>] <text>``, or ``ffdl:<event> <json>`` as text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

__all__ = ["MAX_TEXT", "LogLine", "parse_line", "stamp_ms"]

MAX_TEXT = 4096
"""Characters of a line that are looked at; what a program prints beyond is for people."""

_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?)Z \[learner (\d{1,6})\] ?", re.ASCII)
_EVENT = re.compile(r"ffdl:([a-z]{1,20}) (\{.*)", re.DOTALL)


@dataclass(frozen=True)
class LogLine:
    """One line of a learner.

    :param timestamp_ms: when it was printed, by the learner's clock, milliseconds since the epoch.
    :param learner: which learner, from 1.
    :param text: what was printed, at most `MAX_TEXT` characters.
    :param event: the name of a structured line's event, such as ``metric``; ``None`` for what the program
        printed.
    :param payload: a structured line's JSON object.
    """

    timestamp_ms: int
    learner: int
    text: str
    event: str | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)


def parse_line(line: str) -> LogLine | None:
    """A launcher's line, ``None`` for anything else."""
    head = _LINE.match(line)
    if head is None:
        return None
    when = stamp_ms(f"{head[1]}Z")
    if when is None:
        return None
    text = line[head.end() : head.end() + MAX_TEXT].rstrip("\r\n")
    event = _EVENT.match(text)
    if event is not None:
        payload = _object(event[2])
        if payload is not None:
            return LogLine(when, int(head[2]), text, event[1], payload)
    return LogLine(when, int(head[2]), text)


def stamp_ms(value: Any) -> int | None:
    """Milliseconds since the epoch, from an ISO-8601 text (UTC when it names no zone) or from seconds."""
    if isinstance(value, bool):
        return None
    try:
        if isinstance(value, (int, float)):
            moment = datetime.fromtimestamp(value, UTC)
        else:
            moment = datetime.fromisoformat(str(value))
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0, round(moment.timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        return None


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
