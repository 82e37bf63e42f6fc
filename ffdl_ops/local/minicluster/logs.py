"""Containers' logs: read whole or in part, followed, with or without time stamps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

__all__ = ["read_log", "tail_of"]

_POLL_S = 0.1


def tail_of(path: Path, size: int) -> str:
    """The last bytes of a log, without time stamps."""
    try:
        data = path.read_bytes()
    except OSError:
        return ""
    lines = [line.partition(b" ")[2] for line in data.splitlines()]
    return b"\n".join(lines)[-size:].decode("utf-8", "replace")


async def read_log(
    path: Path,
    *,
    follow: bool = False,
    ended: Callable[[], bool] = lambda: True,
    timestamps: bool = False,
    since: datetime | None = None,
    tail: int | None = None,
) -> AsyncIterator[bytes]:
    """A log's lines, in chunks; with `follow`, until the container has ended."""
    since_text = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").encode() if since else b""
    offset, rest, first = 0, b"", True
    while True:
        over = ended()
        try:
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read(1 << 20)
        except OSError:
            data = b""
        offset += len(data)
        rest += data
        *lines, rest = rest.split(b"\n")
        if first and tail is not None and len(data) < 1 << 20:
            lines = lines[-tail:] if tail else []
        first = first and not data
        chosen = [line if timestamps else line.partition(b" ")[2] for line in lines if line[:26] >= since_text]
        if chosen:
            yield b"\n".join(chosen) + b"\n"
        if not data:
            if not follow or over:
                return
            await asyncio.sleep(_POLL_S)


def since_of(since_seconds: str | None, since_time: str | None) -> datetime | None:
    """The moment that a request's `sinceSeconds` or `sinceTime` names."""
    if since_time:
        return datetime.fromisoformat(since_time.replace("Z", "+00:00"))
    return datetime.now(UTC) - timedelta(seconds=int(since_seconds)) if since_seconds else None
