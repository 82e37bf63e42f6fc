"""What the ledger gives and takes: immutable records. All times are aware and in UTC; all GPU numbers are per learner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ffdl_ops.core.jobs.states import JobState
from ffdl_ops.core.scheduling.decisions import Holder, WaitCause
from ffdl_ops.core.scheduling.model import GangRequest, Grant, Placement, Reservation

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import models

__all__ = [
    "AttemptRecord",
    "AuditRecord",
    "CheckpointRecord",
    "JobRecord",
    "LeaseRecord",
    "NewJob",
    "QueueState",
    "QueuedRecord",
    "StageRecord",
    "TransitionRecord",
    "WaitRecord",
    "reservation_of",
]


@dataclass(frozen=True)
class NewJob:
    """A job to be stored.

    :param manifest: as :meth:`Manifest.to_dict` gives it; without credentials.
    :param learners: the most it may have; `gpus` each of them takes.
    """

    job_id: str
    tenant: str
    dag_id: str
    run_id: str
    user: str
    name: str
    manifest: Mapping[str, Any]
    framework: str
    learners: int
    gpus: int
    gpu_type: str | None = None
    priority: int = 0


@dataclass(frozen=True)
class JobRecord:
    """A stored job.

    :param outcome: how this incarnation ended: "completed", "failed", "halted"; ``None`` while it has not.
    :param failure: class, evidence and advice, when it failed.
    :param resume_count: how often it was resumed; an incarnation's number.
    """

    job_id: str
    tenant: str
    dag_id: str
    run_id: str
    user: str
    name: str
    manifest: dict[str, Any]
    framework: str
    learners: int
    gpus: int
    gpu_type: str | None
    priority: int
    state: JobState
    outcome: str | None
    failure: dict[str, Any] | None
    halt_requested_by: str | None
    halt_requested_at: datetime | None
    created_at: datetime
    updated_at: datetime
    resume_count: int
    mlflow_run_id: str | None
    mlflow_experiment_id: str | None
    code_uri: str | None
    dataset_key: str | None
    dataset: dict[str, Any] | None
    excluded_nodes: tuple[str, ...]

    @classmethod
    def of(cls, row: models.Job) -> JobRecord:
        """The record of a row."""
        values = {name: getattr(row, name) for name in cls.__dataclass_fields__}
        values |= {"state": JobState(row.state), "excluded_nodes": tuple(row.excluded_nodes)}
        return cls(**values)


@dataclass(frozen=True)
class TransitionRecord:
    """A change of a job's state; `from_state` is ``None`` for its creation."""

    job_id: str
    from_state: JobState | None
    to_state: JobState
    reason: str
    at: datetime
    resume_count: int

    @classmethod
    def of(cls, row: models.Transition) -> TransitionRecord:
        """The record of a row."""
        before = JobState(row.from_state) if row.from_state else None
        return cls(row.job_id, before, JobState(row.to_state), row.reason, row.at, row.resume_count)


@dataclass(frozen=True)
class AttemptRecord:
    """One start of a job's gang.

    :param pods: by rank, `{"pod": name, "uid": its identity, "node": where it was put}`; empty until they were created.
    :param outcome: "succeeded", "failed", "stopped", …; ``None`` while it is open.
    """

    job_id: str
    number: int
    lease_epoch: int
    learners: int
    base_port: int
    restored_generation: int | None
    pods: dict[int, dict[str, Any]]
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None
    failure: dict[str, Any] | None
    resume_count: int

    @classmethod
    def of(cls, row: models.Attempt) -> AttemptRecord:
        """The record of a row."""
        values = {name: getattr(row, name) for name in cls.__dataclass_fields__}
        values["pods"] = {int(rank): dict(pod) for rank, pod in sorted(row.pods.items(), key=lambda item: int(item[0]))}
        return cls(**values)


@dataclass(frozen=True)
class LeaseRecord:
    """Places that a job holds, or held until `released_at`. `gpus`, `cpu_millis`, `memory_bytes` are per learner.

    :param saved_at: when its newest checkpoint was whole in the object store, if it has one.
    :param preempted_at: when it was told to stop for somebody else, if it was; `preemption` says for whom and why.
    """

    job_id: str
    tenant: str
    epoch: int
    placements: tuple[Placement, ...]
    gpus: int
    cpu_millis: int
    memory_bytes: int
    gpu_type: str | None
    granted_at: datetime
    released_at: datetime | None
    release_reason: str | None
    user: str = ""
    priority: int = 0
    expected_end: datetime | None = None
    served_gpu_s: float = 0.0
    aged: bool = False
    saved_at: datetime | None = None
    preempted_at: datetime | None = None
    preemption: dict[str, Any] | None = None

    @property
    def gpus_total(self) -> int:
        """GPUs that it holds in all."""
        return self.gpus * len(self.placements)

    @property
    def grant(self) -> Grant:
        """The lease as the scheduler sees it."""
        return Grant(
            job_id=self.job_id,
            tenant=self.tenant,
            epoch=self.epoch,
            placements=self.placements,
            gpus=self.gpus,
            cpu_millis=self.cpu_millis,
            memory_bytes=self.memory_bytes,
            gpu_type=self.gpu_type,
            priority=self.priority,
            user=self.user,
            granted_at=self.granted_at,
            saved_at=self.saved_at or self.granted_at,
            expected_end=self.expected_end,
            served_gpu_s=self.served_gpu_s,
            aged=self.aged,
            preempting=self.preempted_at is not None,
        )

    @classmethod
    def of(cls, row: models.Lease) -> LeaseRecord:
        """The record of a row."""
        values = {name: getattr(row, name) for name in cls.__dataclass_fields__}
        values["placements"] = tuple(Placement(place["rank"], place["node"]) for place in row.placements)
        return cls(**values)


def reservation_of(row: models.ReservedPlaces) -> Reservation:
    """The reservation of a row."""
    values = {name: getattr(row, name) for name in Reservation.__dataclass_fields__}
    values["placements"] = tuple(Placement(place["rank"], place["node"]) for place in row.placements)
    return Reservation(**values)


@dataclass(frozen=True)
class AuditRecord:
    """Something that was decided or ordered: by whom, of which tenant's which job, in words."""

    at: datetime
    actor: str
    action: str
    tenant: str | None
    job_id: str | None
    words: str

    @classmethod
    def of(cls, row: models.AuditLine) -> AuditRecord:
        """The record of a row."""
        return cls(**{name: getattr(row, name) for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class QueuedRecord:
    """A job that waits.

    :param position: its place in its tenant's queue, from 1.
    :param cause: why it waits, by the last pass; ``None`` before the first. So are `message`, `holders` and `earliest`.
    :param earliest: no sooner than this can it start, by what is known of the holders' ends.
    """

    request: GangRequest
    position: int
    enqueued_at: datetime
    cause: WaitCause | None
    message: str | None
    holders: tuple[Holder, ...] = ()
    earliest: datetime | None = None


@dataclass(frozen=True)
class QueueState:
    """Ids of the jobs that wait, of those among them that are to be halted, and of all that hold a lease."""

    waiting: frozenset[str]
    halted: frozenset[str]
    leased: frozenset[str]


@dataclass(frozen=True)
class WaitRecord:
    """A time in which a job waited for one cause and the same holders.

    :param message: and `numbers`: as they were last.
    """

    job_id: str
    cause: WaitCause
    message: str
    holders: tuple[Holder, ...]
    numbers: dict[str, Any]
    started_at: datetime
    ended_at: datetime | None
    ended_reason: str | None

    @property
    def earliest(self) -> datetime | None:
        """No sooner than this could the job start, by what was known last of the holders' ends."""
        moment = self.numbers.get("earliest")
        return datetime.fromisoformat(moment) if moment else None

    @classmethod
    def of(cls, row: models.WaitInterval) -> WaitRecord:
        """The record of a row."""
        values = {name: getattr(row, name) for name in cls.__dataclass_fields__}
        values |= {"cause": WaitCause(row.cause), "holders": tuple(map(_holder, row.holders))}
        return cls(**values)


def _holder(stored: Mapping[str, Any]) -> Holder:
    until = stored.get("until")
    return Holder(**{**stored, "until": datetime.fromisoformat(until) if until else None})


@dataclass(frozen=True)
class StageRecord:
    """One run of one stage of a job; `try_number` is Airflow's."""

    job_id: str
    stage: str
    try_number: int
    resume_count: int
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None

    @classmethod
    def of(cls, row: models.Stage) -> StageRecord:
        """The record of a row."""
        return cls(**{name: getattr(row, name) for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class CheckpointRecord:
    """A generation of a job's checkpoint in the object store.

    :param attempt: which wrote it; `step` of the training, if it is known.
    :param complete: whether every file of every rank is there; only then may it be promoted.
    :param promoted: whether it is the one that a resumed job starts from.
    """

    generation: int
    attempt: int
    step: int | None
    bytes: int
    files: int
    complete: bool
    promoted: bool
    created_at: datetime

    @classmethod
    def of(cls, row: models.Checkpoint) -> CheckpointRecord:
        """The record of a row."""
        return cls(**{name: getattr(row, name) for name in cls.__dataclass_fields__})
