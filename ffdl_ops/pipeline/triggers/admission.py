"""Waiting for a lease: runs the admission pass, shows why the job waits, fires when it is granted."""

from __future__ import annotations

from typing import Any

from ffdl_ops.core.jobs.states import TERMINAL
from ffdl_ops.pipeline.admission import AdmissionClock
from ffdl_ops.pipeline.services import services
from ffdl_ops.pipeline.triggers.base import LookingTrigger

__all__ = ["AdmissionTrigger"]

_clocks: dict[float, AdmissionClock] = {}


class AdmissionTrigger(LookingTrigger):
    """Fires ``{"kind": "granted"}`` once the job holds a lease, ``{"kind": "ended"}`` if the job ended while it waited.

    :param job_id: the job.
    :param poll_s: seconds between two passes of this process.
    """

    def __init__(self, job_id: str, poll_s: float = 1.0, **kwargs: Any) -> None:
        super().__init__(job_id, poll_s, **kwargs)
        self._said = ""

    def look(self) -> dict[str, Any] | None:
        """See whether the job has its lease; run the pass when it is due."""
        svc = services()
        job = svc.ledger.job(self.job_id)
        if job is None or job.state in TERMINAL:
            return {"kind": "ended"}
        waits = _clocks.setdefault(self.poll_s, AdmissionClock(self.poll_s)).waits(svc)
        if svc.ledger.lease(self.job_id) is not None:
            return {"kind": "granted"}
        wait = waits.get(self.job_id)
        if wait is None:
            from ffdl_ops.pipeline.admission import request_of
            from ffdl_ops.pipeline.services import now

            svc.ledger.enqueue(request_of(job), now())
            return None
        text = f"Waiting ({wait.cause}, position {wait.position}): {wait.message}"
        if text != self._said:
            self.log.info("%s", text)
            self._said = text
        return None
