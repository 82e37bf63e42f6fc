"""A learner's log: each line with its own time stamp and its learner, to the pod's standard output and to a file.

The same lines go to both, so that whatever reads one has read the other. Neither can stop the training: a file that can't be
written (a full disk) is warned of once and tried again; standard output that no one takes holds the program for at most five
seconds, after which lines are left out there (never in the file) until it moves again.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections import deque

from ffdl_ops.pod.learner.files import open_to_write

__all__ = ["Log", "stamp"]

_TAIL_LINES = 400
_TAIL_CHARS = 4096
_QUEUE_BYTES = 4 * 1024 * 1024
_PATIENCE_S = 5.0
_END_PATIENCE_S = 5.0


class Log:
    """Where a learner's lines go; threads may share it.

    :param out: the descriptor of standard output.
    """

    def __init__(self, learner_id: int, path: str, out: int = 1) -> None:
        self._prefix = f"[learner {learner_id}] "
        self._lock = threading.Lock()
        self._last_us = 0
        self.tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._file = _File(path)
        self._out = _StandardOutput(out)

    def lines(self, texts: list[str]) -> None:
        """Write lines of the program's output."""
        if not texts:
            return
        self.tail.extend(text[:_TAIL_CHARS] for text in texts)
        self._write(texts)

    def event(self, name: str, value: dict[str, object]) -> None:
        """Write one structured line of the launcher's own."""
        self._write([f"ffdl:{name} {json.dumps(value)}"])

    def say(self, text: str) -> None:
        """Write one line of the launcher's own, for people."""
        self._write([f"launcher: {text}"])

    def start(self) -> None:
        """Write to standard output by a thread from now on; before, a line is written where it is said."""
        self._out.start()

    def close(self) -> None:
        """Give standard output a last moment to take what waits for it."""
        self._out.close()

    def _write(self, texts: list[str]) -> None:
        with self._lock:
            data = self._stamped(texts)
            error = self._file.write(data, len(texts))
            if error:
                data += self._stamped([f"launcher: {error}"])
            left_out = self._out.left_out()
            if left_out:
                text = f"launcher: {left_out} lines were left out here, since no one took them; the log file has them"
                data = self._stamped([text]) + data
            self._out.write(data, len(texts))

    def _stamped(self, texts: list[str]) -> bytes:
        """Lines with their time stamps, of which no two are the same, so that a reader's cursor can tell lines apart."""
        now = max(time.time_ns() // 1000, self._last_us + 1)
        self._last_us = now + len(texts) - 1
        text = "".join(f"{stamp(now + index)} {self._prefix}{line}\n" for index, line in enumerate(texts))
        return text.encode("utf-8", "replace")


def stamp(microseconds: int) -> str:
    """A moment (microseconds since the epoch) in ISO 8601, UTC."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:06d}Z"


class _File:
    """The log file. It is opened again after an error, since a full disk may have room later."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self._missing = 0
        self._warned = False

    def write(self, data: bytes, count: int) -> str | None:
        """Append lines; returns what to tell when they can't be, once."""
        try:
            if self._descriptor < 0:
                self._descriptor = open_to_write(self._path, os.O_APPEND)
            note = f"\n({self._missing} lines are missing here: they could not be written)\n" if self._missing else ""
            _write_all(self._descriptor, note.encode() + data)
            self._missing = 0
            return None
        except OSError as error:
            self._missing += count
            self._close()
            if self._warned:
                return None
            self._warned = True
            return f"the log file can't be written, the training goes on without it: {error}"

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)


class _StandardOutput:
    """Standard output behind a bounded queue, which a thread empties once it was started."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._queue: deque[bytes] = deque()
        self._waiting = 0
        self._left_out = 0
        self._stuck = False
        self._closed = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._empty, daemon=True)
        self._thread.start()

    def write(self, data: bytes, count: int) -> None:
        """Queue lines; waits a bounded time for room, and leaves them out when there is none."""
        if self._thread is None:
            self._put(data)
            return
        with self._changed:
            patience = 0.0 if self._stuck else _PATIENCE_S
            self._stuck = not self._changed.wait_for(lambda: self._waiting < _QUEUE_BYTES, patience)
            if self._stuck:
                self._left_out += count
                return
            self._queue.append(data)
            self._waiting += len(data)
            self._changed.notify_all()

    def left_out(self) -> int:
        """How many lines were left out, once there is room to say so; 0 otherwise."""
        with self._changed:
            if not self._left_out or self._waiting >= _QUEUE_BYTES:
                return 0
            count, self._left_out = self._left_out, 0
            return count

    def close(self) -> None:
        """Wait a bounded time until all is written."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._waiting, _END_PATIENCE_S)

    def _empty(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._queue) or self._closed)
                if not self._queue:
                    return
                data = self._queue.popleft()
            self._put(data)
            with self._changed:
                self._waiting -= len(data)
                self._changed.notify_all()

    def _put(self, data: bytes) -> None:
        # When no one reads any more, the file has it all, and the training goes on.
        with contextlib.suppress(OSError):
            _write_all(self._descriptor, data)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
