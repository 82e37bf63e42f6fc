"""Philly's `cluster_job_log`, as Microsoft publishes it (github.com/msr-fiddle/philly-traces): a JSON list of jobs.

A job is ``{status, vc, jobid, submitted_time, user, attempts: [{start_time, end_time, detail: [{ip, gpus}]}]}``. What is
not known is the *string* "None" (or null). A job without attempts never ran; one whose last attempt has no end was running
when the log was taken. An attempt in the middle may lack its start or its end.

Definitions are those of the study (Jeon et al., ATC'19): a job's size is the number of GPUs of its first attempt, its run time
is from its first attempt's start to its last one's end, and it waits before each attempt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ffdl_ops.lab.traces.reading import Fields, TraceError, opened
from ffdl_ops.lab.traces.records import TraceJob

__all__ = ["Attempt", "read_log"]

_BLANK = " \t\r\n"


@dataclass(frozen=True)
class Attempt:
    """One try of a job; moments are ``None`` when the log does not know them."""

    start: datetime | None
    end: datetime | None
    servers: tuple[int, ...]

    @property
    def seconds(self) -> float | None:
        """How long it ran."""
        return None if self.start is None or self.end is None else (self.end - self.start).total_seconds()


def read_log(path: Path | str) -> list[TraceJob]:
    """All jobs of the log, in its order."""
    return [_job(record) for record in _records(path)]


def _job(record: Fields) -> TraceJob:
    submitted = record.moment("submitted_time")
    attempts = [_attempt(one) for one in record.records("attempts")]
    first, last = (attempts[0], attempts[-1]) if attempts else (None, None)
    span = None
    if first and last and first.start and last.end:
        span = (last.end - first.start).total_seconds()
        if span < 0:
            raise record.wrong("attempts", "in order: the last one's end is before the first one's start")
    parts = [attempt.seconds for attempt in attempts]
    known = [part for part in parts if part is not None]
    return TraceJob(
        job_id=record.text("jobid"),
        tenant=record.optional_text("vc"),
        user=record.optional_text("user"),
        submitted_at=submitted,
        gpus=sum(first.servers) if first else 0,
        servers=first.servers if first else (),
        span_s=span,
        run_s=sum(known) if attempts and len(known) == len(parts) else None,
        status=record.optional_text("status"),
        waits_s=tuple(_waits(submitted, attempts)),
    )


def _attempt(record: Fields) -> Attempt:
    servers = []
    for place in record.records("detail"):
        gpus = place.values.get("gpus")
        if not isinstance(gpus, list):
            raise place.wrong("gpus", "a list")
        servers.append(len(gpus))
    return Attempt(record.optional_moment("start_time"), record.optional_moment("end_time"), tuple(servers))


def _waits(submitted: datetime, attempts: list[Attempt]) -> Iterator[float]:
    since: datetime | None = submitted
    for attempt in attempts:
        if since is not None and attempt.start is not None:
            yield (attempt.start - since).total_seconds()
        since = attempt.end


def _records(path: Path | str) -> Iterator[Fields]:
    """The list's members one by one, so that each is known by the line it begins on."""
    with opened(path) as file:
        text = file.read()
    decoder = json.JSONDecoder()
    line, at = 1, 0

    def skip(marks: str, wanted: str) -> str:
        """Go to the next character that is not blank; it must be one of `marks`."""
        nonlocal line, at
        while at < len(text) and text[at] in _BLANK:
            line += text[at] == "\n"
            at += 1
        if at >= len(text) or (marks and text[at] not in marks):
            found = repr(text[at]) if at < len(text) else "the file's end"
            raise TraceError(f"{path}, line {line}: {found} where {wanted} should be.")
        return text[at]

    skip("[", "a list of jobs")
    at += 1
    if skip("", "a job") == "]":
        return
    while True:
        skip("{", "a job")
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise TraceError(f"{path}, line {error.lineno}: {error.msg}.") from None
        yield Fields(path, line, value)
        line += text.count("\n", at, end)
        at = end
        if skip(",]", "a comma or the list's end") == "]":
            return
        at += 1
