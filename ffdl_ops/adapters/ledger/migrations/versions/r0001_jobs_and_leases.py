"""Jobs, their states and attempts; the queue, leases and waits; the stages' times."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this version."""
    op.execute(sa.schema.CreateSequence(sa.Sequence("lease_epochs")))
    op.create_table(
        "jobs",
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("submitted_by", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("manifest", postgresql.JSONB(), nullable=False),
        sa.Column("framework", sa.Text(), nullable=False),
        sa.Column("learners", sa.Integer(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("gpu_type", sa.Text(), nullable=True),
        sa.Column("priority", sa.Integer(), server_default="0", nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("failure", postgresql.JSONB(), nullable=True),
        sa.Column("halt_requested_by", sa.Text(), nullable=True),
        sa.Column("halt_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("resume_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("mlflow_run_id", sa.Text(), nullable=True),
        sa.Column("mlflow_experiment_id", sa.Text(), nullable=True),
        sa.Column("code_uri", sa.Text(), nullable=True),
        sa.Column("dataset_key", sa.Text(), nullable=True),
        sa.Column("dataset", postgresql.JSONB(), nullable=True),
        sa.Column("excluded_nodes", postgresql.JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_jobs")),
    )
    op.create_index(op.f("ix_jobs_state"), "jobs", ["state"], unique=False)
    op.create_index(op.f("ix_jobs_tenant_created_at"), "jobs", ["tenant", "created_at"], unique=False)
    op.create_table(
        "attempts",
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("lease_epoch", sa.BigInteger(), nullable=False),
        sa.Column("learners", sa.Integer(), nullable=False),
        sa.Column("base_port", sa.Integer(), nullable=False),
        sa.Column("restored_generation", sa.Integer(), nullable=True),
        sa.Column("pods", postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.String(length=32), nullable=True),
        sa.Column("failure", postgresql.JSONB(), nullable=True),
        sa.Column("resume_count", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name=op.f("fk_attempts_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f("pk_attempts")),
    )
    op.create_index(
        "uq_attempts_open", "attempts", ["job_id"], unique=True, postgresql_where=sa.text("ended_at IS NULL")
    )
    op.create_table(
        "leases",
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("placements", postgresql.JSONB(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("cpu_millis", sa.BigInteger(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("gpu_type", sa.Text(), nullable=True),
        sa.Column("granted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("released_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("release_reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name=op.f("fk_leases_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("epoch", name=op.f("pk_leases")),
    )
    op.create_index(op.f("ix_leases_job_id"), "leases", ["job_id"], unique=False)
    op.create_index(
        "uq_leases_live", "leases", ["job_id"], unique=True, postgresql_where=sa.text("released_at IS NULL")
    )
    op.create_table(
        "queue",
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("learners_min", sa.Integer(), nullable=False),
        sa.Column("learners_max", sa.Integer(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("gpu_type", sa.Text(), nullable=True),
        sa.Column("cpu_millis", sa.BigInteger(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("excluded_nodes", postgresql.JSONB(), nullable=False),
        sa.Column("submitted_by", sa.Text(), nullable=False),
        sa.Column("enqueued_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name=op.f("fk_queue_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_queue")),
    )
    op.create_table(
        "stages",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("stage", sa.String(length=64), nullable=False),
        sa.Column("try_number", sa.Integer(), nullable=False),
        sa.Column("resume_count", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.String(length=32), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name=op.f("fk_stages_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stages")),
    )
    op.create_index(op.f("ix_stages_job_id_id"), "stages", ["job_id", "id"], unique=False)
    op.create_index(
        "uq_stages_open", "stages", ["job_id", "stage"], unique=True, postgresql_where=sa.text("ended_at IS NULL")
    )
    op.create_table(
        "transitions",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("from_state", sa.String(length=16), nullable=True),
        sa.Column("to_state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("resume_count", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name=op.f("fk_transitions_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_transitions")),
    )
    op.create_index(op.f("ix_transitions_job_id_id"), "transitions", ["job_id", "id"], unique=False)
    op.create_table(
        "waits",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("cause", sa.String(length=16), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("holders", postgresql.JSONB(), nullable=False),
        sa.Column("numbers", postgresql.JSONB(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name=op.f("fk_waits_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_waits")),
    )
    op.create_index(op.f("ix_waits_job_id_id"), "waits", ["job_id", "id"], unique=False)
    op.create_index("uq_waits_open", "waits", ["job_id"], unique=True, postgresql_where=sa.text("ended_at IS NULL"))


def downgrade() -> None:
    """Back to the one before."""
    op.drop_table("stages")
    op.drop_table("waits")
    op.drop_table("queue")
    op.drop_table("leases")
    op.drop_table("attempts")
    op.drop_table("transitions")
    op.drop_table("jobs")
    op.execute(sa.schema.DropSequence(sa.Sequence("lease_epochs")))
