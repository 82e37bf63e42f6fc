"""Jobs and their states: every change under the job's lock, kept with its time and reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from ffdl_ops.adapters.ledger.audit import AIRFLOW, write_audit
from ffdl_ops.adapters.ledger.errors import Refused
from ffdl_ops.adapters.ledger.models import Attempt, Job, Lease, Transition
from ffdl_ops.adapters.ledger.part import LedgerPart
from ffdl_ops.adapters.ledger.records import JobRecord, NewJob, TransitionRecord
from ffdl_ops.adapters.ledger.waits import leave_queue
from ffdl_ops.core.jobs.states import TERMINAL, JobState, next_or_raise

__all__ = ["FACTS", "Jobs"]

FACTS = frozenset(
    {"mlflow_run_id", "mlflow_experiment_id", "code_uri", "dataset_key", "dataset", "excluded_nodes", "gpu_type"}
)


class Jobs(LedgerPart):
    """The part of the ledger that keeps the jobs."""

    def create_job(self, new: NewJob, now: datetime) -> JobRecord:
        """Store a job, once; a job that is there already is returned as it is.

        :raises Refused: when the id belongs to another run.
        """
        values = {field.name: getattr(new, field.name) for field in fields(NewJob)}
        values |= {
            "manifest": dict(new.manifest),
            "state": JobState.NOT_STARTED.value,
            "created_at": now,
            "updated_at": now,
        }
        with self._transaction() as session:
            put = insert(Job).values(**values).on_conflict_do_nothing().returning(Job.job_id)
            added = session.scalar(put) is not None
            job = self._locked(session, new.job_id)
            if added:
                _note(session, job, None, "created", now)
            elif (job.tenant, job.dag_id, job.run_id) != (new.tenant, new.dag_id, new.run_id):
                raise Refused(
                    f"Job {new.job_id} is run {job.run_id} of {job.dag_id} (tenant {job.tenant}); "
                    f"it can't be {new.run_id} of {new.dag_id} (tenant {new.tenant}) as well."
                )
            return JobRecord.of(job)

    def job(self, job_id: str) -> JobRecord | None:
        """A job, if there is one."""
        with self._transaction() as session:
            job = session.get(Job, job_id)
            return JobRecord.of(job) if job else None

    def jobs(
        self, tenant: str | None = None, states: Iterable[JobState] | None = None, limit: int = 100
    ) -> list[JobRecord]:
        """Jobs, the newest first.

        :param states: only those in one of these states; ``None`` is any.
        """
        query = select(Job).order_by(Job.created_at.desc(), Job.job_id).limit(limit)
        if tenant is not None:
            query = query.where(Job.tenant == tenant)
        if states is not None:
            query = query.where(Job.state.in_([JobState(state).value for state in states]))
        with self._transaction() as session:
            return [JobRecord.of(job) for job in session.scalars(query)]

    def transitions(self, job_id: str) -> list[TransitionRecord]:
        """Every change of the job's state, in order."""
        query = select(Transition).where(Transition.job_id == job_id).order_by(Transition.id)
        with self._transaction() as session:
            return [TransitionRecord.of(row) for row in session.scalars(query)]

    def transition(self, job_id: str, to: JobState, *, reason: str = "", now: datetime) -> JobRecord:
        """Move the job to a state; in that state already, nothing happens.

        :raises TransitionRefused: when it would move backwards, or out of its end.
        """
        to = JobState(to)
        with self._transaction() as session:
            if to in TERMINAL:
                self._lock_queue(session)
            job = self._locked(session, job_id)
            if job.state != to:
                _move(session, job, to, reason, now)
            if to in TERMINAL:
                leave_queue(session, job_id, now, f"the job is {to}")
            return JobRecord.of(job)

    def resume_job(self, job_id: str, now: datetime, who: str = AIRFLOW) -> JobRecord:
        """Re-open a job that has ended: a new incarnation, without outcome and without a request to halt.

        A job that has not ended (or was re-opened already) is returned as it is. What the past incarnations left stays.

        :param who: for the audit. A run that was cleared does not say who cleared it; Airflow's own audit log does.
        """
        with self._transaction() as session:
            job = self._locked(session, job_id)
            if job.state in TERMINAL:
                words = f"re-opened after it was {job.state} (resume {job.resume_count + 1})"
                _move(session, job, JobState.RESUMED, f"resumed ({job.resume_count + 1})", now)
                write_audit(session, who, "reopen", now, words, tenant=job.tenant, job_id=job_id)
            return JobRecord.of(job)

    def request_halt(self, job_id: str, who: str, now: datetime) -> JobRecord:
        """Keep that a person wants the job to stop; the first request counts, one for an ended job does not.

        It leaves the queue at once. Whoever runs the job's learners stops them.
        """
        with self._transaction() as session:
            self._lock_queue(session)
            job = self._locked(session, job_id)
            if job.state not in TERMINAL and job.halt_requested_by is None:
                job.halt_requested_by = who
                job.halt_requested_at = job.updated_at = now
                leave_queue(session, job_id, now, f"halted by {who}")
                write_audit(session, who, "halt", now, f"asked to stop while {job.state}", tenant=job.tenant, job_id=job_id)
            return JobRecord.of(job)

    def set_facts(self, job_id: str, **columns: Any) -> JobRecord:
        """Keep facts that were found on the way: any of :data:`FACTS`.

        :raises Refused: for a column that is not a fact.
        """
        unknown = sorted(set(columns) - FACTS)
        if unknown:
            raise Refused(f"Not facts of a job: {', '.join(unknown)}; the facts are {', '.join(sorted(FACTS))}.")
        if "excluded_nodes" in columns:
            columns["excluded_nodes"] = sorted(columns["excluded_nodes"] or ())
        with self._transaction() as session:
            job = self._locked(session, job_id)
            for name, value in columns.items():
                setattr(job, name, value)
            session.flush()
            return JobRecord.of(job)

    def record_outcome(self, job_id: str, outcome: str, failure: dict[str, Any] | None, now: datetime) -> bool:
        """Write how this incarnation ended; the first to write wins.

        :returns: whether this call wrote it.
        """
        first = (
            update(Job)
            .where(Job.job_id == job_id, Job.outcome.is_(None))
            .values(outcome=outcome, failure=failure, updated_at=now)
            .returning(Job.job_id)
        )
        with self._transaction() as session:
            self._locked(session, job_id)
            return session.scalar(first) is not None

    def delete_job(self, job_id: str, who: str, now: datetime) -> bool:
        """Forget an ended job and all that belongs to it, but for the audit, which says who had it forgotten.

        :returns: whether it was there.
        :raises Refused: while it has not ended, holds a lease, or has an open attempt.
        """
        with self._transaction() as session:
            if session.get(Job, job_id) is None:
                return False
            job = self._locked(session, job_id)
            holds = session.scalar(select(Lease.epoch).where(Lease.job_id == job_id, Lease.released_at.is_(None)))
            runs = session.scalar(select(Attempt.number).where(Attempt.job_id == job_id, Attempt.ended_at.is_(None)))
            if job.state not in TERMINAL or holds is not None or runs is not None:
                raise Refused(f"Job {job_id} is {job.state} and may hold GPUs; halt it first, then delete it.")
            write_audit(session, who, "forget", now, f"its record was removed, {job.state}", tenant=job.tenant, job_id=job_id)
            session.delete(job)
            return True


def _move(session: Session, job: Job, to: JobState, reason: str, now: datetime) -> None:
    """Change the state, if it may be changed so; a resume begins a new incarnation."""
    before = JobState(job.state)
    job.state = next_or_raise(before, to).value
    job.updated_at = now
    if to is JobState.RESUMED:
        job.resume_count += 1
        job.outcome = job.failure = job.halt_requested_by = job.halt_requested_at = None
    _note(session, job, before, reason, now)


def _note(session: Session, job: Job, before: JobState | None, reason: str, now: datetime) -> None:
    session.add(
        Transition(
            job_id=job.job_id,
            from_state=before.value if before else None,
            to_state=job.state,
            reason=reason,
            at=now,
            resume_count=job.resume_count,
        )
    )
