"""The exit report: what a learner knows of its own end, as evidence for the failure's class."""

from __future__ import annotations

import json
import os

__all__ = ["last_traceback", "out_of_memory", "write_report"]

_TERMINATION_BYTES = 4096
_OOM_WORDS = ("CUDA out of memory", "OutOfMemoryError", "MemoryError", "std::bad_alloc", "Cannot allocate memory")
_CGROUP_EVENTS = "/sys/fs/cgroup/memory.events"


def write_report(learner, output, facts):  # type: ignore[no-untyped-def]
    """Write the report to the logs and to the pod's termination message; returns the exit code."""
    failed = facts["exit_code"] not in (0, 143)
    report = {
        "exit_code": facts["exit_code"],
        "signal": facts.get("signal"),
        "oom": out_of_memory(output.tail if failed else ()),
        "peak_rss_bytes": facts.get("peak_rss_bytes"),
        "last_traceback": last_traceback(output.tail) if failed else None,
        "duration_s": facts.get("duration_s"),
        "step": facts.get("step"),
        "terminated_by_platform": facts.get("terminated_by_platform", False),
    }
    if facts.get("reason"):
        report["reason"] = facts["reason"]
    output.event("exit", report)
    _write(os.path.join(learner.log_dir, "learner-%d.exit.json" % learner.learner_id), json.dumps(report))
    if learner.termination_log:
        _write(learner.termination_log, _short(report))
    return int(facts["exit_code"])


def last_traceback(lines):  # type: ignore[no-untyped-def]
    """The last Python traceback in the output, with its final message; ``None`` when there is none."""
    lines = list(lines)
    for index in range(len(lines) - 1, -1, -1):
        if lines[index].startswith("Traceback (most recent call last)"):
            end = index + 1
            while end < len(lines) and lines[end].startswith((" ", "\t")):
                end += 1
            return "\n".join(lines[index : end + 1])
    return None


def out_of_memory(lines):  # type: ignore[no-untyped-def]
    """Whether the output or the container's own counters tell of exhausted memory."""
    if any(word in line for line in lines for word in _OOM_WORDS):
        return True
    try:
        with open(_CGROUP_EVENTS) as file:
            return any(line.startswith("oom_kill ") and int(line.split()[1]) > 0 for line in file)
    except (OSError, ValueError, IndexError):
        return False


def _short(report):  # type: (dict[str, object]) -> str
    """The report within a termination message's size: the traceback loses its beginning first."""
    report = dict(report)
    while len(json.dumps(report).encode()) > _TERMINATION_BYTES and report.get("last_traceback"):
        report["last_traceback"] = str(report["last_traceback"])[-len(str(report["last_traceback"])) // 2 :][1:]
    return json.dumps(report)


def _write(path, text):  # type: (str, str) -> None
    temporary = "%s.%d.tmp" % (path, os.getpid())
    try:
        with open(temporary, "w") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        try:
            with open(path, "w") as file:
                file.write(text)
        except OSError:
            pass
