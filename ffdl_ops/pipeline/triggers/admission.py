"""Waiting for a lease: runs the admission pass, shows why the job waits, fires when it is granted."""

from __future__ import annotations

import time
from typing import Any

from airflow.triggers.base import TaskSuccessEvent, TriggerEvent

from ffdl_ops.core.jobs.states import TERMINAL
from ffdl_ops.pipeline.admission import CLOCK, granted_words, lease_facts, request_of, waiting_words
from ffdl_ops.pipeline.services import now, services
from ffdl_ops.pipeline.triggers.base import LookingTrigger

__all__ = ["AdmissionTrigger"]


class AdmissionTrigger(LookingTrigger):
    """Fires ``{"kind": "granted"}`` once the job holds a lease, ``{"kind": "ended"}`` if the job ended while it waited.

    However many jobs wait in a process, a tick costs it one pass and one look into the ledger.

    :param job_id: the job.
    :param poll_s: seconds between two passes of this process.
    :param not_before: seconds since the epoch before which the job is not queued (the cluster has just refused it).
    :param ends: the stage that nothing is left of once the lease is granted. Its task is then ended from here: being woken
        on a worker only to say so would keep the granted GPUs idle for another second.
    """

    def __init__(
        self, job_id: str, poll_s: float = 1.0, not_before: float = 0.0, ends: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(job_id, poll_s, **kwargs)
        self.not_before = not_before
        self.ends = ends
        self._said = ""

    def arguments(self) -> dict[str, Any]:
        """The arguments that make this trigger again."""
        return {**super().arguments(), "not_before": self.not_before, "ends": self.ends}

    def look(self) -> dict[str, Any] | None:
        """See whether the job has its lease; run the pass when it is due."""
        svc = services()
        standing = CLOCK.standing(svc, self.poll_s)
        if self.job_id in standing.state.leased:
            return self._granted()
        if self.job_id in standing.state.waiting and self.job_id not in standing.state.halted:
            wait = standing.waits.get(self.job_id)
            text = waiting_words(wait) if wait is not None else self._said
            if text != self._said:
                self.log.info("%s", text)
                self._said = text
            return None
        job = svc.ledger.job(self.job_id)
        if job is None or job.state in TERMINAL or job.halt_requested_by:
            return {"kind": "ended"}
        if svc.ledger.lease(self.job_id) is not None:
            return self._granted()
        if time.time() >= self.not_before:
            svc.ledger.enqueue(request_of(svc, job), now())
        return None

    def told(self, event: dict[str, Any]) -> TriggerEvent:
        """Wake the task, or end it if nothing is left to do in it."""
        if "result" in event:
            return TaskSuccessEvent(xcoms={"return_value": event["result"]})
        return super().told(event)

    def _granted(self) -> dict[str, Any]:
        """The event of a grant; what the task would say and record is done here if this ends it."""
        if self.ends is None:
            return {"kind": "granted"}
        svc = services()
        lease = svc.ledger.lease(self.job_id)
        if lease is None:  # given back at this moment: the task finds out why
            return {"kind": "granted"}
        self.log.info("%s", granted_words(lease))
        svc.ledger.stage_ended(self.job_id, self.ends, now(), "success")
        return {"kind": "granted", "result": lease_facts(lease)}

    async def pause(self, seconds: float) -> None:
        """Wait for the next look; something that was granted in this process ends it early."""
        await CLOCK.wait(seconds)
