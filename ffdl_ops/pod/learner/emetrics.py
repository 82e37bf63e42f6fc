"""FfDL's file of evaluation metrics, read as it grows: one JSON object per line, which becomes one event per value.

A line as FfDL has it: `{"grouplabel": "train", "meta": {"time": ..., "subid": ...}, "etimes": {"iteration": {"type": "INT",
"value": 3}}, "values": {"loss": {"type": "FLOAT", "value": 0.5}}}`. `scalars` for `values`, and plain numbers for the objects
with a type, are taken too.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping

from ffdl_ops.pod.learner.files import open_regular

__all__ = ["MetricsFile", "events_of", "metrics_place_of"]

_DEFAULTS = {"emetrics_file": "$LOG_DIR/evaluation-metrics.txt", "tensorboard": "$LOG_DIR/tensorboard"}
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_READ_BYTES = 1 << 20
_KNOWN_BYTES = 64


def metrics_place_of(env: Mapping[str, str], kind: str) -> str | None:
    """Where `evaluation_metrics` of this type says that metrics are written; `None` when it is of another type."""
    try:
        spec = json.loads(env.get("FFDL_METRICS_SPEC") or "null")
    except ValueError:
        return None
    if not isinstance(spec, dict) or spec.get("type") != kind:
        return None
    path = str(spec.get("in") or _DEFAULTS[kind])
    return _VARIABLE.sub(lambda found: env.get(found[1] or found[2], found[0]), path)


def events_of(record: Mapping[str, object]) -> list[dict[str, object]]:
    """A record's values as events `{"key", "value", "step", "time", …}`; none when it holds no number."""
    meta = _mapping(record.get("meta"))
    times = {name: _plain(value) for name, value in _mapping(record.get("etimes")).items()}
    facts = {
        "step": _whole(times.get("iteration", record.get("step"))),
        "epoch": _whole(times.get("epoch")),
        "time": meta.get("time") or times.get("timestamp") or times.get("wall_time") or record.get("time"),
        "grouplabel": record.get("grouplabel"),
        "subid": meta.get("subid") or record.get("subid"),
    }
    if facts["step"] is None:
        facts["step"] = facts["epoch"]
    known = {name: value for name, value in facts.items() if value is not None}
    values = _mapping(record.get("values")) or _mapping(record.get("scalars"))
    if not values and "key" in record:
        values = {str(record["key"]): record.get("value")}
    numbers = {key: _number(_plain(value)) for key, value in values.items()}
    return [{"key": key, "value": value, **known} for key, value in numbers.items() if value is not None]


class MetricsFile:
    """Reads what is appended to a file, whole lines only. What is there at first is an earlier attempt's."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._known = b""
        self._offset = 0
        try:
            with open_regular(path) as file:
                self._remember(file.seek(0, os.SEEK_END), file)
        except OSError:
            pass

    def news(self) -> list[dict[str, object]]:
        """The events of the lines that were added."""
        try:
            with open_regular(self._path) as file:
                return self._read(file)
        except OSError:
            return []

    def _read(self, file) -> list[dict[str, object]]:  # type: ignore[no-untyped-def]
        if not self._goes_on(file):
            self._offset = 0
        events: list[dict[str, object]] = []
        while True:
            file.seek(self._offset)
            data = file.read(_READ_BYTES)
            # A line that never ends would be read again each second: it is passed over.
            end = data.rfind(b"\n") + 1 or (len(data) if len(data) == _READ_BYTES else 0)
            if not end:
                self._remember(self._offset, file)
                return events
            self._offset += end
            for line in data[:end].splitlines():
                events += _events_of_line(line)

    def _goes_on(self, file) -> bool:  # type: ignore[no-untyped-def]
        """Whether the file still begins with what was read; a program may write it anew."""
        file.seek(self._offset - len(self._known))
        return bool(file.read(len(self._known)) == self._known)

    def _remember(self, offset: int, file) -> None:  # type: ignore[no-untyped-def]
        self._offset = offset
        start = max(0, offset - _KNOWN_BYTES)
        file.seek(start)
        self._known = file.read(offset - start)


def _events_of_line(line: bytes) -> list[dict[str, object]]:
    try:
        record = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return []
    return events_of(record) if isinstance(record, dict) else []


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _plain(value: object) -> object:
    """FfDL writes `{"type": "INT", "value": "3"}` for 3."""
    return value.get("value") if isinstance(value, dict) else value


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def _whole(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and abs(number) < 2**53 else None
