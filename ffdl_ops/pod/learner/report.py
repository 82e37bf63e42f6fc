"""The exit report: what a learner knows of its own end, as evidence for the failure's class."""

from __future__ import annotations

import contextlib
import json
import os
import time

from ffdl_ops.pod.learner.environment import Learner
from ffdl_ops.pod.learner.files import open_to_write
from ffdl_ops.pod.learner.logs import Log, stamp

__all__ = ["End", "as_report", "write_report", "write_termination"]

_TERMINATION_BYTES = 4096
_MOST_SIGNALS = 64
_REASON_CHARS = 500


class End:
    """How a learner ended. Times are seconds since the epoch.

    :param exit_code: the launcher's own: the program's, or 143 when it was asked to stop before it ended.
    :param program_exit_code: the program's (128+n for signal n); `None` when it was never started.
    :param peak_rss_bytes: the most resident memory seen, of all its processes together or of the largest.
    :param oom_kills: how many processes of the container the kernel has killed for memory meanwhile.
    :param step: from the progress file.
    :param reason: why the launcher itself ended the learner.
    """

    def __init__(
        self,
        exit_code: int,
        started: float,
        program_exit_code: int | None = None,
        terminated_by_platform: bool = False,
        killed_after_grace: bool = False,
        peak_rss_bytes: int | None = None,
        oom_kills: int = 0,
        step: int | None = None,
        reason: str | None = None,
    ) -> None:
        self.exit_code = exit_code
        self.started = started
        self.program_exit_code = program_exit_code
        self.terminated_by_platform = terminated_by_platform
        self.killed_after_grace = killed_after_grace
        self.peak_rss_bytes = peak_rss_bytes
        self.oom_kills = oom_kills
        self.step = step
        self.reason = reason

    @property
    def signal(self) -> int | None:
        """The signal that ended the program, also when its shell tells it by 128+n."""
        code = self.program_exit_code
        return code - 128 if code is not None and 128 < code <= 128 + _MOST_SIGNALS else None


def write_report(learner: Learner, log: Log, end: End) -> int:
    """Write the report to the log, a file and the pod's termination message; returns the exit code."""
    report = as_report(end, list(log.tail), time.time())
    log.event("exit", report)
    temporary = f"{learner.report_path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(report, file)
        os.replace(temporary, learner.report_path)
    except OSError as error:
        log.say(f"the exit report can't be written: {error}")
    write_termination(learner.termination_log, report)
    log.close()
    return end.exit_code


def as_report(end: End, tail: list[str], now: float) -> dict[str, object]:
    """The report as JSON values.

    `oom` is true when the kernel killed a process of the container for memory, or the program failed with words that say so;
    a SIGKILL alone is no proof.
    """
    # Here, since a program's start shall not wait for what only its end needs.
    from ffdl_ops.pod.learner.lastwords import last_step, last_words, tells_of_memory

    failed = end.program_exit_code not in (None, 0)
    words = last_words(tail) if failed else None
    reason = end.reason
    if reason is None and failed and words is None and tail and not end.terminated_by_platform:
        reason = f"the program's last line: {tail[-1][:_REASON_CHARS]}"
    report: dict[str, object] = {
        "exit_code": end.exit_code,
        "program_exit_code": end.program_exit_code,
        "signal": end.signal,
        "oom": end.oom_kills > 0 or (words is not None and tells_of_memory(words)),
        "peak_rss_bytes": end.peak_rss_bytes,
        "last_traceback": words,
        "duration_s": round(now - end.started, 3),
        "started_at": stamp(int(end.started * 1e6)),
        "ended_at": stamp(int(now * 1e6)),
        "step": end.step if end.step is not None else last_step(tail),
        "terminated_by_platform": end.terminated_by_platform,
        "killed_after_grace": end.killed_after_grace,
    }
    if reason is not None:
        report["reason"] = reason
    return report


def write_termination(path: str, report: dict[str, object]) -> None:
    """Write the pod's termination message, if there is a file for it: at most 4,096 bytes, texts losing their beginnings."""
    if not path:
        return
    report = dict(report)
    text = json.dumps(report)
    while len(text) > _TERMINATION_BYTES:
        # A character takes up to twelve bytes of JSON in ASCII: cutting too much would lose evidence that has room.
        excess = len(text) - _TERMINATION_BYTES
        name = max(("last_traceback", "reason"), key=lambda key: len(str(report.get(key) or "")))
        report[name] = str(report[name])[max(1, excess // 12) :]
        text = json.dumps(report)
    # Written in place: on a cluster the file is a mount of its own, which can't be replaced.
    with contextlib.suppress(OSError), os.fdopen(open_to_write(path, os.O_TRUNC), "w", encoding="ascii") as file:
        file.write(text)
