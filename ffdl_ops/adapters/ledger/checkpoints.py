"""Checkpoints: the generations that are in the object store, and which of them a resumed job starts from."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, or_, select
from sqlalchemy.dialects.postgresql import insert

from ffdl_ops.adapters.ledger.errors import NotInLedger, Refused
from ffdl_ops.adapters.ledger.models import Checkpoint
from ffdl_ops.adapters.ledger.part import LedgerPart
from ffdl_ops.adapters.ledger.records import CheckpointRecord

__all__ = ["Checkpoints"]


class Checkpoints(LedgerPart):
    """The part of the ledger that keeps checkpoints."""

    def record_checkpoint(self, job_id: str, record: CheckpointRecord) -> None:
        """Keep a generation; told again, what it has grown by is added. Complete or promoted stays so."""
        values = {name: getattr(record, name) for name in CheckpointRecord.__dataclass_fields__}
        values |= {"job_id": job_id, "promoted": False}
        put = insert(Checkpoint).values(**values)
        grown: dict[str, Any] = {
            name: put.excluded[name] for name in ("attempt", "step", "bytes", "files", "created_at")
        }
        grown["complete"] = or_(Checkpoint.complete, put.excluded.complete)
        newer = or_(put.excluded.complete, Checkpoint.complete.is_(False))
        with self._transaction() as session:
            self._locked(session, job_id)
            session.execute(put.on_conflict_do_update(index_elements=["job_id", "generation"], set_=grown, where=newer))
        if record.promoted:
            self.promote_checkpoint(job_id, record.generation)

    def checkpoints(self, job_id: str) -> list[CheckpointRecord]:
        """All generations of the job that are there, in order."""
        query = select(Checkpoint).where(Checkpoint.job_id == job_id).order_by(Checkpoint.generation)
        with self._transaction() as session:
            return [CheckpointRecord.of(row) for row in session.scalars(query)]

    def promote_checkpoint(self, job_id: str, generation: int) -> bool:
        """Make a complete generation the one that the job starts from; a late call for an older one changes nothing.

        :returns: whether it is the promoted one now.
        :raises NotInLedger: when there is no such generation.
        :raises Refused: when it is not complete.
        """
        with self._transaction() as session:
            self._locked(session, job_id)
            row = session.get(Checkpoint, (job_id, generation))
            if row is None:
                raise NotInLedger(f"There is no checkpoint generation {generation} of job {job_id} in the ledger.")
            if not row.complete:
                raise Refused(
                    f"Checkpoint generation {generation} of job {job_id} is not complete; it is never promoted."
                )
            before = session.scalar(select(Checkpoint).where(Checkpoint.job_id == job_id, Checkpoint.promoted))
            if before is not None and before.generation > generation:
                return False
            if before is not None:
                before.promoted = False
                session.flush()
            row.promoted = True
            return True

    def forget_checkpoint(self, job_id: str, generation: int) -> bool:
        """Forget a generation that was removed from the store.

        :returns: whether it was there.
        """
        gone = delete(Checkpoint).where(Checkpoint.job_id == job_id, Checkpoint.generation == generation)
        with self._transaction() as session:
            self._locked(session, job_id)
            return session.scalar(gone.returning(Checkpoint.generation)) is not None
