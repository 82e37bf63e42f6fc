"""Reservations, preemption, what the scheduler knows of jobs, the closing of the platform, tenants' limits, and the audit."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_QUEUE: tuple[sa.Column[Any], ...] = (
    sa.Column("expected_s", sa.Float(), nullable=True),
    sa.Column("served_s", sa.Float(), server_default="0", nullable=False),
    sa.Column("served_gpu_s", sa.Float(), server_default="0", nullable=False),
    sa.Column("strategy", sa.String(length=16), nullable=True),
    sa.Column("level", sa.Integer(), nullable=True),
    sa.Column("relax_s", sa.Float(), nullable=True),
)
_LEASES: tuple[sa.Column[Any], ...] = (
    sa.Column("submitted_by", sa.Text(), server_default="", nullable=False),
    sa.Column("priority", sa.Integer(), server_default="0", nullable=False),
    sa.Column("expected_end", sa.DateTime(timezone=True), nullable=True),
    sa.Column("served_gpu_s", sa.Float(), server_default="0", nullable=False),
    sa.Column("aged", sa.Boolean(), server_default="false", nullable=False),
    sa.Column("saved_at", sa.DateTime(timezone=True), nullable=True),
    sa.Column("preempted_at", sa.DateTime(timezone=True), nullable=True),
    sa.Column("preemption", postgresql.JSONB(), nullable=True),
)


def upgrade() -> None:
    """To this version."""
    for table, columns in (("queue", _QUEUE), ("leases", _LEASES)):
        for column in columns:
            op.add_column(table, column.copy())
    op.create_table(
        "reservations",
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("submitted_by", sa.Text(), nullable=False),
        sa.Column("placements", postgresql.JSONB(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("cpu_millis", sa.BigInteger(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("gpu_type", sa.Text(), nullable=True),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("preemption", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["queue.job_id"], name=op.f("fk_reservations_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_reservations")),
    )
    op.create_table(
        "closures",
        sa.Column("scope", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("closed_by", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("scope", name=op.f("pk_closures")),
    )
    op.create_table(
        "tenant_limits",
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("limits", postgresql.JSONB(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", name=op.f("pk_tenant_limits")),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("job_id", sa.String(length=64), nullable=True),
        sa.Column("words", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_at"), "audit", ["at"], unique=False)
    op.create_index(op.f("ix_audit_job_id"), "audit", ["job_id"], unique=False)


def downgrade() -> None:
    """Back to the one before."""
    for table in ("audit", "tenant_limits", "closures", "reservations"):
        op.drop_table(table)
    for table, columns in (("queue", _QUEUE), ("leases", _LEASES)):
        for column in columns:
            op.drop_column(table, column.name)
