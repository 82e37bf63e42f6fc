"""The history of the ledger's tables: one file a version, run by Alembic through `schema.upgrade`."""
