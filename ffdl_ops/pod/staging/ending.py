"""How the learners of an attempt ended, from the exit reports that their launchers left."""

from __future__ import annotations

import glob
import os
import signal
import time

from ffdl_ops.pod.staging.files import read_json
from ffdl_ops.pod.staging.spec import StageSpec
from ffdl_ops.pod.staging.stability import Ending

__all__ = ["ending_of"]

_QUIET_S = 5.0


def ending_of(spec: StageSpec, *, last: bool) -> Ending | None:
    """How the attempt's learners ended; ``None`` while all go on.

    A learner that left no report was killed; the time of its end is then that of the last line that any learner logged.

    :param last: whether no learner lives any more.
    """
    logs = os.path.join(spec.job_dir, "logs", f"attempt-{spec.attempt}")
    crashes: list[int] = []
    reports = 0
    for path in glob.glob(os.path.join(glob.escape(logs), "learner-*.exit.json")):
        report = read_json(path)
        reports += 1
        if not _is_orderly(report):
            crashes.append(_mtime_ns(path))
    quiet_ns = int(max(_QUIET_S, 2 * spec.checkpoint.interval_s) * 1e9)
    if not last:
        return Ending(min(crashes), False, quiet_ns, last=False) if crashes else None
    if reports >= spec.learners and not crashes:
        return Ending(time.time_ns(), True, quiet_ns, last=True)
    if reports < spec.learners:
        lines = glob.glob(os.path.join(glob.escape(logs), "learner-*.log"))
        crashes.append(max(map(_mtime_ns, lines), default=time.time_ns()))
    return Ending(min(crashes), False, quiet_ns, last=True)


def _is_orderly(report: object) -> bool:
    """Whether the program ended with success, or on a SIGTERM in its own time (143), not by a SIGKILL or for memory.

    A program that has no handler for SIGTERM ends with 143 too, and could be writing at that moment: only a file whose format
    tells nothing can then be taken for whole while it is not.
    """
    if not isinstance(report, dict) or report.get("oom") or report.get("killed_after_grace"):
        return False
    return report.get("exit_code") in (0, 143) and report.get("signal") in (None, 0, signal.SIGTERM)


def _mtime_ns(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return time.time_ns()
