"""The queue and the times that jobs waited in it.

A wait is kept as intervals: one record as long as cause and holders stay the same (its message and numbers are the last
ones), closed when the job is granted its gang or leaves the queue. Added up they are the job's whole time in the queue.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, func, or_, select, tuple_, update
from sqlalchemy.orm import Session

from ffdl_ops.adapters.ledger.errors import Refused
from ffdl_ops.adapters.ledger.models import Job, Lease, QueueEntry, WaitInterval
from ffdl_ops.adapters.ledger.part import LedgerPart
from ffdl_ops.adapters.ledger.records import QueuedRecord, QueueState, WaitRecord
from ffdl_ops.core.jobs.states import TERMINAL
from ffdl_ops.core.scheduling.decisions import Holder, Wait
from ffdl_ops.core.scheduling.model import GangRequest, Level, Strategy
from ffdl_ops.core.scheduling.reasons import wait_words

__all__ = ["Waits", "leave_queue", "note_wait", "request_of"]

_REQUEST_FIELDS = (
    "tenant",
    "learners_min",
    "learners_max",
    "gpus",
    "gpu_type",
    "cpu_millis",
    "memory_bytes",
    "priority",
    "submitted_at",
    "user",
    "expected_s",
    "served_s",
    "served_gpu_s",
    "strategy",
    "level",
    "relax_s",
)


class Waits(LedgerPart):
    """The part of the ledger that keeps the queue."""

    def enqueue(self, request: GangRequest, now: datetime) -> bool:
        """Put the job into the queue; in it already, its request is brought up to date and it keeps its place.

        :returns: whether it is in the queue: a job that holds a lease is not.
        :raises Refused: when the job has ended or is to be halted.
        """
        with self._transaction() as session:
            job = self._locked(session, request.job_id)
            if job.state in TERMINAL:
                raise Refused(f"Job {job.job_id} is {job.state}; it can't be queued unless it is resumed.")
            if job.halt_requested_by is not None:
                raise Refused(f"Job {job.job_id} is being halted by {job.halt_requested_by}; it can't be queued.")
            live = select(Lease.epoch).where(Lease.job_id == request.job_id, Lease.released_at.is_(None))
            if session.scalar(live) is not None:
                return False
            entry = session.get(QueueEntry, request.job_id)
            if entry is None:
                entry = QueueEntry(job_id=request.job_id, enqueued_at=now)
                session.add(entry)
            for name in _REQUEST_FIELDS:
                setattr(entry, name, getattr(request, name))
            entry.excluded_nodes = sorted(request.excluded_nodes)
            return True

    def dequeue(self, job_id: str, now: datetime, reason: str) -> bool:
        """Take the job out of the queue and close its wait.

        :returns: whether it was in it.
        """
        with self._transaction() as session:
            self._lock_queue(session)
            return leave_queue(session, job_id, now, reason)

    def queue(self) -> list[QueuedRecord]:
        """What waits, in the order it is served, with each job's place in its tenant's queue."""
        with self._transaction() as session:
            entries = {entry.job_id: entry for entry in session.scalars(select(QueueEntry))}
            open_waits = session.scalars(select(WaitInterval).where(WaitInterval.ended_at.is_(None)))
            waits = {wait.job_id: wait for wait in open_waits}
        places: dict[str, int] = {}
        records = []
        requests = (request_of(entry) for entry in entries.values())
        for request in sorted(requests, key=lambda one: (-one.priority, one.submitted_at, one.job_id)):
            places[request.tenant] = places.get(request.tenant, 0) + 1
            records.append(_queued(entries[request.job_id], places[request.tenant], waits.get(request.job_id)))
        return records

    def queued(self, job_id: str) -> QueuedRecord | None:
        """One job that waits, as :meth:`queue` has it, without reading the rest; ``None`` when it is not in the queue."""
        with self._transaction() as session:
            entry = session.get(QueueEntry, job_id)
            if entry is None:
                return None
            mine = (entry.submitted_at, entry.job_id)
            earlier = and_(
                QueueEntry.priority == entry.priority, tuple_(QueueEntry.submitted_at, QueueEntry.job_id) < mine
            )
            ahead = or_(QueueEntry.priority > entry.priority, earlier)
            count = select(func.count()).where(QueueEntry.tenant == entry.tenant, ahead)
            open_wait = select(WaitInterval).where(WaitInterval.job_id == job_id, WaitInterval.ended_at.is_(None))
            return _queued(entry, 1 + (session.scalar(count) or 0), session.scalar(open_wait))

    def queue_state(self) -> QueueState:
        """Which jobs wait, which of those are to be halted, and which jobs hold a lease."""
        halted = select(Job.job_id).join(QueueEntry, QueueEntry.job_id == Job.job_id)
        with self._transaction() as session:
            return QueueState(
                waiting=frozenset(session.scalars(select(QueueEntry.job_id))),
                halted=frozenset(session.scalars(halted.where(Job.halt_requested_by.is_not(None)))),
                leased=frozenset(session.scalars(select(Lease.job_id).where(Lease.released_at.is_(None)))),
            )

    def waits(self, job_id: str) -> list[WaitRecord]:
        """The job's waits, in order; the last one may be open."""
        query = select(WaitInterval).where(WaitInterval.job_id == job_id).order_by(WaitInterval.id)
        with self._transaction() as session:
            return [WaitRecord.of(row) for row in session.scalars(query)]


def _queued(entry: QueueEntry, position: int, row: WaitInterval | None) -> QueuedRecord:
    wait = WaitRecord.of(row) if row is not None else None
    return QueuedRecord(
        request=request_of(entry),
        position=position,
        enqueued_at=entry.enqueued_at,
        cause=wait.cause if wait else None,
        message=wait.message if wait else None,
        holders=wait.holders if wait else (),
        earliest=wait.earliest if wait else None,
    )


def request_of(entry: QueueEntry) -> GangRequest:
    """The request of a queued job."""
    fields = {name: getattr(entry, name) for name in _REQUEST_FIELDS}
    fields["strategy"] = Strategy(entry.strategy) if entry.strategy else None
    fields["level"] = Level(entry.level) if entry.level is not None else None
    return GangRequest(
        job_id=entry.job_id, excluded_nodes=frozenset(entry.excluded_nodes), queued_at=entry.enqueued_at, **fields
    )


def leave_queue(session: Session, job_id: str, now: datetime, reason: str) -> bool:
    """Take a job out of the queue, within a transaction that holds the queue's lock, and close its wait.

    :returns: whether it was in it.
    """
    removed = session.scalar(delete(QueueEntry).where(QueueEntry.job_id == job_id).returning(QueueEntry.job_id))
    open_wait = update(WaitInterval).where(WaitInterval.job_id == job_id, WaitInterval.ended_at.is_(None))
    session.execute(open_wait.values(ended_at=now, ended_reason=reason))
    return removed is not None


def note_wait(session: Session, wait: Wait, current: WaitInterval | None, since: datetime, now: datetime) -> None:
    """Keep why a job waits now: go on with its interval, or close it and begin another.

    :param current: its open interval.
    :param since: when it was put into the queue; its first interval begins there.
    """
    holders = [_stored(holder) for holder in wait.holders]
    numbers = dict(wait.numbers)
    if wait.earliest is not None:
        numbers["earliest"] = wait.earliest.isoformat()
    if current is not None and (current.cause, _who(current.holders)) == (wait.cause.value, _who(holders)):
        if (current.numbers, current.holders) != (numbers, holders):
            current.message, current.numbers, current.holders = wait_words(wait), numbers, holders
        return
    if current is not None:
        current.ended_at, current.ended_reason = now, "the cause changed"
        session.flush()
    session.add(
        WaitInterval(
            job_id=wait.job_id,
            cause=wait.cause.value,
            message=wait_words(wait),
            holders=holders,
            numbers=numbers,
            started_at=now if current is not None else since,
        )
    )


def _stored(holder: Holder) -> dict[str, Any]:
    until = holder.until.isoformat() if holder.until else None
    return {**asdict(holder), "until": until}


def _who(holders: list[dict[str, object]]) -> frozenset[object]:
    """The holders as far as they tell two waits apart: which jobs, not how much."""
    return frozenset(holder["job_id"] for holder in holders)
