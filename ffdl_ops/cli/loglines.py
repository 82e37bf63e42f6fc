"""Lines of learners' logs: told apart by learner and time, shown once, in the order of their times."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from ffdl_ops.adapters.tracking.lines import parse_line

__all__ = ["LogFile", "Seen", "as_record", "log_file_of", "merged"]

_FILE = re.compile(r"attempt-(\d+)/learner-(\d+)\.log")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?)Z \[learner (\d{1,6})\] ?", re.ASCII)


class LogFile(tuple[int, int]):
    """Attempt and learner of a stored log."""

    @property
    def attempt(self) -> int:
        """From 1; 0 is a preflight."""
        return self[0]

    @property
    def learner(self) -> int:
        """From 1."""
        return self[1]


def log_file_of(name: str) -> LogFile | None:
    """Which log a name below ``logs/`` is; ``None`` for another file."""
    found = _FILE.fullmatch(name)
    return LogFile((int(found[1]), int(found[2]))) if found else None


def merged(files: Iterable[Path]) -> Iterator[str]:
    """The lines of several learners' logs, in the order of their times; each log keeps its own order."""
    for _, line in heapq.merge(*(_stamped(path) for path in files), key=lambda one: one[0]):
        yield line


class Seen:
    """Lines that were shown already: a log that is read again, from its beginning or some way back, repeats nothing.

    A line is new when its learner has printed nothing later, and not the same at the same microsecond.
    """

    def __init__(self) -> None:
        self._newest: dict[str, tuple[str, set[str]]] = {}

    def is_new(self, line: str) -> bool:
        """Whether the line was not shown; it counts as shown from now on. A line without time stamp always is new."""
        found = _STAMP.match(line)
        if found is None:
            return True
        stamp, learner = found[1], found[2]
        newest, texts = self._newest.get(learner, ("", set()))
        if stamp < newest or (stamp == newest and line in texts):
            return False
        if stamp > newest:
            texts = set()
        texts.add(line)
        self._newest[learner] = (stamp, texts)
        return True


def as_record(line: str) -> dict[str, object]:
    """A line for programs: time, learner and text; the event and its values for a structured line."""
    parsed = parse_line(line)
    if parsed is None:
        return {"time": None, "learner": None, "text": line}
    found = _STAMP.match(line)
    text = line[found.end() :] if found else parsed.text
    moment = datetime.fromtimestamp(parsed.timestamp_ms / 1000, UTC)
    record: dict[str, object] = {"time": moment, "learner": parsed.learner, "text": text}
    if parsed.event is not None:
        record |= {"event": parsed.event, "values": dict(parsed.payload)}
    return record


def _stamped(path: Path) -> Iterator[tuple[str, str]]:
    """Each line with its time, or with that of the line before."""
    stamp = ""
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        for line in file:
            line = line.rstrip("\n")
            found = _STAMP.match(line)
            stamp = found[1] if found else stamp
            yield stamp, line
