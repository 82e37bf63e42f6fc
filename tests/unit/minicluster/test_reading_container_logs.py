"""From the shim's entries to what a reader asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ffdl_ops.local.minicluster.logs import LogOptions, follow, read, tail
from ffdl_ops.local.minicluster.times import parse_time

ENTRIES = b"""\
2026-01-01T00:00:01.000000001Z stdout F one
2026-01-01T00:00:02.000000001Z stdout P tw
2026-01-01T00:00:03.000000001Z stdout F o
2026-01-01T00:00:04.000000001Z stdout F 
2026-01-01T00:00:05.000000001Z stdout P end
"""


def log(tmp_path: Path, data: bytes = ENTRIES) -> Path:
    path = tmp_path / "log"
    path.write_bytes(data)
    return path


def test_parts_of_lines_are_joined(tmp_path: Path) -> None:
    assert read(log(tmp_path), LogOptions()) == b"one\ntwo\n\nend"


def test_timestamps_stand_before_whole_lines(tmp_path: Path) -> None:
    lines = read(log(tmp_path), LogOptions(timestamps=True)).split(b"\n")
    assert lines[1] == b"2026-01-01T00:00:02.000000001Z two" and len(lines) == 4


def test_since_tail_and_limit(tmp_path: Path) -> None:
    path = log(tmp_path)
    assert read(path, LogOptions(since=parse_time("2026-01-01T00:00:04Z"))) == b"\nend"
    assert read(path, LogOptions(tail=2)) == b"\nend" and tail(path, 3) == b"two\n\nend"
    assert read(path, LogOptions(tail=0)) == b""
    assert read(path, LogOptions(limit=5)) == b"one\nt"


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path / "none", LogOptions()) == b""


def test_following_gives_everything_once_even_when_entries_are_half_written(tmp_path: Path) -> None:
    path = log(tmp_path, ENTRIES[:60])

    async def run() -> bytes:
        got, over = [], False

        async def write() -> None:
            nonlocal over
            for at in range(60, len(ENTRIES), 7):
                with path.open("ab") as file:
                    file.write(ENTRIES[at : at + 7])
                await asyncio.sleep(0.002)
            over = True

        writer = asyncio.create_task(write())
        async for data in follow(path, LogOptions(), lambda: over):
            got.append(data)
        await writer
        return b"".join(got)

    assert asyncio.run(run()) == b"one\ntwo\n\nend"
