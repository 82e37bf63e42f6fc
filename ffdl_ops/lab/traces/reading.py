"""Reading a trace's files strictly: what is not as it should be is named by file, line, field and value."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from ffdl_ops.core.errors import UserError

__all__ = ["Fields", "TraceError", "csv_rows", "opened"]

MISSING = frozenset({"", "None"})
"""What stands for a value that is not known; the Philly job log has the string "None"."""
_EXIT_DATA = 65


class TraceError(UserError):
    """A trace's file is not as its format says."""

    code = _EXIT_DATA


class Fields:
    """One record's values by name; a value that is not what it should be raises :class:`TraceError`.

    :param line: the line of the file that the record begins on, from 1.
    :param path: what the record is a part of, put before its fields' names in messages ("attempts[0].").
    """

    def __init__(self, file: Path | str, line: int, values: Mapping[str, Any], path: str = "") -> None:
        self.file, self.line, self.values, self.path = file, line, values, path

    def text(self, name: str) -> str:
        """A text that is there."""
        value = self.values.get(name)
        if not isinstance(value, str) or value in MISSING:
            raise self.wrong(name, "a text")
        return value

    def optional_text(self, name: str) -> str:
        """A text, empty when there is none."""
        value = self.values.get(name)
        return "" if value is None or value in MISSING else self.text(name)

    def whole(self, name: str, least: int = 0) -> int:
        """A whole number, at least so large."""
        try:
            value = int(self.values.get(name) or "")
        except (TypeError, ValueError):
            raise self.wrong(name, "a whole number") from None
        if value < least:
            raise self.wrong(name, f"a whole number of at least {least}")
        return value

    def seconds(self, name: str) -> float:
        """A duration of 0 or more."""
        try:
            value = float(self.values.get(name) or "")
        except (TypeError, ValueError):
            raise self.wrong(name, "a number of seconds") from None
        if not 0 <= value < float("inf"):
            raise self.wrong(name, "a number of seconds of at least 0")
        return value

    def optional_seconds(self, name: str) -> float | None:
        """A duration, ``None`` when it is not known."""
        return None if self.is_missing(name) else self.seconds(name)

    def moment(self, name: str) -> datetime:
        """A moment; traces give none of them a time zone, and all are taken as UTC."""
        try:
            return datetime.strptime(self.values.get(name) or "", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        except (TypeError, ValueError):
            raise self.wrong(name, "a time as YYYY-MM-DD HH:MM:SS") from None

    def optional_moment(self, name: str) -> datetime | None:
        """A moment, ``None`` when it is not known."""
        return None if self.is_missing(name) else self.moment(name)

    def records(self, name: str) -> list[Fields]:
        """A list of records, perhaps empty."""
        value = self.values.get(name)
        if not isinstance(value, list):
            raise self.wrong(name, "a list")
        found = [Fields(self.file, self.line, one, f"{self.path}{name}[{at}].") for at, one in enumerate(value)]
        for at, one in enumerate(found):
            if not isinstance(one.values, Mapping):
                raise self.wrong(f"{name}[{at}]", "a record", one.values)
        return found

    def is_missing(self, name: str) -> bool:
        """Whether the value is not known."""
        value = self.values.get(name)
        return value is None or (isinstance(value, str) and value in MISSING)

    def wrong(self, name: str, expected: str, value: Any = ...) -> TraceError:
        """The error for a value that is not what it should be."""
        if value is ...:
            value = self.values.get(name)
        said = "is missing" if value is None else f"is {_short(value)}"
        return TraceError(f"{self.file}, line {self.line}, field {self.path}{name} {said}; it must be {expected}.")


@contextmanager
def opened(path: Path | str) -> Iterator[TextIO]:
    """A text file, unpacked if its name ends in ``.gz``."""
    try:
        with _open(path) as file:
            yield file
    except FileNotFoundError:
        raise TraceError(f"{path}: there is no such file.") from None
    except IsADirectoryError:
        raise TraceError(f"{path} is a directory; name the trace's file.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise TraceError(f"{path} can't be read to its end: {error}.") from error


def csv_rows(path: Path | str, columns: Iterable[str]) -> Iterator[Fields]:
    """A table's rows; its header must have these columns, and each row as many values as the header."""
    with opened(path) as file:
        reader = csv.DictReader(file)
        try:
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise TraceError(f"{path}, line 1: the header lacks {', '.join(missing)}.")
            for row in reader:
                fields = Fields(path, reader.line_num, row)
                if None in row:
                    raise TraceError(f"{path}, line {reader.line_num}: more values than the header has columns.")
                yield fields
        except csv.Error as error:
            raise TraceError(f"{path}, line {reader.line_num}: {error}.") from error


def _open(path: Path | str) -> TextIO:
    if str(path).endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return open(path, encoding="utf-8", newline="")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
