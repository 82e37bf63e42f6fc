"""What must be true of a job when it has ended, whichever tasks a person's clear left out.

`release`, `checkpoint` and `store_results` call these in turn; `conclude` calls those that have not been done for the
job's newest attempt. What was done is kept in the ledger by attempt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ffdl_ops.core.jobs.states import JobState
from ffdl_ops.pipeline.admission import places_are_free
from ffdl_ops.pipeline.gang import stop_learners
from ffdl_ops.pipeline.helpers import stop_helpers
from ffdl_ops.pipeline.services import Services, now

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord

__all__ = ["is_done", "mark_done", "newest_attempt", "record_generations", "release_all"]

# `monitor` may still write what the learners have printed.
_OUTLIVE_THE_LEARNERS = frozenset({"monitor", "release", "checkpoint", "store_results", "conclude"})


def newest_attempt(svc: Services, job: JobRecord) -> int:
    """Number of the job's newest attempt; 0 when none has begun."""
    attempts = svc.ledger.attempts(job.job_id)
    return attempts[-1].number if attempts else 0


def is_done(svc: Services, job: JobRecord, step: str) -> bool:
    """Whether a step was finished for the job's newest attempt (there is nothing to do for a job without one)."""
    attempt = newest_attempt(svc, job)
    mark = svc.ledger.cursor(job.job_id, f"done:{step}")
    return attempt == 0 or bool(mark and mark.get("attempt") == attempt)


def mark_done(svc: Services, job: JobRecord, step: str, result: dict[str, Any]) -> None:
    """Keep that a step is finished for the job's newest attempt, with what it found."""
    value = {"attempt": newest_attempt(svc, job), "result": result}
    svc.ledger.save_cursor(job.job_id, f"done:{step}", value, 0)


def release_all(svc: Services, job: JobRecord) -> list[str]:
    """Stop whatever of the job still lives, then free what it holds.

    :returns: what was done, a line each.
    :raises TemporaryError: when a pod does not go: its lease stays, since it may still hold a GPU.
    """
    from ffdl_ops.core.errors import TemporaryError

    done: list[str] = []
    svc.ledger.dequeue(job.job_id, now(), "the job has ended")
    stop_helpers(svc, job)
    if not stop_learners(svc, job):
        raise TemporaryError(f"Learners of {job.job_id} are still there after their grace period; tried again.")
    attempt = svc.ledger.open_attempt(job.job_id)
    if attempt is not None and svc.ledger.end_attempt(job.job_id, attempt.number, "stopped", None, now()):
        done.append(f"attempt {attempt.number} was stopped")
    lease = svc.ledger.lease(job.job_id)
    if lease is not None and svc.ledger.release_lease(job.job_id, lease.epoch, "released", now()):
        done.append(f"lease {lease.epoch} is free")
        places_are_free(svc)
    svc.ledger.stages_stopped(job.job_id, _OUTLIVE_THE_LEARNERS, now())
    if newest_attempt(svc, job):
        from ffdl_ops.core.jobs.ids import namespace as namespace_of

        svc.cluster.delete_service(namespace_of(job.tenant), job.job_id)
    # Always, also for a job that never started: it is what tells `monitor` that nothing will train any more.
    svc.advance(job.job_id, JobState.STORING, "nothing of it lives")
    return done


def record_generations(svc: Services, job: JobRecord, keep: int) -> dict[str, Any]:
    """Take the complete generations into the ledger, promote the newest, prune the others by retention.

    :param keep: complete generations to keep.
    :returns: the promoted generation and how many there are.
    """
    from ffdl_ops.adapters.ledger import CheckpointRecord
    from ffdl_ops.adapters.storage.checkpoints import list_generations, prune

    store, bucket = svc.store(job.tenant), svc.tenant(job.tenant).bucket
    complete = [one for one in list_generations(store, bucket, job.job_id) if one.complete]
    for one in complete:
        record = CheckpointRecord(
            generation=one.number,
            attempt=one.attempt,
            step=one.step,
            bytes=one.bytes,
            files=one.files,
            complete=True,
            promoted=False,
            created_at=one.created,
        )
        svc.ledger.record_checkpoint(job.job_id, record)
    if not complete:
        return {"promoted": None, "kept": 0}
    newest = max(complete, key=lambda one: one.number)
    svc.ledger.promote_checkpoint(job.job_id, newest.number)
    for number in prune(store, bucket, job.job_id, keep):
        svc.ledger.forget_checkpoint(job.job_id, number)
    return {"promoted": newest.number, "step": newest.step, "kept": min(keep, len(complete))}
