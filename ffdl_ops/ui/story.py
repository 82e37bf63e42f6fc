"""Why a job waits, as one person may know it.

The ledger's own sentence names other tenants' jobs and people. Here it is put together anew: of a tenant whose DAG the
reader may not read, a holder is the tenant's name, its GPUs, and until when.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ffdl_ops.core.jobs.ids import dag_id
from ffdl_ops.core.jobs.states import TERMINAL, JobState
from ffdl_ops.core.scheduling.decisions import Holder, Wait, WaitCause
from ffdl_ops.core.scheduling.reasons import cause_words, wait_words

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord, QueuedRecord, WaitRecord
    from ffdl_ops.ui.host import MayRead, WaitLedger

__all__ = ["REFRESH_S", "HolderLine", "Interval", "WaitStory", "read_story", "tell"]

REFRESH_S = 5
_HOLDS = frozenset({JobState.DEPLOYING, JobState.PROCESSING, JobState.STORING})
_GO_FIRST = frozenset({WaitCause.ORDER, WaitCause.RESERVATION})


@dataclass(frozen=True)
class Phase:
    """Where a job is, as far as waiting goes.

    :param moving: whether this may change soon, so that the page is worth loading again.
    """

    name: str
    words: str
    moving: bool


_WAITS = Phase("waits", "It waits for its gang's places.", True)
_GRANTED = Phase("granted", "It has been granted its places; its learners are about to start.", True)
_NOT_YET = Phase("not_yet", "It has not asked for places yet; nothing is held for it.", True)
_RUNS = Phase("runs", "It does not wait: it has its places.", False)
_STORES = Phase("stores", "It does not wait: its learners have ended, and what they made is being stored.", False)
_ENDED = Phase("ended", "It has ended, and waits for nothing.", False)


@dataclass(frozen=True)
class HolderLine:
    """Who holds what the job waits for (or goes before it).

    :param overdue: whether it was expected to have ended by now.
    :param job_id: and `user`: ``None`` for somebody whose jobs the reader may not see.
    """

    tenant: str
    gpus: int
    until: datetime | None
    overdue: bool
    job_id: str | None
    user: str | None


@dataclass(frozen=True)
class Interval:
    """A time of waiting for one cause and the same holders; `ended_at` is ``None`` while it lasts."""

    cause: str
    started_at: datetime
    ended_at: datetime | None
    seconds: float
    ended_reason: str | None


@dataclass(frozen=True)
class WaitStory:
    """All that the page shows, and its JSON.

    :param go_first: whether the holders go first, rather than hold what is waited for.
    :param refresh_s: when to look again; ``None`` when there is nothing more to see.
    """

    job_id: str
    name: str
    tenant: str
    user: str
    state: str
    phase: str
    words: str
    at: datetime
    position: int | None
    cause: str | None
    meaning: str | None
    message: str | None
    earliest: datetime | None
    go_first: bool
    holders: tuple[HolderLine, ...]
    waited_s: float
    seconds_by_cause: dict[str, float]
    intervals: tuple[Interval, ...]
    refresh_s: int | None


def read_story(ledger: WaitLedger, job_id: str, may_read: MayRead, now: datetime) -> tuple[JobRecord, WaitStory] | None:
    """The job and its story; ``None`` when there is no such job or the reader may not know of it."""
    job = ledger.job(job_id)
    if job is None or not may_read(job.dag_id):
        return None
    queued = ledger.queued(job_id)
    holds = queued is None and ledger.lease(job_id) is not None
    return job, tell(job, queued, ledger.waits(job_id), holds=holds, may_read=may_read, now=now)


def tell(
    job: JobRecord,
    queued: QueuedRecord | None,
    waits: Sequence[WaitRecord],
    *,
    holds: bool,
    may_read: MayRead,
    now: datetime,
) -> WaitStory:
    """The story of one job.

    :param holds: whether it holds places now.
    """
    phase = _phase(job, queued, holds)
    present = waits[-1] if queued is not None and waits and waits[-1].ended_at is None else None
    may_know = functools.cache(lambda tenant: tenant == job.tenant or may_read(dag_id(tenant)))
    intervals = tuple(_interval(one, now) for one in waits)
    by_cause: dict[str, float] = {}
    for one in intervals:
        by_cause[one.cause] = by_cause.get(one.cause, 0.0) + one.seconds
    return WaitStory(
        job_id=job.job_id,
        name=job.name,
        tenant=job.tenant,
        user=job.user,
        state=job.state.value,
        phase=phase.name,
        words=phase.words,
        at=now,
        position=queued.position if queued else None,
        cause=present.cause.value if present else None,
        meaning=cause_words(present.cause) if present else None,
        message=_message(present, queued, may_know) if present and queued else None,
        earliest=present.earliest if present else None,
        go_first=present is not None and present.cause in _GO_FIRST,
        holders=tuple(_line(one, now, known=may_know(one.tenant)) for one in present.holders) if present else (),
        waited_s=sum(by_cause.values()),
        seconds_by_cause=by_cause,
        intervals=intervals,
        refresh_s=REFRESH_S if phase.moving else None,
    )


def _phase(job: JobRecord, queued: QueuedRecord | None, holds: bool) -> Phase:
    if job.state in TERMINAL:
        return _ENDED
    if queued is not None:
        return _WAITS
    if job.state is JobState.STORING:
        return _STORES
    if job.state in _HOLDS:
        return _RUNS
    return _GRANTED if holds else _NOT_YET


def _message(wait: WaitRecord, queued: QueuedRecord, may_know: MayRead) -> str:
    """The ledger's sentence, with those holders unnamed whom the reader may not know."""
    holders = tuple(
        one if may_know(one.tenant) else Holder("", one.tenant, one.gpus, until=one.until) for one in wait.holders
    )
    return wait_words(Wait(wait.job_id, queued.position, wait.cause, holders, wait.earliest, wait.numbers))


def _line(holder: Holder, now: datetime, *, known: bool) -> HolderLine:
    return HolderLine(
        tenant=holder.tenant,
        gpus=holder.gpus,
        until=holder.until,
        overdue=holder.until is not None and holder.until < now,
        job_id=holder.job_id if known else None,
        user=holder.user or None if known else None,
    )


def _interval(wait: WaitRecord, now: datetime) -> Interval:
    lasted = ((wait.ended_at or now) - wait.started_at).total_seconds()
    return Interval(wait.cause.value, wait.started_at, wait.ended_at, max(lasted, 0.0), wait.ended_reason)
