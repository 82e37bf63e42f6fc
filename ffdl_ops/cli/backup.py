"""`ffdl backup` and `ffdl restore`: the ledger's and MLflow's databases. Buckets are not part of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ffdl_ops.cli.options import as_json, pass_session
from ffdl_ops.cli.output import emit_json, say
from ffdl_ops.cli.session import Session
from ffdl_ops.core.errors import UserError

if TYPE_CHECKING:
    from ffdl_ops.adapters.settings import Settings

__all__ = ["commands"]

_NAMES = ("ledger", "mlflow")
_only = click.option("--only", type=click.Choice(_NAMES), help="Only this database.  [default: both]")


@click.command()
@click.argument("directory", required=False, type=click.Path(path_type=Path, file_okay=False))
@_only
@as_json
@pass_session
def backup(session: Session, directory: Path | None, only: str | None, as_json: bool) -> None:
    """Back up the ledger's and MLflow's databases into DIRECTORY (default: ffdl-backup-<time>), in use or after `ffdl down`.

    Each is one file in PostgreSQL's own format; a file of an earlier backup is replaced once the new one is whole.
    """
    from ffdl_ops.adapters.ledger.backup import backup_database

    directory = directory or Path(f"ffdl-backup-{session.now():%Y%m%dT%H%M%SZ}")
    urls = {name: _url(session.settings, name) for name in _chosen(only)}
    with _databases(session.settings):
        files = {name: backup_database(url, directory / f"{name}.dump") for name, url in urls.items()}
    if as_json:
        emit_json({"directory": str(directory), "files": {name: str(path) for name, path in files.items()}})
        return
    for name, path in files.items():
        say(f"{name}: {path} ({path.stat().st_size} bytes)")


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@_only
@click.option("--replace", is_flag=True, help="Overwrite databases that hold something; what they hold is lost.")
@as_json
@pass_session
def restore(session: Session, directory: Path, only: str | None, replace: bool, as_json: bool) -> None:
    """Restore the databases from DIRECTORY, as `ffdl backup` wrote them. Stop what uses them first (`ffdl down`).

    Each is restored whole or left as it is; a ledger of an older version is brought up to date.
    """
    from ffdl_ops.adapters.ledger.backup import restore_database

    names = _chosen(only)
    missing = [str(directory / f"{name}.dump") for name in names if not (directory / f"{name}.dump").is_file()]
    if missing:
        raise UserError(f"There is no backup {' and no '.join(missing)}.")
    urls = {name: _url(session.settings, name) for name in names}
    with _databases(session.settings):
        for name, url in urls.items():
            restore_database(url, directory / f"{name}.dump", replace=replace)
            if name == "ledger":
                session.ledger.migrate()
                session.ledger.close()
            if not as_json:
                say(f"{name}: restored from {directory / f'{name}.dump'}")
    if as_json:
        emit_json({"directory": str(directory), "restored": names})


@contextmanager
def _databases(settings: Settings) -> Iterator[None]:
    """The embedded PostgreSQL is there for the block, after `ffdl down` too; another server is its owner's to start."""
    if os.environ.get("FFDL_LEDGER_URL") or not (settings.home / "postgres" / "PG_VERSION").exists():
        yield
        return
    from ffdl_ops.local.services.stack import Stack

    with Stack(settings).databases():
        yield


def _chosen(only: str | None) -> list[str]:
    return [only] if only else list(_NAMES)


def _url(settings: Settings, name: str) -> str:
    """The address of a database; it is never shown."""
    if name == "ledger":
        return settings.ledger_url
    url = os.environ.get("FFDL_MLFLOW_DATABASE_URL") or settings.endpoints.get("mlflow_database_url")
    if not url:
        raise UserError(
            "The address of MLflow's database is not known: set FFDL_MLFLOW_DATABASE_URL, or run `ffdl up`; "
            "`--only ledger` leaves it out."
        )
    return str(url)


commands = [backup, restore]
