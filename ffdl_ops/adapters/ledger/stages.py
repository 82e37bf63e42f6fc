"""Stages: when each stage of a job ran, by try and incarnation."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import select, update

from ffdl_ops.adapters.ledger.models import Stage
from ffdl_ops.adapters.ledger.part import LedgerPart
from ffdl_ops.adapters.ledger.records import StageRecord
from ffdl_ops.core.accounting.durations import stage_seconds

__all__ = ["Stages"]


class Stages(LedgerPart):
    """The part of the ledger that keeps the stages' times."""

    def stage_started(self, job_id: str, stage: str, now: datetime, try_number: int) -> bool:
        """Keep that a stage runs. Told again for the same try (it comes back from waiting) it runs on.

        An earlier try that never told its end (its worker was lost) ends here, as "lost".

        :returns: whether a new run of it began.
        """
        with self._transaction() as session:
            job = self._locked(session, job_id)
            query = select(Stage).where(Stage.job_id == job_id, Stage.stage == stage, Stage.ended_at.is_(None))
            running = session.scalar(query)
            if running is not None:
                if (running.resume_count, running.try_number) >= (job.resume_count, try_number):
                    return False
                running.ended_at, running.outcome = now, "lost"
                session.flush()
            session.add(
                Stage(
                    job_id=job_id,
                    stage=stage,
                    try_number=try_number,
                    resume_count=job.resume_count,
                    started_at=now,
                )
            )
            return True

    def stage_ended(self, job_id: str, stage: str, now: datetime, outcome: str) -> bool:
        """Keep that a stage has ended; the first to tell wins.

        :returns: whether it was running.
        """
        end = (
            update(Stage)
            .where(Stage.job_id == job_id, Stage.stage == stage, Stage.ended_at.is_(None))
            .values(ended_at=now, outcome=outcome)
            .returning(Stage.id)
        )
        with self._transaction() as session:
            return session.scalar(end) is not None

    def stages_stopped(self, job_id: str, but: Collection[str], now: datetime) -> list[str]:
        """Keep that the stages which still run have been stopped: a task that is killed can't tell its end itself.

        :param but: stages that run on.
        :returns: those that were running.
        """
        end = (
            update(Stage)
            .where(Stage.job_id == job_id, Stage.stage.not_in(but), Stage.ended_at.is_(None))
            .values(ended_at=now, outcome="stopped")
            .returning(Stage.stage)
        )
        with self._transaction() as session:
            return sorted(session.scalars(end))

    def stages(self, job_id: str) -> list[StageRecord]:
        """Every run of every stage, in order."""
        query = select(Stage).where(Stage.job_id == job_id).order_by(Stage.id)
        with self._transaction() as session:
            return [StageRecord.of(row) for row in session.scalars(query)]

    def stage_seconds(self, job_id: str) -> dict[str, float]:
        """Seconds that each stage took, over all its ended runs."""
        return stage_seconds(self.stages(job_id))
