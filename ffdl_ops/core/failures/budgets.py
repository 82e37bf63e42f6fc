"""How often a gang is started again, by class of failure. What a job has used of its budget is counted in the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ffdl_ops.core.failures.classes import FailureClass
from ffdl_ops.core.failures.classify import Failure

__all__ = ["DEFAULT_BUDGETS", "GiveUp", "Restart", "restart_or_fail"]

DEFAULT_BUDGETS: Mapping[FailureClass, int] = MappingProxyType(
    {
        FailureClass.USER_ERROR: 0,
        FailureClass.OOM: 0,
        FailureClass.IMAGE: 1,
        FailureClass.STARTUP: 2,
        FailureClass.EVICTED: 3,
        FailureClass.PREEMPTED: 100,
        FailureClass.NODE_LOST: 3,
        FailureClass.PLATFORM: 3,
        FailureClass.UNKNOWN: 1,
    }
)
"""Restarts of a job by class, unless its manifest's ``retry`` says otherwise."""

_ELSEWHERE = frozenset({FailureClass.STARTUP, FailureClass.EVICTED, FailureClass.PREEMPTED, FailureClass.NODE_LOST})
_FIRST_DELAY_S: Mapping[FailureClass, float] = {
    FailureClass.IMAGE: 10.0,
    FailureClass.STARTUP: 5.0,
    FailureClass.PLATFORM: 5.0,
    FailureClass.UNKNOWN: 1.0,
}
_MAX_DELAY_S = 60.0


@dataclass(frozen=True)
class Restart:
    """The gang is started again, as one, from its newest complete checkpoint.

    :param keep_lease: whether it may start on the GPUs it holds; else it is admitted anew, elsewhere.
    :param delay_s: seconds to wait before.
    """

    keep_lease: bool
    delay_s: float


@dataclass(frozen=True)
class GiveUp:
    """The job has failed.

    :param reason: why it isn't started again.
    """

    reason: str


def restart_or_fail(
    failure: Failure, past: Mapping[FailureClass, int], overrides: Mapping[FailureClass, int] | None = None
) -> Restart | GiveUp:
    """Whether a gang is started again after a failure.

    :param past: how many *earlier* attempts of the job ended with each class; this one is not among them.
    :param overrides: the manifest's ``retry``.
    """
    cls = failure.cls
    if failure.final:
        return GiveUp("starting again can't help")
    budget = (overrides or {}).get(cls, DEFAULT_BUDGETS[cls])
    used = past.get(cls, 0)
    if used >= budget:
        if budget == 0:
            return GiveUp(f"a failure of class {cls} is not retried (retry.{cls} is 0)")
        return GiveUp(f"{used} of {budget} restarts for class {cls} are used")
    delay_s = min(_FIRST_DELAY_S.get(cls, 0.0) * 2 ** min(used, 10), _MAX_DELAY_S)
    return Restart(keep_lease=cls not in _ELSEWHERE, delay_s=delay_s)
