"""From the shim's entries to what a reader asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ffdl_ops.local.minicluster import logs
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


_LINES = 20_000


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several chunks: 20,000 lines, one a second."""
    entries = []
    for number in range(_LINES):
        stamp = f"2026-01-01T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}.000000001Z"
        if number % 7 == 0:
            entries.append(f"{stamp} stdout P half-")
        entries.append(f"{stamp} stdout F line {number} stdout F {'x' * 50}")
    return log(tmp_path_factory.mktemp("log"), "\n".join(entries).encode() + b"\n")


@pytest.mark.parametrize("since", [None, 0, 1, 999, 9_000, 19_999, 20_000])
@pytest.mark.parametrize("tail_lines", [None, 0, 1, 10, 12_000, 25_000])
def test_a_long_log_answers_as_a_short_one(long_log: Path, since: int | None, tail_lines: int | None) -> None:
    start = parse_time("2026-01-01T00:00:00Z")
    moment = None if since is None else start + since
    wanted = [number for number in range(_LINES) if since is None or number >= since]
    if tail_lines is not None:
        wanted = wanted[-tail_lines:] if tail_lines else []
    got = read(long_log, LogOptions(since=moment, tail=tail_lines)).decode().splitlines()
    assert [int(line.removeprefix("half-").split()[1]) for line in got] == wanted


def test_only_what_is_asked_for_is_read_of_a_long_log(long_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    original = logs._seconds

    def count(stamp: bytes) -> float:
        nonlocal seen
        seen += 1
        return original(stamp)

    monkeypatch.setattr(logs, "_seconds", count)
    read(long_log, LogOptions(since=parse_time("2026-01-01T05:00:00Z"), tail=10, limit=1000))
    assert seen < 5_000
