"""What the parts of the ledger share: the transaction, and the job's row under its lock.

Locks are taken in one order everywhere: the queue's lock, a job's row, then rows that belong to the job. So no two
writers can wait for each other.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ffdl_ops.adapters.ledger.engine import Database
from ffdl_ops.adapters.ledger.errors import NotInLedger
from ffdl_ops.adapters.ledger.models import Job

__all__ = ["LedgerPart"]

_QUEUE_LOCK = 0x_FFD1_0001


class LedgerPart:
    """A part of the ledger: some methods over one database."""

    _database: Database

    def _transaction(self) -> AbstractContextManager[Session]:
        return self._database.transaction()

    @staticmethod
    def _lock_queue(session: Session) -> None:
        """Hold the queue: whoever grants, or takes a job out of the queue, does so alone. Taken before any job's lock."""
        session.execute(select(func.pg_advisory_xact_lock(_QUEUE_LOCK)))

    @staticmethod
    def _locked(session: Session, job_id: str) -> Job:
        """The job's row; nobody else changes the job before this transaction ends.

        :raises NotInLedger: when there is no such job.
        """
        locked = select(Job).where(Job.job_id == job_id).with_for_update()
        job = session.scalar(locked.execution_options(populate_existing=True))
        if job is None:
            raise NotInLedger(f"There is no job {job_id} in the ledger.")
        return job
