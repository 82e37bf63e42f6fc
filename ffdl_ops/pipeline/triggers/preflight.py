"""Waiting for a preflight to show enough, or to fail."""

from __future__ import annotations

from typing import Any

from ffdl_ops.core.jobs.states import TERMINAL
from ffdl_ops.pipeline import preflight
from ffdl_ops.pipeline.services import services
from ffdl_ops.pipeline.triggers.base import LookingTrigger

__all__ = ["PreflightTrigger"]


class PreflightTrigger(LookingTrigger):
    """Fires ``{"pod", "detail", "failure"}`` when the preflight has ended, with ``"preempted"`` when its places are wanted.

    :param job_id: the job.
    :param pod: the preflight's pod.
    """

    def __init__(self, job_id: str, pod: str, poll_s: float = 1.0, **kwargs: Any) -> None:
        super().__init__(job_id, poll_s, **kwargs)
        self.pod = pod

    def arguments(self) -> dict[str, Any]:
        """The arguments that make this trigger again."""
        return {**super().arguments(), "pod": self.pod}

    def look(self) -> dict[str, Any] | None:
        """See how it goes."""
        svc = services()
        job = svc.ledger.job(self.job_id)
        if job is None or job.state in TERMINAL:
            return {"pod": self.pod, "detail": "the job has ended", "failure": None}
        lease = svc.ledger.lease(self.job_id)
        if lease is None or lease.preempted_at is not None:
            detail = "its places are wanted for another job"
            return {"pod": self.pod, "detail": detail, "failure": None, "preempted": True}
        end = preflight.look(svc, job, self.pod)
        return None if end is None else {"pod": self.pod, "detail": end.detail, "failure": end.failure}
