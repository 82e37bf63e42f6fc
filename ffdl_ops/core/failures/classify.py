"""Which of a gang's learners failed first, and why.

The moments at which pods end are known too coarsely to order them, so causes are ranked by what they are. A node that went
away, an eviction and a kill for memory explain why the others then lost their peer; a program's own error does, too. A
learner that complains of a lost peer, and one that this platform stopped, explain nothing.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ffdl_ops.core.failures.classes import FailureClass
from ffdl_ops.core.failures.evidence import LearnerEvidence
from ffdl_ops.core.failures.reasons import (
    ADVICE,
    CONTAINER_REASONS,
    EXIT_CODES,
    HELPER_CODES,
    gpu_memory_text,
    host_memory_text,
    is_consequence,
    of_pod_reason,
)
from ffdl_ops.core.jobs.units import parse_memory

__all__ = ["Failure", "classify"]

_NEAR_LIMIT = 0.9
_SIGABRT, _SIGKILL, _SIGTERM = 134, 137, 143
_SUMMARY = 500
_TAIL = 2000


@dataclass(frozen=True)
class Failure:
    """Why a gang's attempt ended.

    :param cls: its class.
    :param rank: of the learner that failed first; ``None`` when no one learner did.
    :param summary: one line for a person.
    :param advice: what to do about it.
    :param evidence: every learner's end as plain values, the cause first.
    :param final: whether starting again can't help, whatever budget is left (the job's time is up).
    """

    cls: FailureClass
    rank: int | None
    summary: str
    advice: str
    evidence: tuple[dict[str, Any], ...]
    final: bool = False


@dataclass(frozen=True)
class _Cause:
    """What one learner's end says; a higher weight explains more."""

    weight: int
    cls: FailureClass
    text: str
    advice: str = ""
    final: bool = False


_NOTHING = _Cause(0, FailureClass.UNKNOWN, "")

_DEADLINE = 100
_CLUSTER = 90
_VANISHED = 85
_MEMORY = 80
_KILLED = 75
_OWN_ERROR = 70
_CRASH = 68
_NO_START = 60
_SLOW = 30
_NOT_MET = 25
_PEER_LOST = 20
_STOPPED = 10


def classify(evidence: Sequence[LearnerEvidence]) -> Failure:
    """The first cause among a gang.

    :param evidence: how each learner ended, or that it was still running.
    """
    causes = [(_cause(item), item) for item in evidence]
    ordered = sorted(causes, key=lambda pair: (-pair[0].weight, pair[1].rank))
    plain = tuple(_plain(item) for _, item in ordered)
    if not ordered or ordered[0][0].weight == 0:
        advice = ADVICE[FailureClass.UNKNOWN]
        return Failure(FailureClass.UNKNOWN, None, "No learner shows why the attempt ended.", advice, plain)
    cause, first = ordered[0]
    affected = sorted(item.rank for other, item in ordered if other.weight == cause.weight and other.cls is cause.cls)
    who = f"Learner {first.rank + 1}" + (f" (and {len(affected) - 1} more)" if len(affected) > 1 else "")
    where = f" on {first.node}" if first.node else ""
    summary = f"{who}{where}: {cause.text}"[:_SUMMARY]
    return Failure(cause.cls, first.rank, summary, cause.advice or ADVICE[cause.cls], plain, final=cause.final)


def _cause(item: LearnerEvidence) -> _Cause:
    """What one learner's end says about the gang's."""
    if item.pod_reason == "DeadlineExceeded":
        return _Cause(
            _DEADLINE,
            FailureClass.USER_ERROR,
            item.pod_message or "its deadline has passed",
            "Raise `deadline` in the manifest and resume the job: it goes on from its newest checkpoint.",
            final=True,
        )
    by_pod = of_pod_reason(item.pod_reason)
    if by_pod is not None and not (by_pod is FailureClass.EVICTED and item.oom):
        weight = _NO_START if by_pod is FailureClass.STARTUP else _CLUSTER
        return _Cause(weight, by_pod, _said(item.pod_reason, item.pod_message))
    if item.oom or item.container_reason == "OOMKilled":
        return _out_of_memory(item)
    if item.container_reason and item.container_reason.startswith("Init:"):
        return _helper_ended(item)
    if item.container_reason and item.container_reason in CONTAINER_REASONS:
        cls = CONTAINER_REASONS[item.container_reason]
        return _Cause(_NO_START, cls, _said(item.container_reason, item.pod_message))
    if item.exit_code is not None:
        return _exited(item, item.exit_code)
    if item.deleted:
        text = "its pod was deleted by something outside this platform, or went away with its node"
        return _Cause(_VANISHED, FailureClass.EVICTED, text)
    if item.phase == "Failed":
        return _Cause(_KILLED, FailureClass.UNKNOWN, _said(item.pod_reason or "Failed", item.pod_message))
    if item.phase == "Pending":
        return _Cause(_SLOW, FailureClass.STARTUP, "its pod did not start in time" + _after(item.pod_message))
    return _NOTHING


def _exited(item: LearnerEvidence, code: int) -> _Cause:
    """A learner whose container has ended, not for memory as far as the cluster knows."""
    report, words = _report(item), _last_words(item)
    if code == 0:
        if item.phase != "Failed":
            return _NOTHING
        return _Cause(
            _SLOW, FailureClass.PLATFORM, f"its pod failed although the program ended well{_after(item.pod_message)}"
        )
    said = str(report.get("reason") or "")
    alone = said.startswith("rendezvous")
    if alone and code != _SIGTERM:
        return _Cause(_NOT_MET, FailureClass.STARTUP, f"the learners did not find each other{_after(said)}")
    if said.startswith("launcher"):
        # The program never ran: the volume could not be written to, or what the pod told the launcher was wrong.
        return _Cause(_NO_START, FailureClass.PLATFORM, f"the learner's launcher failed{_after(said)}")
    if report.get("terminated_by_platform") is True or alone:
        # Of a gang that fails by itself, another learner explains more; alone, this is a stop from outside.
        text = "was told to stop (SIGTERM) by something outside this platform, like a drain or a deletion"
        return _Cause(_STOPPED, FailureClass.EVICTED, text)
    if gpu_memory_text(words):
        advice = "Lower the batch size or the model's size per GPU, use more GPUs, or a GPU type with more memory."
        return _Cause(_MEMORY, FailureClass.OOM, f"out of GPU memory{_after(_last_line(words))}", advice)
    # The launcher's own word for it may stem from another process in the same memory group: it needs a second sign.
    killed = _killed(item, code)
    if (
        host_memory_text(words)
        or (killed and _near_limit(item))
        or (report.get("oom") is True and (killed or code == _SIGABRT))
    ):
        return _out_of_memory(item)
    if is_consequence(words):
        text = f"lost its connection to another learner{_after(_last_line(words))}"
        return _Cause(_PEER_LOST, FailureClass.UNKNOWN, text)
    if killed or code == _SIGTERM:
        return _Cause(_KILLED, FailureClass.UNKNOWN, f"{_code_text(code)} (exit code {code})")
    last = _last_line(words) or said
    weight = _OWN_ERROR if words else _CRASH
    return _Cause(weight, FailureClass.USER_ERROR, f"{_code_text(code)} (exit code {code}){_after(last)}")


def _out_of_memory(item: LearnerEvidence) -> _Cause:
    limit = f", its limit of {item.memory_limit}" if item.memory_limit else ""
    code = f" (exit code {item.exit_code})" if item.exit_code is not None else ""
    return _Cause(_MEMORY, FailureClass.OOM, f"killed for using more memory than it may{limit}{code}")


def _helper_ended(item: LearnerEvidence) -> _Cause:
    """An init container of the staging helper ended the pod."""
    name = str(item.container_reason).removeprefix("Init:")
    cls, text = HELPER_CODES.get(item.exit_code or 0, (FailureClass.PLATFORM, f"the helper '{name}' failed"))
    text = f"{name}: {text} (exit code {item.exit_code}){_after(item.pod_message)}"
    advice = (
        "Check the manifest's data and code, and the credentials of its data store."
        if cls is FailureClass.USER_ERROR
        else ""
    )
    return _Cause(_OWN_ERROR, cls, text, advice)


def _killed(item: LearnerEvidence, code: int) -> bool:
    return code == _SIGKILL or item.signal == signal.SIGKILL or _report(item).get("signal") == signal.SIGKILL


def _near_limit(item: LearnerEvidence) -> bool:
    """Whether the program's peak memory came close to its limit: the kernel may kill it before the cluster sees why."""
    peak = _report(item).get("peak_rss_bytes")
    try:
        limit = parse_memory(item.memory_limit) if item.memory_limit else 0
    except ValueError:
        return False
    return isinstance(peak, (int, float)) and limit > 0 and peak >= _NEAR_LIMIT * limit


def _code_text(code: int) -> str:
    if code in EXIT_CODES:
        return EXIT_CODES[code]
    if 128 < code < 128 + 65:
        try:
            return f"the program was ended by {signal.Signals(code - 128).name}"
        except ValueError:
            return f"the program was ended by signal {code - 128}"
    return EXIT_CODES[1]


def _report(item: LearnerEvidence) -> Mapping[str, Any]:
    return item.exit_report if isinstance(item.exit_report, Mapping) else {}


def _last_words(item: LearnerEvidence) -> str:
    return str(_report(item).get("last_traceback") or "")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _said(reason: str | None, message: str | None) -> str:
    text = (message or "").strip()
    return text if reason and text.startswith(reason) else f"{reason}{_after(text)}"


def _after(text: str | None) -> str:
    return f": {text.strip()}" if text and text.strip() else ""


def _plain(item: LearnerEvidence) -> dict[str, Any]:
    """One learner's end as JSON values, its traceback cut to the end that matters."""
    report = dict(_report(item))
    if report.get("last_traceback"):
        report["last_traceback"] = str(report["last_traceback"])[-_TAIL:]
    return asdict(replace(item, exit_report=report or None))
