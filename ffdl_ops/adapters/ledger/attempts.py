"""Attempts: each start of a job's gang, under a lease, with the pods that were made for it and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import func, select, update

from ffdl_ops.adapters.ledger.errors import LeaseLost, NotInLedger
from ffdl_ops.adapters.ledger.models import Attempt, Job, Lease
from ffdl_ops.adapters.ledger.part import LedgerPart
from ffdl_ops.adapters.ledger.records import AttemptRecord

__all__ = ["Attempts"]


class Attempts(LedgerPart):
    """The part of the ledger that keeps attempts."""

    def begin_attempt(
        self,
        job_id: str,
        lease_epoch: int,
        learners: int,
        base_port: int,
        restored_generation: int | None,
        now: datetime,
    ) -> AttemptRecord:
        """Begin an attempt; one that is open under the same lease is returned as it is.

        :raises LeaseLost: when the job does not hold this lease, or an attempt under another lease is still open.
        """
        with self._transaction() as session:
            job = self._locked(session, job_id)
            running = session.scalar(select(Attempt).where(Attempt.job_id == job_id, Attempt.ended_at.is_(None)))
            if running is not None and running.lease_epoch == lease_epoch:
                return AttemptRecord.of(running)
            if running is not None:
                raise LeaseLost(
                    f"Attempt {running.number} of {job_id} is still open under lease {running.lease_epoch}; "
                    f"it has to end before another begins under lease {lease_epoch}."
                )
            live = select(Lease).where(Lease.job_id == job_id, Lease.epoch == lease_epoch, Lease.released_at.is_(None))
            # The row's lock: a release at this very moment waits, and then frees what the attempt may not use any more.
            if session.scalar(live.with_for_update()) is None:
                raise LeaseLost(
                    f"Job {job_id} does not hold lease {lease_epoch} any more; it asks for admission again."
                )
            last = session.scalar(select(func.max(Attempt.number)).where(Attempt.job_id == job_id))
            attempt = Attempt(
                job_id=job_id,
                number=(last or 0) + 1,
                lease_epoch=lease_epoch,
                learners=learners,
                base_port=base_port,
                restored_generation=restored_generation,
                pods={},
                started_at=now,
                resume_count=job.resume_count,
            )
            session.add(attempt)
            session.flush()
            return AttemptRecord.of(attempt)

    def open_attempt(self, job_id: str) -> AttemptRecord | None:
        """The attempt that has not ended, if there is one."""
        with self._transaction() as session:
            row = session.scalar(select(Attempt).where(Attempt.job_id == job_id, Attempt.ended_at.is_(None)))
            return AttemptRecord.of(row) if row else None

    def attempts(self, job_id: str) -> list[AttemptRecord]:
        """All attempts of the job, of all its incarnations, in order."""
        query = select(Attempt).where(Attempt.job_id == job_id).order_by(Attempt.number)
        with self._transaction() as session:
            return [AttemptRecord.of(row) for row in session.scalars(query)]

    def record_pods(self, job_id: str, number: int, pods: Mapping[int, tuple[str, str, str | None]]) -> None:
        """Keep which pods were made for the attempt.

        :param pods: by rank, the pod's name, its UID and its node.
        :raises NotInLedger: when there is no such attempt.
        """
        new = {str(rank): {"pod": pod, "uid": uid, "node": node} for rank, (pod, uid, node) in pods.items()}
        with self._transaction() as session:
            self._locked(session, job_id)
            attempt = session.get(Attempt, (job_id, number))
            if attempt is None:
                raise NotInLedger(f"There is no attempt {number} of job {job_id} in the ledger.")
            attempt.pods = {**attempt.pods, **new}

    def end_attempt(
        self, job_id: str, number: int, outcome: str, failure: Mapping[str, Any] | None, now: datetime
    ) -> bool:
        """Write how the attempt ended; the first to write wins.

        :returns: whether this call wrote it.
        """
        first = (
            update(Attempt)
            .where(Attempt.job_id == job_id, Attempt.number == number, Attempt.ended_at.is_(None))
            .values(ended_at=now, outcome=outcome, failure=dict(failure) if failure else None)
            .returning(Attempt.number)
        )
        with self._transaction() as session:
            return session.scalar(first) is not None

    def failure_counts(self, job_id: str) -> dict[str, int]:
        """How many attempts of this incarnation ended by each class of failure; it is stored, so no restart resets it."""
        cls = Attempt.failure["class"].astext
        query = (
            select(cls, func.count())
            .join(Job, (Job.job_id == Attempt.job_id) & (Job.resume_count == Attempt.resume_count))
            .where(Attempt.job_id == job_id, cls.is_not(None))
            .group_by(cls)
        )
        with self._transaction() as session:
            return dict(session.execute(query).tuples().all())
