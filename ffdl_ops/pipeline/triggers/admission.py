"""Waiting for a lease: runs the admission pass, shows why the job waits, fires when it is granted."""

from __future__ import annotations

import time
from typing import Any

from ffdl_ops.core.jobs.states import TERMINAL
from ffdl_ops.pipeline.admission import AdmissionClock, request_of
from ffdl_ops.pipeline.services import now, services
from ffdl_ops.pipeline.triggers.base import LookingTrigger

__all__ = ["AdmissionTrigger"]

_clocks: dict[float, AdmissionClock] = {}


class AdmissionTrigger(LookingTrigger):
    """Fires ``{"kind": "granted"}`` once the job holds a lease, ``{"kind": "ended"}`` if the job ended while it waited.

    :param job_id: the job.
    :param poll_s: seconds between two passes of this process.
    :param not_before: seconds since the epoch before which the job is not queued (the cluster has just refused it).
    """

    def __init__(self, job_id: str, poll_s: float = 1.0, not_before: float = 0.0, **kwargs: Any) -> None:
        super().__init__(job_id, poll_s, **kwargs)
        self.not_before = not_before
        self._said = ""

    def arguments(self) -> dict[str, Any]:
        """The arguments that make this trigger again."""
        return {**super().arguments(), "not_before": self.not_before}

    def look(self) -> dict[str, Any] | None:
        """See whether the job has its lease; run the pass when it is due."""
        svc = services()
        job = svc.ledger.job(self.job_id)
        if job is None or job.state in TERMINAL or job.halt_requested_by:
            return {"kind": "ended"}
        if time.time() < self.not_before:
            return None
        waits = _clocks.setdefault(self.poll_s, AdmissionClock(self.poll_s)).waits(svc)
        if svc.ledger.lease(self.job_id) is not None:
            return {"kind": "granted"}
        wait = waits.get(self.job_id)
        if wait is None:
            svc.ledger.enqueue(request_of(job), now())
            return None
        text = f"Waiting ({wait.cause}, position {wait.position}): {wait.message}"
        if text != self._said:
            self.log.info("%s", text)
            self._said = text
        return None
