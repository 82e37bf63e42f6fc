"""Leases: what jobs hold. Granted in one place, under one lock, so that no GPU is ever promised twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import Select, delete, or_, select, update
from sqlalchemy.orm import Session

from ffdl_ops.adapters.ledger.audit import PLATFORM, SCHEDULER, write_audit
from ffdl_ops.adapters.ledger.models import Closure, Lease, QueueEntry, ReservedPlaces, WaitInterval
from ffdl_ops.adapters.ledger.part import LedgerPart
from ffdl_ops.adapters.ledger.records import LeaseRecord, reservation_of
from ffdl_ops.adapters.ledger.waits import leave_queue, note_wait, request_of
from ffdl_ops.core.scheduling.decide import decide
from ffdl_ops.core.scheduling.decisions import Admit, Decision, Preempt, Reserve, Unreserve
from ffdl_ops.core.scheduling.model import NodeView, Reservation, Snapshot, TenantLimits
from ffdl_ops.core.scheduling.policy import Policy
from ffdl_ops.core.scheduling.reasons import preemption_words

__all__ = ["Leases", "snapshot_of"]


class Leases(LedgerPart):
    """The part of the ledger that grants and frees."""

    def admission_pass(
        self,
        nodes: Sequence[NodeView],
        tenants: Mapping[str, TenantLimits],
        policy: Policy,
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
            decisions = decide(
                snapshot_of(session, nodes), [request_of(entry) for entry in entries.values()], tenants, policy, now
            )
            open_waits = session.scalars(select(WaitInterval).where(WaitInterval.ended_at.is_(None)))
            waits = {wait.job_id: wait for wait in open_waits}
            for decision in decisions:
                if isinstance(decision, Admit):
                    entry = entries[decision.job_id]
                    self._grant(session, decision, entry, now, aged=policy.ages(request_of(entry), now))
                elif isinstance(decision, Preempt):
                    self._preempt(session, decision, now)
                elif isinstance(decision, Reserve):
                    session.add(_reserved(decision.reservation))
                elif isinstance(decision, Unreserve):
                    session.execute(delete(ReservedPlaces).where(ReservedPlaces.job_id == decision.job_id))
                else:
                    entry = entries[decision.job_id]
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

    def reservations(self) -> list[Reservation]:
        """Places that are kept for jobs that wait."""
        with self._transaction() as session:
            return list(map(reservation_of, session.scalars(select(ReservedPlaces).order_by(ReservedPlaces.job_id))))

    def live_leases(self) -> list[LeaseRecord]:
        """What is held now, the oldest first."""
        with self._transaction() as session:
            return [LeaseRecord.of(row) for row in session.scalars(_live().order_by(Lease.epoch))]

    def leases(self, job_id: str) -> list[LeaseRecord]:
        """Everything that the job has ever held, the oldest first."""
        query = select(Lease).where(Lease.job_id == job_id).order_by(Lease.epoch)
        with self._transaction() as session:
            return [LeaseRecord.of(row) for row in session.scalars(query)]

    def note_saved(self, job_id: str, epoch: int, saved_at: datetime) -> None:
        """Keep when the newest checkpoint under a lease was whole; an older one changes nothing."""
        newer = or_(Lease.saved_at.is_(None), Lease.saved_at < saved_at)
        note = update(Lease).where(Lease.job_id == job_id, Lease.epoch == epoch, newer)
        with self._transaction() as session:
            session.execute(note.values(saved_at=saved_at))

    def order_preemption(self, job_id: str, why: str, actor: str, now: datetime) -> bool:
        """Have a job stopped, saved and queued again on an administrator's word.

        :returns: whether it holds a lease and had not been told yet.
        """
        with self._transaction() as session:
            self._lock_queue(session)
            row = session.scalar(_live().where(Lease.job_id == job_id, Lease.preempted_at.is_(None)))
            if row is None:
                return False
            row.preempted_at, row.preemption = now, {"words": why, "by": actor}
            write_audit(session, actor, "preempt", now, why, tenant=row.tenant, job_id=job_id)
            return True

    def _preempt(self, session: Session, decision: Preempt, now: datetime) -> None:
        """Tell a job to stop: whoever watches its gang reads it from the lease."""
        words = preemption_words(decision)
        told = (
            update(Lease)
            .where(Lease.job_id == decision.job_id, Lease.epoch == decision.epoch, Lease.released_at.is_(None))
            .values(preempted_at=now, preemption={**asdict(decision), "words": words})
            .returning(Lease.tenant)
        )
        tenant = session.scalar(told)
        if tenant is not None:
            write_audit(session, SCHEDULER, "preempt", now, words, tenant=tenant, job_id=decision.job_id)

    def _grant(self, session: Session, admit: Admit, entry: QueueEntry, now: datetime, *, aged: bool) -> None:
        """Write the lease. The job's lock keeps it from being put into the queue again at the same moment."""
        self._locked(session, admit.job_id)
        request = request_of(entry)
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
                user=entry.user,
                priority=entry.priority,
                expected_end=request.expected_end(now),
                served_gpu_s=entry.served_gpu_s,
                aged=aged,
            )
        )
        gpus = entry.gpus * len(admit.placements)
        words = f"{len(admit.placements)} learners with {gpus} {admit.gpu_type or ''} GPUs".replace("  ", " ")
        if admit.borrowed:
            words += f", {admit.borrowed} of them borrowed"
        write_audit(session, SCHEDULER, "admit", now, words, tenant=entry.tenant, job_id=admit.job_id)


def snapshot_of(session: Session, nodes: Sequence[NodeView]) -> Snapshot:
    """What is held and kept, as the ledger has it."""
    closure = session.scalar(select(Closure).where(Closure.scope == PLATFORM))
    return Snapshot(
        nodes=tuple(nodes),
        grants=tuple(LeaseRecord.of(row).grant for row in session.scalars(_live().order_by(Lease.epoch))),
        reservations=tuple(map(reservation_of, session.scalars(select(ReservedPlaces)))),
        closed=f"{closure.reason} (closed by {closure.closed_by})" if closure else None,
    )


def _reserved(kept: Reservation) -> ReservedPlaces:
    values = {name: getattr(kept, name) for name in kept.__dataclass_fields__}
    values["placements"] = [{"rank": place.rank, "node": place.node} for place in kept.placements]
    return ReservedPlaces(**values)


def _live() -> Select[Lease]:
    return select(Lease).where(Lease.released_at.is_(None))
