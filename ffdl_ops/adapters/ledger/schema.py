"""The tables' versions: Alembic, run from inside the program."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.util import CommandError
from sqlalchemy import text

from ffdl_ops.adapters.ledger.engine import Database
from ffdl_ops.adapters.ledger.errors import NotMigrated, described

__all__ = ["alembic_config", "current", "upgrade"]

_MIGRATION_LOCK = 0x_FFD1_0002


def alembic_config() -> Config:
    """Alembic's configuration: the scripts are in the package, the connection is handed over by :func:`upgrade`."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config


def upgrade(database: Database, revision: str = "head") -> None:
    """Bring the tables to a version, in one transaction; one process at a time.

    :raises NotMigrated: when a newer program has been at work: its version is unknown here, and nothing is touched.
    """
    config = alembic_config()
    with described(database.url), database.engine.begin() as connection:
        # A migration of a large table, and the wait for another's migration, may take longer than a transaction may.
        connection.execute(text("SET LOCAL lock_timeout = '10min'"))
        connection.execute(text("SET LOCAL statement_timeout = '10min'"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, revision)
        except CommandError as error:
            raise NotMigrated(
                f"The ledger's tables are of a version that this program does not know ({error}); update the program."
            ) from None


def current(database: Database) -> str | None:
    """The version that the tables have."""
    with described(database.url), database.engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()
