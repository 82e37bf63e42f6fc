"""A program's output as lines: whatever bytes come, in whatever pieces.

A progress bar, which writes over itself with carriage returns, becomes a line per second with its latest state. Text that
waits for its line's end is passed on after a second of silence. A line longer than 64 KiB is split. What is no UTF-8 is
replaced; colours and other control characters are left out.
"""

from __future__ import annotations

import re

__all__ = ["LONGEST_BYTES", "LineSplitter"]

LONGEST_BYTES = 64 * 1024

_WAIT_S = 1.0
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# All that a reader might take for a line's end, and what a terminal would act on.
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


class LineSplitter:
    """Turns chunks of output into lines. `now` is a monotonic time in seconds."""

    def __init__(self) -> None:
        self._rest = b""
        self._since = 0.0
        self._last = 0.0

    @property
    def waits(self) -> bool:
        """Whether a line without an end is held back."""
        return bool(self._rest)

    def feed(self, data: bytes, now: float) -> list[str]:
        """Take a chunk; the lines that it completes."""
        if not self._rest:
            self._since = now
        self._last = now
        parts = (self._rest + data).split(b"\n")
        self._rest = parts.pop()
        if parts:
            self._since = now
        lines = [line for part in parts for line in _lines(part)]
        if len(self._rest) > LONGEST_BYTES:
            *whole, self._rest = _pieces(self._rest)
            lines += [_text(piece) for piece in whole]
        return lines + self.due(now)

    def due(self, now: float) -> list[str]:
        """What has waited long enough for its line's end."""
        bar = b"\r" in self._rest[:-1]
        if not self._rest or now - (self._since if bar else self._last) < _WAIT_S:
            return []
        return self.close()

    def close(self) -> list[str]:
        """What is left, the output being at its end."""
        rest, self._rest = self._rest, b""
        return _lines(rest) if rest else []


def _lines(raw: bytes) -> list[str]:
    """One raw line as lines of text: its last state, if it was written over, in pieces if it is very long."""
    if b"\r" in raw:
        states = [state for state in raw.split(b"\r") if state.strip()]
        raw = states[-1] if states else b""
    return [_text(piece) for piece in _pieces(raw)]


def _pieces(raw: bytes) -> list[bytes]:
    pieces = []
    while len(raw) > LONGEST_BYTES:
        end = LONGEST_BYTES
        while end > LONGEST_BYTES - 4 and raw[end] & 0xC0 == 0x80:
            end -= 1
        pieces.append(raw[:end])
        raw = raw[end:]
    return [*pieces, raw]


def _text(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    if text.isprintable():
        return text
    return _CONTROL.sub("", _COLOURS.sub("", text))
