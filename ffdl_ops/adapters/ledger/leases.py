"""Leases: what jobs hold. Granted in one place, under one lock, so that no GPU is ever promised twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Select, select, update
from sqlalchemy.orm import Session

from ffdl_ops.adapters.ledger.models import Lease, QueueEntry, WaitInterval
from ffdl_ops.adapters.ledger.part import LedgerPart
from ffdl_ops.adapters.ledger.records import LeaseRecord
from ffdl_ops.adapters.ledger.waits import leave_queue, note_wait, request_of
from ffdl_ops.core.scheduling.decide import decide
from ffdl_ops.core.scheduling.model import Admit, Decision, NodeView, Snapshot, TenantLimits

__all__ = ["Leases"]


class Leases(LedgerPart):
    """The part of the ledger that grants and frees."""

    def admission_pass(
        self,
        nodes: Sequence[NodeView],
        tenants: Mapping[str, TenantLimits],
        policy: str,
        now: datetime,
    ) -> tuple[Decision, ...]:
        """Decide for all that waits, and write it: one transaction, one at a time in the whole installation.

        Leases are only ever made here; one that is released meanwhile only adds room.

        :returns: what was decided for each job, in the order of decision.
        """
        with self._transaction() as session:
            if session.scalar(select(QueueEntry.job_id).limit(1)) is None:
                return ()
            self._lock_queue(session)
            entries = {entry.job_id: entry for entry in session.scalars(select(QueueEntry))}
            grants = tuple(LeaseRecord.of(row).grant for row in session.scalars(_live().order_by(Lease.epoch)))
            requests = [request_of(entry) for entry in entries.values()]
            decisions = decide(Snapshot(tuple(nodes), grants), requests, tenants, policy, now)
            open_waits = session.scalars(select(WaitInterval).where(WaitInterval.ended_at.is_(None)))
            waits = {wait.job_id: wait for wait in open_waits}
            for decision in decisions:
                entry = entries[decision.job_id]
                if isinstance(decision, Admit):
                    self._grant(session, decision, entry, now)
                else:
                    note_wait(session, decision, waits.get(decision.job_id), entry.enqueued_at, now)
            return decisions

    def lease(self, job_id: str) -> LeaseRecord | None:
        """What the job holds now, if it holds anything."""
        with self._transaction() as session:
            row = session.scalar(_live().where(Lease.job_id == job_id))
            return LeaseRecord.of(row) if row else None

    def holds(self, job_id: str, epoch: int) -> bool:
        """Whether this very lease is live."""
        with self._transaction() as session:
            return session.scalar(_live().where(Lease.job_id == job_id, Lease.epoch == epoch)) is not None

    def release_lease(self, job_id: str, epoch: int, reason: str, now: datetime) -> bool:
        """Free what the job holds under this epoch; never a later lease of the same job.

        :returns: whether this call freed it.
        """
        free = (
            update(Lease)
            .where(Lease.job_id == job_id, Lease.epoch == epoch, Lease.released_at.is_(None))
            .values(released_at=now, release_reason=reason)
            .returning(Lease.epoch)
        )
        with self._transaction() as session:
            return session.scalar(free) is not None

    def live_leases(self) -> list[LeaseRecord]:
        """What is held now, the oldest first."""
        with self._transaction() as session:
            return [LeaseRecord.of(row) for row in session.scalars(_live().order_by(Lease.epoch))]

    def leases(self, job_id: str) -> list[LeaseRecord]:
        """Everything that the job has ever held, the oldest first."""
        query = select(Lease).where(Lease.job_id == job_id).order_by(Lease.epoch)
        with self._transaction() as session:
            return [LeaseRecord.of(row) for row in session.scalars(query)]

    def _grant(self, session: Session, admit: Admit, entry: QueueEntry, now: datetime) -> None:
        """Write the lease. The job's lock keeps it from being put into the queue again at the same moment."""
        self._locked(session, admit.job_id)
        leave_queue(session, admit.job_id, now, "granted")
        session.add(
            Lease(
                job_id=admit.job_id,
                tenant=entry.tenant,
                placements=[{"rank": place.rank, "node": place.node} for place in admit.placements],
                gpus=entry.gpus,
                cpu_millis=entry.cpu_millis,
                memory_bytes=entry.memory_bytes,
                gpu_type=admit.gpu_type,
                granted_at=now,
            )
        )


def _live() -> Select[Lease]:
    return select(Lease).where(Lease.released_at.is_(None))
