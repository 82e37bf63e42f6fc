"""Alembic's entry point: works on the connection that `schema.upgrade` hands over."""

from __future__ import annotations

from alembic import context

from ffdl_ops.adapters.ledger.models import Base

context.configure(
    connection=context.config.attributes.get("connection"),
    target_metadata=Base.metadata,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
