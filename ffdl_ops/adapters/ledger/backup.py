"""Backup and restore of a whole PostgreSQL database, the ledger's or any other (MLflow's), by PostgreSQL's own programs.

A backup is one file in `pg_dump`'s custom format; it is there whole or not at all. A restore is one transaction: if it
fails, the database is as it was.

What it does not do: roles and privileges are not part of a backup; and what other programs do in the database between the
backup and the restore is lost, as it has to be.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.engine import URL

from ffdl_ops.adapters.ledger.engine import Database
from ffdl_ops.adapters.ledger.errors import Refused, described
from ffdl_ops.adapters.ledger.programs import ProgramFailed, find_programs, run_local, run_program
from ffdl_ops.core.errors import UserError

__all__ = ["backup_database", "restore_database"]

_LOCK_WAIT = "20s"
_MAGIC = b"PGDMP"
_PROGRAMS = ("pg_dump", "pg_restore", "psql")


def backup_database(url: str, path: str | Path) -> Path:
    """Write a backup of the database; an older file of that name is replaced once the new one is whole and readable.

    :param url: SQLAlchemy's URL of the database.
    :param path: the file; only its owner may read it.
    :returns: the file's path.
    :raises LedgerUnavailable: when the database can't be reached.
    :raises ProgramMissing: when there is no `pg_dump` for the server's version.
    :raises ProgramFailed: when it fails (no space, no right to read, …).
    """
    path = Path(path)
    database = Database(url)
    programs = find_programs(_PROGRAMS, _server_major(database))
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    new = Path(name)
    try:
        dump = [programs["pg_dump"], "--format=custom", "--no-owner", "--no-privileges", f"--file={new}"]
        run_program(dump, database.url)
        run_local([programs["pg_restore"], "--list", str(new)])
        _sync(new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
        database.close()
    return path


def restore_database(url: str, path: str | Path, *, replace: bool = False) -> None:
    """Bring the database to what it was at the backup.

    :param replace: whether a database that holds tables may be overwritten; they are removed first.
    :raises UserError: when the file is not a backup.
    :raises Refused: when the database holds tables and `replace` is not given.
    :raises ProgramFailed: when it fails; the database is as it was.
    """
    path = Path(path)
    _check_file(path)
    database = Database(url)
    try:
        programs = find_programs(_PROGRAMS, _server_major(database))
        tables = _tables(database)
        if tables and not replace:
            raise Refused(
                f"Database {database.url.database} holds {tables} tables already; restoring over them has to be asked for "
                "(`--replace`), and loses them."
            )
        with tempfile.TemporaryDirectory(prefix="ffdl-restore-") as folder:
            _restore(database.url, path, Path(folder), programs, _schemas(database))
    finally:
        database.close()


def _restore(url: URL, path: Path, folder: Path, programs: dict[str, str], schemas: list[str]) -> None:
    """Empty the database and fill it, in one transaction."""
    clear, fill = folder / "clear.sql", folder / "fill.sql"
    drops = [f'DROP SCHEMA "{name}" CASCADE;' for name in schemas]
    clear.write_text(
        "\n".join(
            [
                f"SET LOCAL lock_timeout = '{_LOCK_WAIT}';",
                *drops,
                "CREATE SCHEMA IF NOT EXISTS public AUTHORIZATION pg_database_owner;",
                "GRANT USAGE ON SCHEMA public TO PUBLIC;",
            ]
        )
    )
    dump = [programs["pg_restore"], "--no-owner", "--no-privileges", f"--file={fill}", str(path)]
    run_local(dump)
    psql = [programs["psql"], "--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1"]
    try:
        run_program([*psql, f"--file={clear}", f"--file={fill}"], url)
    except ProgramFailed as failure:
        if "lock timeout" in str(failure):
            raise ProgramFailed(
                f"Database {url.database} is in use; stop what uses it (`ffdl down`) and restore again. {failure}"
            ) from None
        raise


def _check_file(path: Path) -> None:
    """:raises UserError: when it is no backup of ours."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except OSError as error:
        raise UserError(f"Backup {path} can't be read: {error.strerror}.") from None
    if start != _MAGIC:
        raise UserError(f"{path} is not a backup that `ffdl backup` made (nor any dump in PostgreSQL's custom format).")


def _server_major(database: Database) -> int:
    with described(database.url), database.engine.connect() as connection:
        return int(connection.execute(text("SHOW server_version_num")).scalar_one()) // 10_000


def _tables(database: Database) -> int:
    query = (
        "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"
    )
    with described(database.url), database.engine.connect() as connection:
        return int(connection.execute(text(query)).scalar_one())


def _schemas(database: Database) -> list[str]:
    query = "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' ORDER BY 1"
    with described(database.url), database.engine.connect() as connection:
        return [str(row[0]).replace('"', '""') for row in connection.execute(text(query))]


def _sync(path: Path) -> None:
    """Have the file on the disk before it takes the older one's name."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
