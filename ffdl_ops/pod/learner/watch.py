"""What a thread looks at each second while the program runs: its progress, its metrics, and its memory."""

from __future__ import annotations

import json
import threading

from ffdl_ops.pod.learner.emetrics import MetricsFile, metrics_place_of
from ffdl_ops.pod.learner.environment import Learner
from ffdl_ops.pod.learner.files import open_regular
from ffdl_ops.pod.learner.logs import Log
from ffdl_ops.pod.learner.memory import count_oom_kills
from ffdl_ops.pod.learner.processes import resident_bytes
from ffdl_ops.pod.learner.tfevents import EventFiles

__all__ = ["Progress", "Watch"]

_POLL_S = 1.0
_LONGEST_BYTES = 64 * 1024


class Progress:
    """The program's progress file. What an earlier attempt left there is no progress of this one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen = self._read()
        self.step: int | None = None

    def news(self) -> dict[str, object] | None:
        """What the program has newly written, if it is a whole object with a `step`."""
        text = self._read()
        if text == self._seen:
            return None
        try:
            value = json.loads(text)
            self.step = int(value["step"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            # Half-written: a program need not rename it into place. The next look finds it whole.
            return None
        self._seen = text
        return dict(value)

    def _read(self) -> str:
        try:
            with open_regular(self._path) as file:
                return file.read(_LONGEST_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""


class Watch:
    """Looks at the program each second and echoes what it tells into the log.

    Make it before the program starts: what is there by then is not the program's.
    """

    def __init__(self, learner: Learner, log: Log) -> None:
        self._log = log
        self._progress = Progress(learner.progress_path)
        self._metrics: list[MetricsFile | EventFiles] = []
        if path := metrics_place_of(learner.env, "emetrics_file"):
            self._metrics.append(MetricsFile(path))
        if path := metrics_place_of(learner.env, "tensorboard"):
            self._metrics.append(EventFiles(path))
        self._oom_kills_before = count_oom_kills()
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self.peak_bytes = 0

    @property
    def step(self) -> int | None:
        """The last step of the progress file."""
        return self._progress.step

    def start(self, ancestor: int) -> None:
        """Begin to look; everything of the program is below the process `ancestor`."""
        self._thread = threading.Thread(target=self._look_until_done, args=(ancestor,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look a last time and end; a volume that hangs is not waited for."""
        self._done.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * _POLL_S)

    def oom_kills(self) -> int:
        """How many processes of the container the kernel has killed for memory since this began."""
        return max(0, count_oom_kills() - self._oom_kills_before)

    def _look_until_done(self, ancestor: int) -> None:
        while not self._done.wait(_POLL_S):
            self.peak_bytes = max(self.peak_bytes, resident_bytes(ancestor))
            self._echo()
        self._echo()

    def _echo(self) -> None:
        progress = self._progress.news()
        if progress is not None:
            self._log.event("progress", progress)
        for source in self._metrics:
            for metric in source.news():
                self._log.event("metric", metric)
