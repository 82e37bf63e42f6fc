"""The ledger's tables. All times are aware and in UTC; sizes are bytes; GPU numbers are per learner, as in the manifest."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import BigInteger, DateTime, ForeignKey, Identity, Index, MetaData, Sequence, String, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from ffdl_ops.adapters.ledger.values import AnyText

__all__ = [
    "Attempt",
    "AuditLine",
    "Base",
    "Checkpoint",
    "Closure",
    "Cursor",
    "Follower",
    "Job",
    "Lease",
    "QueueEntry",
    "ReservedPlaces",
    "Stage",
    "TenantLimits",
    "Transition",
    "WaitInterval",
    "lease_epochs",
]

_NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """Common ground of the tables."""

    metadata = MetaData(naming_convention=_NAMING)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: DateTime(timezone=True),
        dict[str, Any]: JSONB(none_as_null=True),
        list[Any]: JSONB(none_as_null=True),
        str: AnyText(),
    }


def _job() -> Mapped[str]:
    """The job that a row belongs to; the row goes with it."""
    return mapped_column(ForeignKey("jobs.job_id", ondelete="CASCADE"))


def _open(name: str, column: str, condition: str) -> Index:
    """At most one row per job that meets the condition."""
    return Index(name, column, unique=True, postgresql_where=text(condition))


# An epoch is larger than every earlier one, of any job: whoever acts under an old one is told from its number.
lease_epochs = Sequence("lease_epochs", metadata=Base.metadata)


class Job(Base):
    """A training job."""

    __tablename__ = "jobs"
    __table_args__ = (Index(None, "tenant", "created_at"), Index(None, "state"))

    job_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    tenant: Mapped[str]
    dag_id: Mapped[str]
    run_id: Mapped[str]
    user: Mapped[str] = mapped_column("submitted_by")
    name: Mapped[str]
    manifest: Mapped[dict[str, Any]]
    framework: Mapped[str]
    learners: Mapped[int]
    gpus: Mapped[int]
    gpu_type: Mapped[str | None]
    priority: Mapped[int] = mapped_column(server_default="0")
    state: Mapped[str] = mapped_column(String(16))
    outcome: Mapped[str | None] = mapped_column(String(16))
    failure: Mapped[dict[str, Any] | None]
    halt_requested_by: Mapped[str | None]
    halt_requested_at: Mapped[datetime | None]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    resume_count: Mapped[int] = mapped_column(server_default="0")
    mlflow_run_id: Mapped[str | None]
    mlflow_experiment_id: Mapped[str | None]
    code_uri: Mapped[str | None]
    dataset_key: Mapped[str | None]
    dataset: Mapped[dict[str, Any] | None]
    excluded_nodes: Mapped[list[Any]] = mapped_column(server_default=text("'[]'::jsonb"))


class Transition(Base):
    """One change of a job's state. Rows are only ever added."""

    __tablename__ = "transitions"
    __table_args__ = (Index(None, "job_id", "id"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[str] = _job()
    from_state: Mapped[str | None] = mapped_column(String(16))
    to_state: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str]
    at: Mapped[datetime]
    resume_count: Mapped[int]


class Attempt(Base):
    """One start of a job's gang."""

    __tablename__ = "attempts"
    __table_args__ = (_open("uq_attempts_open", "job_id", "ended_at IS NULL"),)

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.job_id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    lease_epoch: Mapped[int] = mapped_column(BigInteger)
    learners: Mapped[int]
    base_port: Mapped[int]
    restored_generation: Mapped[int | None]
    pods: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'::jsonb"))
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    outcome: Mapped[str | None] = mapped_column(String(32))
    failure: Mapped[dict[str, Any] | None]
    resume_count: Mapped[int]


class Lease(Base):
    """Places that a job holds, or held, on nodes."""

    __tablename__ = "leases"
    __table_args__ = (
        _open("uq_leases_live", "job_id", "released_at IS NULL"),
        Index(None, "job_id"),
    )

    epoch: Mapped[int] = mapped_column(BigInteger, lease_epochs, primary_key=True)
    job_id: Mapped[str] = _job()
    tenant: Mapped[str]
    placements: Mapped[list[Any]]
    gpus: Mapped[int]
    cpu_millis: Mapped[int] = mapped_column(BigInteger)
    memory_bytes: Mapped[int] = mapped_column(BigInteger)
    gpu_type: Mapped[str | None]
    granted_at: Mapped[datetime]
    released_at: Mapped[datetime | None]
    release_reason: Mapped[str | None]
    user: Mapped[str] = mapped_column("submitted_by", server_default="")
    priority: Mapped[int] = mapped_column(server_default="0")
    expected_end: Mapped[datetime | None]
    served_gpu_s: Mapped[float] = mapped_column(server_default="0")
    aged: Mapped[bool] = mapped_column(server_default="false")
    saved_at: Mapped[datetime | None]
    preempted_at: Mapped[datetime | None]
    preemption: Mapped[dict[str, Any] | None]


class QueueEntry(Base):
    """A job that waits for its gang: what it asks for, and its place at the last pass."""

    __tablename__ = "queue"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.job_id", ondelete="CASCADE"), primary_key=True)
    tenant: Mapped[str]
    learners_min: Mapped[int]
    learners_max: Mapped[int]
    gpus: Mapped[int]
    gpu_type: Mapped[str | None]
    cpu_millis: Mapped[int] = mapped_column(BigInteger)
    memory_bytes: Mapped[int] = mapped_column(BigInteger)
    priority: Mapped[int]
    submitted_at: Mapped[datetime]
    excluded_nodes: Mapped[list[Any]]
    user: Mapped[str] = mapped_column("submitted_by")
    enqueued_at: Mapped[datetime]
    expected_s: Mapped[float | None]
    served_s: Mapped[float] = mapped_column(server_default="0")
    served_gpu_s: Mapped[float] = mapped_column(server_default="0")
    strategy: Mapped[str | None] = mapped_column(String(16))
    level: Mapped[int | None]
    relax_s: Mapped[float | None]


class ReservedPlaces(Base):
    """Places that are kept for a waiting job; they go when it leaves the queue."""

    __tablename__ = "reservations"

    job_id: Mapped[str] = mapped_column(ForeignKey("queue.job_id", ondelete="CASCADE"), primary_key=True)
    tenant: Mapped[str]
    user: Mapped[str] = mapped_column("submitted_by")
    placements: Mapped[list[Any]]
    gpus: Mapped[int]
    cpu_millis: Mapped[int] = mapped_column(BigInteger)
    memory_bytes: Mapped[int] = mapped_column(BigInteger)
    gpu_type: Mapped[str | None]
    since: Mapped[datetime]
    preemption: Mapped[bool]


class Closure(Base):
    """That nothing may start, and why; `scope` is "platform"."""

    __tablename__ = "closures"

    scope: Mapped[str] = mapped_column(String(16), primary_key=True)
    reason: Mapped[str]
    closed_by: Mapped[str]
    at: Mapped[datetime]


class TenantLimits(Base):
    """A tenant's limits as they were last seen, so that a change of them is noticed."""

    __tablename__ = "tenant_limits"

    tenant: Mapped[str] = mapped_column(String(64), primary_key=True)
    limits: Mapped[dict[str, Any]]
    at: Mapped[datetime]


class AuditLine(Base):
    """Something that was decided or ordered. Rows are only ever added, and outlive the job."""

    __tablename__ = "audit"
    __table_args__ = (Index(None, "at"), Index(None, "job_id"))

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    at: Mapped[datetime]
    actor: Mapped[str]
    action: Mapped[str] = mapped_column(String(32))
    tenant: Mapped[str | None]
    job_id: Mapped[str | None] = mapped_column(String(64))
    words: Mapped[str]


class WaitInterval(Base):
    """A time in which a job waited for one cause and the same holders."""

    __tablename__ = "waits"
    __table_args__ = (_open("uq_waits_open", "job_id", "ended_at IS NULL"), Index(None, "job_id", "id"))

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[str] = _job()
    cause: Mapped[str] = mapped_column(String(16))
    message: Mapped[str]
    holders: Mapped[list[Any]]
    numbers: Mapped[dict[str, Any]]
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    ended_reason: Mapped[str | None]


class Stage(Base):
    """One run of one stage of a job."""

    __tablename__ = "stages"
    __table_args__ = (
        Index("uq_stages_open", "job_id", "stage", unique=True, postgresql_where=text("ended_at IS NULL")),
        Index(None, "job_id", "id"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[str] = _job()
    stage: Mapped[str] = mapped_column(String(64))
    try_number: Mapped[int]
    resume_count: Mapped[int]
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    outcome: Mapped[str | None] = mapped_column(String(32))


class Checkpoint(Base):
    """A generation of a job's checkpoint in the object store."""

    __tablename__ = "checkpoints"
    __table_args__ = (_open("uq_checkpoints_promoted", "job_id", "promoted"),)

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.job_id", ondelete="CASCADE"), primary_key=True)
    generation: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    attempt: Mapped[int]
    step: Mapped[int | None] = mapped_column(BigInteger)
    bytes: Mapped[int] = mapped_column(BigInteger)
    files: Mapped[int]
    complete: Mapped[bool]
    promoted: Mapped[bool]
    created_at: Mapped[datetime]


class Cursor(Base):
    """How far a reader of a job's output has come, or that a step of it is done.

    `epoch` is the follower's that wrote it; 0 when it belongs to no follower.
    """

    __tablename__ = "cursors"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.job_id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[dict[str, Any]]
    epoch: Mapped[int] = mapped_column(BigInteger)


class Follower(Base):
    """Who may write a job's metrics, and until when."""

    __tablename__ = "followers"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.job_id", ondelete="CASCADE"), primary_key=True)
    owner: Mapped[str]
    epoch: Mapped[int] = mapped_column(BigInteger)
    expires_at: Mapped[datetime]
