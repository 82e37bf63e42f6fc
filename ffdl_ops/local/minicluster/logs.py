"""A container's log, from the form in which the shim keeps it to what ``/log`` answers."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ffdl_ops.local.minicluster.times import parse_time

__all__ = ["LogOptions", "follow", "read", "tail"]

_CHUNK = 1 << 18
_EVERY_S = 0.05


@dataclass(frozen=True)
class LogOptions:
    """What a reader asks for.

    :param timestamps: begin each line with its time.
    :param since: only entries at or after this moment, in seconds since the epoch.
    :param tail: only the last lines.
    :param limit: stop after this many bytes.
    """

    timestamps: bool = False
    since: float | None = None
    tail: int | None = None
    limit: int | None = None


class _Parser:
    """Entries in, output out; an entry that is not whole yet waits."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._rest = b""
        self._within_line = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        *entries, self._rest = (self._rest + data).split(b"\n")
        for entry in entries:
            stamp, _, rest = entry.partition(b" ")
            text = rest[9:]  # after "stdout F "
            whole = rest[7:8] == b"F"
            if self._options.since is not None and _seconds(stamp) < self._options.since:
                self._within_line = not whole
                continue
            out = text + (b"\n" if whole else b"")
            if self._options.timestamps and not self._within_line:
                out = stamp + b" " + out
            self._within_line = not whole
            yield out


def _seconds(stamp: bytes) -> float:
    """The moment of an entry; its nanoseconds are cut to what Python reads."""
    text = stamp.decode()
    return parse_time(text[:26] + "Z" if len(text) > 27 else text)


def read(path: Path, options: LogOptions) -> bytes:
    """What there is. Only the part that is asked for is read, however long the log has become."""
    parser = _Parser(options)
    pieces: list[bytes] = []
    size = 0
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(_start(file, options))
        while (options.tail is not None or options.limit is None or size < options.limit) and (chunk := file.read(_CHUNK)):
            new = list(parser.feed(chunk))
            size += sum(map(len, new))
            pieces += new
    if options.tail is not None:
        pieces = _last_lines(pieces, options.tail)
    return b"".join(pieces)[: options.limit]


def _start(file: BinaryIO, options: LogOptions) -> int:
    """Where reading may begin: before it is nothing that was asked for."""
    size = file.seek(0, os.SEEK_END)
    start = 0 if options.since is None else _before(file, options.since, size)
    return start if options.tail is None else max(start, _tail_start(file, options.tail, size))


def _before(file: BinaryIO, since: float, size: int) -> int:
    """Where the last entry before a moment begins (entries are in the order of their times), found by halving."""
    low, high = 0, size
    while high - low > _CHUNK:
        middle = (low + high) // 2
        file.seek(middle)
        file.readline()
        at = file.tell()
        stamp = file.readline().partition(b" ")[0]
        if at >= high or not stamp or _seconds(stamp) >= since:
            high = middle
        else:
            low = at
    return low


def _tail_start(file: BinaryIO, lines: int, size: int) -> int:
    """Where an entry begins after which there are at least so many lines, or the log's beginning."""
    window = _CHUNK
    while window < size:
        file.seek(size - window)
        file.readline()
        at = file.tell()
        ends = sum(entry.partition(b" stdout ")[2].startswith(b"F") for entry in file.read(size - at).split(b"\n"))
        if ends > lines:
            return at
        window *= 2
    return 0


def _last_lines(pieces: list[bytes], count: int) -> list[bytes]:
    lines: deque[bytes] = deque(maxlen=count)
    current: list[bytes] = []
    for piece in pieces:
        current.append(piece)
        if piece.endswith(b"\n"):
            lines.append(b"".join(current))
            current = []
    if current and count:
        lines.append(b"".join(current))
    return list(lines)


async def follow(path: Path, options: LogOptions, over: Callable[[], bool]) -> AsyncIterator[bytes]:
    """What there is, then what comes. The file is held open: a pod that is deleted meanwhile is still read to its end.

    :param over: whether the container has ended: what has been written by then is still given.
    """
    while not path.exists():
        if over():
            return
        await asyncio.sleep(_EVERY_S)
    with path.open("rb") as file:
        parser = _Parser(options)
        file.seek(await asyncio.to_thread(_start, file, options))
        if options.tail is not None:
            pieces = [piece for chunk in iter(lambda: file.read(_CHUNK), b"") for piece in parser.feed(chunk)]
            yield b"".join(_last_lines(pieces, options.tail))
        while True:
            ended = over()
            if new := file.read(_CHUNK):
                yield b"".join(parser.feed(new))
                await asyncio.sleep(0)  # a long log must not keep the server from its other clients
            elif ended:
                return
            else:
                await asyncio.sleep(_EVERY_S)


def tail(path: Path, lines: int) -> bytes:
    """The last lines of a log."""
    return read(path, LogOptions(tail=lines))
