"""Watching a gang: one trigger for all its learners, from their start to the end of the attempt.

It shows each learner's output in the task's log, ends the attempt when its end has come (so that GPUs are free before
Airflow has even resumed the task), and feeds the metrics when no `monitor` does.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.pipeline import gang
from ffdl_ops.pipeline.deadline import past_deadline
from ffdl_ops.pipeline.follower import Follower, owner_name
from ffdl_ops.pipeline.judge import GangState
from ffdl_ops.pipeline.reading import LogCursor, new_lines
from ffdl_ops.pipeline.services import Services, services
from ffdl_ops.pipeline.triggers.base import LookingTrigger

if TYPE_CHECKING:
    from ffdl_ops.adapters.cluster.observe import PodView
    from ffdl_ops.adapters.ledger import JobRecord, LeaseRecord

__all__ = ["GangTrigger"]

_LOG_EVERY_S = 1.0
_FOLLOW_EVERY_S = 5.0
_SAVED_EVERY_S = 15.0
# Of one look, by all learners together, and by each at least: Airflow writes some hundred lines a second.
_MOST_LINES = 500
_FEWEST_LINES = 20


class GangTrigger(LookingTrigger):
    """Fires with what follows from the attempt's end: ``{"kind": "succeeded" | "restart" | "readmit" | "failed", …}``.

    :param job_id: the job.
    :param attempt: number of the attempt.
    :param poll_s: seconds between two looks at the pods.
    """

    def __init__(self, job_id: str, attempt: int, poll_s: float = 0.5, **kwargs: Any) -> None:
        super().__init__(job_id, poll_s, **kwargs)
        self.attempt = attempt
        self._cursor = LogCursor()
        self._said = ""
        self._logs_at = self._follow_at = self._saved_at = 0.0
        self._follower: Follower | None = None
        self._follows: bool | None = None

    def arguments(self) -> dict[str, Any]:
        """The arguments that make this trigger again."""
        return {**super().arguments(), "attempt": self.attempt}

    def look(self) -> dict[str, Any] | None:
        """Look at the gang once."""
        svc = services()
        job = svc.ledger.job(self.job_id)
        attempt = svc.ledger.open_attempt(self.job_id)
        if job is None or attempt is None or attempt.number != self.attempt:
            return {"kind": "lost"}
        verdict, views = gang.look(svc, job, attempt)
        if verdict.detail != self._said:
            self.log.info("Attempt %d: %s", self.attempt, verdict.detail)
            self._said = verdict.detail
        ended = verdict.state in (GangState.SUCCEEDED, GangState.ENDED)
        clock = time.monotonic()
        if views and (ended or (clock - self._logs_at >= _LOG_EVERY_S and self._is_followed(job))):
            self._logs_at = clock
            self._show(svc, views, last=ended)
        if not ended:
            verdict = past_deadline(svc, job, verdict, views)
            ended = verdict.state is GangState.ENDED
        if ended:
            return _told(gang.finish(svc, job, attempt, verdict))
        lease = svc.ledger.lease(self.job_id)
        if lease is not None and lease.preempted_at is not None and lease.epoch == attempt.lease_epoch:
            words = str((lease.preemption or {}).get("words") or "It must give its places back.")
            self.log.info("%s", words)
            return _told(gang.preempted(svc, job, attempt, words))
        if lease is not None and clock - self._saved_at >= _SAVED_EVERY_S:
            self._saved_at = clock
            self._note_saved(svc, job, lease)
        if clock - self._follow_at >= _FOLLOW_EVERY_S and self._is_followed(job):
            self._follow_at = clock
            self._feed()
        return None

    def _is_followed(self, job: JobRecord) -> bool:
        if self._follows is None:
            self._follows = load_manifest(job.manifest).monitor.enabled
        return self._follows

    def _note_saved(self, svc: Services, job: JobRecord, lease: LeaseRecord) -> None:
        """Keep when the newest checkpoint was whole, so that those are preempted first who lose least."""
        try:
            saved_at = gang.newest_saved_at(svc, job)
            if saved_at is not None and saved_at > lease.granted_at:
                svc.ledger.note_saved(job.job_id, lease.epoch, saved_at)
        except Exception as error:  # it costs a worse choice of victims at most
            self.log.debug("Checkpoints can't be listed for now: %s", error)

    def _show(self, svc: Services, views: Sequence[PodView], *, last: bool) -> None:
        """Show what the learners have printed: all of it, unless it is more than can be passed on."""
        most = max(_FEWEST_LINES, _MOST_LINES // len(views))
        for view in sorted(views, key=lambda one: one.rank):
            try:
                lines, passed_over = new_lines(svc, view, self._cursor, most=most, last=last)
            except Exception as error:  # a log that can't be shown never holds up, or ends, a gang
                self.log.warning("The output of learner %d is not shown for now: %s", view.rank + 1, error)
                continue
            for line in lines:
                self.log.info("%s", line)
            if passed_over:
                self.log.info(
                    "Learner %d prints more than is shown here; its stored log has every line.", view.rank + 1
                )

    def _feed(self) -> None:
        """Write the metrics when nobody else does (the follower's lease in the ledger decides who)."""
        if self._follower is None:
            self._follower = Follower(self.job_id, owner_name("learners"))
        try:
            self._follower.step(services())
        except Exception as error:  # metrics never hold up, or end, a gang
            self.log.warning("Metrics are not written for now: %s", error)


def _told(end: gang.GangEnd) -> dict[str, Any]:
    return {"kind": end.kind, "failure": dict(end.failure) if end.failure else None, "delay_s": end.delay_s}
