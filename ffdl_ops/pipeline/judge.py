"""Whether a gang goes on, has succeeded or has ended: a pure reading of its pods at one moment.

A gang is one thing. It has started when all its learners run, it has succeeded when every one of them exited 0, and the
first learner that ends in any other way ends the attempt of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from ffdl_ops.adapters.cluster.observe import PodView, evidence_of, gone_evidence
from ffdl_ops.core.failures.evidence import LearnerEvidence

if TYPE_CHECKING:
    from ffdl_ops.core.platform import Timeouts

__all__ = ["Expected", "GangState", "Verdict", "judge"]

_UNREACHABLE_REASONS = frozenset({"NodeLost", "NodeShutdown", "Terminated"})


class GangState(StrEnum):
    """What the gang's pods amount to."""

    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    ENDED = "ended"


@dataclass(frozen=True)
class Expected:
    """A pod that the ledger says is this attempt's.

    :param uid: its identity; another pod of the same name is not this one.
    """

    pod: str
    uid: str
    node: str | None


@dataclass(frozen=True)
class Verdict:
    """What the gang is, and why.

    :param detail: one line for a person.
    :param evidence: every learner's end, when the gang has ended.
    """

    state: GangState
    detail: str
    evidence: tuple[LearnerEvidence, ...] = ()


def judge(
    views: Sequence[PodView],
    expected: Mapping[int, Expected],
    *,
    started_at: datetime,
    now: datetime,
    timeouts: Timeouts,
) -> Verdict:
    """Judge one attempt by its pods.

    :param views: the attempt's pods as the cluster shows them now.
    :param expected: by rank, the pods that were created for it.
    :param started_at: when the attempt was granted its nodes: waiting before that never counts as start-up.
    :param now: the present moment.
    """
    by_rank = {view.rank: view for view in views}
    gone = [rank for rank, pod in expected.items() if rank not in by_rank or (pod.uid and by_rank[rank].uid != pod.uid)]
    present = [by_rank[rank] for rank in sorted(expected) if rank not in gone]
    failed = [view for view in present if _ended_badly(view)]
    if failed or gone:
        evidence = [evidence_of(view) for view in present]
        evidence += [gone_evidence(rank, expected[rank].pod, expected[rank].node) for rank in gone]
        names = ", ".join([view.name for view in failed] + [expected[rank].pod for rank in gone])
        return Verdict(GangState.ENDED, f"ended: {names}", tuple(evidence))
    if all(view.succeeded for view in present):
        return Verdict(GangState.SUCCEEDED, f"all {len(present)} learners exited 0")
    waited_s = (now - started_at).total_seconds()
    stuck = _stuck(present, waited_s, timeouts)
    if stuck:
        return Verdict(GangState.ENDED, stuck, tuple(evidence_of(view) for view in present))
    up = [view for view in present if view.running or view.ended]
    if len(up) == len(expected):
        return Verdict(GangState.RUNNING, f"{len(up)} of {len(expected)} learners run")
    return Verdict(GangState.STARTING, f"{len(up)} of {len(expected)} learners run; {_why(present)}")


def _ended_badly(view: PodView) -> bool:
    """Whether this pod's end is the gang's; a pod whose node no longer answers has ended for us."""
    if view.phase == "Failed" or view.failed_init is not None:
        return True
    if view.pod_reason in _UNREACHABLE_REASONS:
        return True
    return view.ended and not view.succeeded


def _stuck(present: Sequence[PodView], waited_s: float, timeouts: Timeouts) -> str | None:
    """Why the gang will not start, once it has had its time. A pod that runs is never judged by the clock."""
    waiting = [view for view in present if not view.running and not view.ended]
    if not waiting:
        return None
    for view in waiting:
        if view.waiting_is_image and waited_s > timeouts.image_seconds:
            return f"{view.name}: {view.waiting} for {waited_s:.0f} s"
        if view.unschedulable and waited_s > timeouts.unschedulable_seconds:
            return f"{view.name} is not placed after {waited_s:.0f} s: {view.unschedulable}"
    if waited_s > timeouts.startup_seconds:
        return f"not started within {timeouts.startup_seconds} s: {_why(waiting)}"
    return None


def _why(present: Sequence[PodView]) -> str:
    """What the pods that do not run yet wait for."""
    reasons = {
        view.waiting or view.unschedulable or ("starting" if view.node else "being placed")
        for view in present
        if not view.running and not view.ended
    }
    return "; ".join(sorted(reasons)) or "starting"
