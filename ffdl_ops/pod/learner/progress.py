"""Watches what the program writes of its progress: the progress file and FfDL's file of evaluation metrics."""

from __future__ import annotations

import json
import os
import threading

__all__ = ["Progress"]

_POLL_S = 1.0


class Progress:
    """Echoes the program's progress into its output, as events."""

    def __init__(self, learner, output):  # type: ignore[no-untyped-def]
        self._output = output
        self._path = os.path.join(learner.state_dir, "progress-%d.json" % learner.learner_id)
        self._metrics = _metrics_file(learner)
        self._offset = 0
        self._seen = ""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.step = None  # type: int | None

    def start(self):  # type: () -> None
        """Begin to watch."""
        self._thread.start()

    def stop(self):  # type: () -> None
        """Look a last time and end."""
        self._done.set()
        self._thread.join(timeout=2.0)
        self._look()

    def _watch(self):  # type: () -> None
        while not self._done.wait(_POLL_S):
            self._look()

    def _look(self):  # type: () -> None
        try:
            with open(self._path, encoding="utf-8") as file:
                text = file.read(65536)
        except OSError:
            text = self._seen
        if text != self._seen:
            self._seen = text
            try:
                value = json.loads(text)
                self.step = int(value["step"])
                self._output.event("progress", value)
            except (ValueError, KeyError, TypeError):
                pass
        if self._metrics:
            self._tail()

    def _tail(self):  # type: () -> None
        try:
            with open(self._metrics, "rb") as file:
                file.seek(self._offset)
                data = file.read(1 << 20)
        except OSError:
            return
        end = data.rfind(b"\n") + 1
        self._offset += end
        for line in data[:end].splitlines():
            try:
                self._output.event("metric", json.loads(line.decode("utf-8", "replace")))
            except ValueError:
                continue


def _metrics_file(learner):  # type: ignore[no-untyped-def]
    """The file that `emetrics_file` names, with the environment's variables in its path; none for other types."""
    try:
        spec = json.loads(learner.env.get("FFDL_METRICS_SPEC") or "null")
    except ValueError:
        return None
    if not spec or spec.get("type") != "emetrics_file":
        return None
    path = spec.get("in") or "$LOG_DIR/evaluation-metrics.txt"
    for name, value in learner.env.items():
        path = path.replace("${%s}" % name, value).replace("$%s" % name, value)
    return path
