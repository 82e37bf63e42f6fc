"""A learner's output: each line with its own time stamp and its learner, to the pod's log and to a file.

The same lines go to both, so that whatever reads one has read the other. A full disk ends the file, never the training.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
import threading
from collections import deque

__all__ = ["Output"]

_LONGEST = 64 * 1024
_TAIL_LINES = 400
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")


class Output:
    """Where a learner's lines go."""

    def __init__(self, learner_id, path):  # type: (int, str) -> None
        self._prefix = "[learner %d]" % learner_id
        self._lock = threading.Lock()
        self._last = ""
        self.tail = deque(maxlen=_TAIL_LINES)  # type: deque[str]
        try:
            self._file = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115
        except OSError as error:
            self._file = None  # type: ignore[assignment]
            self.line("the log file can't be written: %s" % error)

    def line(self, text):  # type: (str) -> None
        """Write one line of the program's output."""
        text = _CONTROL.sub("", text)
        for start in range(0, max(len(text), 1), _LONGEST):
            self.tail.append(text[start : start + _LONGEST])
            self._write("%s %s" % (self._prefix, text[start : start + _LONGEST]))

    def event(self, name, value):  # type: (str, object) -> None
        """Write one structured line of the launcher's own."""
        self._write("%s ffdl:%s %s" % (self._prefix, name, json.dumps(value)))

    def _write(self, text):  # type: (str) -> None
        with self._lock:
            line = "%s %s\n" % (self._stamp(), text)
            try:
                sys.stdout.write(line)
                sys.stdout.flush()
            except (OSError, ValueError):
                pass
            if self._file is not None:
                try:
                    self._file.write(line)
                except OSError:
                    self._file = None  # type: ignore[assignment]

    def _stamp(self):  # type: () -> str
        """The present moment; never the same twice, so that a reader's cursor can tell lines apart."""
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        stamp = now.isoformat(timespec="microseconds") + "Z"
        if stamp <= self._last:
            last = datetime.datetime.fromisoformat(self._last[:-1])
            stamp = (last + datetime.timedelta(microseconds=1)).isoformat(timespec="microseconds") + "Z"
        self._last = stamp
        return stamp
