"""TensorBoard's event files, read as they grow: each scalar becomes one event.

Standard library alone, since the launcher runs in any image, with or without TensorBoard. The format, as TensorFlow defines it: a
file is a row of records (`TFRecord`: length as 8 bytes, its checksum, the content, its checksum), each an `Event` message in
Protocol Buffers' wire format, whose summary holds values by tag: `simple_value`, or a tensor of one number.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from ffdl_ops.pod.learner.files import open_regular

__all__ = ["EventFiles", "scalars_of"]

_READ_BYTES = 1 << 20
_LONGEST_RECORD = 64 << 20
_MOST_FILES = 200
_DEEPEST = 6
_HEAD, _TAIL = 12, 4
_FLOAT, _DOUBLE = 1, 2


class EventFiles:
    """Reads what is appended to the event files below a directory. What is there at first is an earlier attempt's."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._offsets: dict[str, int] = {path: os.path.getsize(path) for path in self._files()}

    def news(self) -> list[dict[str, object]]:
        """The scalars that were added: key (below the name of its run's directory, if it has one), value, step, time."""
        events: list[dict[str, object]] = []
        for path in self._files():
            run = os.path.relpath(os.path.dirname(path), self._directory)
            prefix = "" if run == "." else f"{run}/"
            try:
                for record in self._records(path):
                    events += [{**one, "key": f"{prefix}{one['key']}"} for one in scalars_of(record)]
            except (OSError, ValueError, struct.error):
                # Not TensorBoard's, or damaged: nothing after this can be told apart.
                self._offsets[path] = -1
        return events

    def _files(self) -> list[str]:
        found: list[str] = []
        for where, folders, names in os.walk(self._directory, followlinks=False):
            if os.path.relpath(where, self._directory).count(os.sep) >= _DEEPEST:
                folders.clear()
            found += [os.path.join(where, name) for name in names if "tfevents" in name]
        return sorted(path for path in found if os.path.isfile(path) and not os.path.islink(path))[:_MOST_FILES]

    def _records(self, path: str) -> Iterator[bytes]:
        """Whole records from where the last look ended."""
        offset = self._offsets.get(path, 0)
        if offset < 0:
            return
        with open_regular(path) as file:
            file.seek(offset)
            until = offset + _READ_BYTES
            while offset < until:
                head = file.read(_HEAD)
                if len(head) < _HEAD:
                    return
                (length,) = struct.unpack("<Q", head[:8])
                if length > _LONGEST_RECORD:
                    raise ValueError(path)
                rest = file.read(length + _TAIL)
                if len(rest) < length + _TAIL:
                    return
                offset += _HEAD + length + _TAIL
                self._offsets[path] = offset
                yield rest[:length]


def scalars_of(record: bytes) -> list[dict[str, object]]:
    """The scalars in one `Event` message, as `{"key", "value", "step", "time"}`; time in seconds since 1970.

    Raises `ValueError` or `struct.error` when it is no such message.
    """
    facts: dict[str, object] = {"step": 0}
    values: list[tuple[str, float]] = []
    for field, value in _fields(record):
        if field == 1 and isinstance(value, bytes):
            facts["time"] = struct.unpack("<d", value)[0]
        elif field == 2 and isinstance(value, int):
            facts["step"] = value
        elif field == 5 and isinstance(value, bytes):
            values += [found for part, one in _fields(value) if part == 1 and (found := _scalar(one))]
    return [{"key": key, "value": value, **facts} for key, value in values]


def _scalar(message: int | bytes) -> tuple[str, float] | None:
    """Tag and number of a summary's value; `None` for histograms, images and the like."""
    if not isinstance(message, bytes):
        raise ValueError("no message")
    tag, number = "", None
    for field, value in _fields(message):
        if field == 1 and isinstance(value, bytes):
            tag = value.decode("utf-8", "replace")
        elif field == 2 and isinstance(value, bytes):
            number = struct.unpack("<f", value)[0]
        elif field == 8 and isinstance(value, bytes):
            number = _of_tensor(value)
    return (tag, number) if tag and number is not None else None


def _of_tensor(message: bytes) -> float | None:
    """The number of a tensor that holds one of float or double."""
    kind, content, packed = 0, b"", b""
    for field, value in _fields(message):
        if field == 1 and isinstance(value, int):
            kind = value
        elif field == 4 and isinstance(value, bytes):
            content = value
        elif field in (5, 6) and isinstance(value, bytes):
            packed += value
    code, size = {_FLOAT: ("<f", 4), _DOUBLE: ("<d", 8)}.get(kind, ("", 0))
    data = content or packed
    return float(struct.unpack(code, data)[0]) if code and len(data) == size else None


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and content of each field of a message; numbers of fixed width as their bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = _varint(message, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at + size > len(message):
            raise ValueError("cut off")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if at >= len(message):
            raise ValueError("cut off")
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("no number")
