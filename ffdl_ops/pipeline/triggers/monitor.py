"""The job's follower: turns the learners' output into metrics while they train."""

from __future__ import annotations

from typing import Any

from ffdl_ops.core.jobs.states import TERMINAL, JobState
from ffdl_ops.pipeline.follower import Follower, owner_name
from ffdl_ops.pipeline.gang import training_done
from ffdl_ops.pipeline.services import services
from ffdl_ops.pipeline.triggers.base import LookingTrigger

__all__ = ["MonitorTrigger"]


class MonitorTrigger(LookingTrigger):
    """Fires ``{"kind": "done"}`` when the job no longer trains.

    :param job_id: the job.
    :param poll_s: seconds between two readings of the logs.
    """

    def __init__(self, job_id: str, poll_s: float = 2.0, **kwargs: Any) -> None:
        super().__init__(job_id, poll_s, **kwargs)
        self._follower = Follower(job_id, owner_name("monitor"))
        self._steps = 0

    def look(self) -> dict[str, Any] | None:
        """Read what is new; see whether training has ended."""
        svc = services()
        job = svc.ledger.job(self.job_id)
        if job is None or job.state in TERMINAL or job.state == JobState.STORING or job.outcome:
            return {"kind": "done"}
        if training_done(svc, job) and svc.ledger.open_attempt(self.job_id) is None:
            return {"kind": "done"}
        progress = self._follower.step(svc)
        if progress:
            self.log.info("%s", progress)
        return None
