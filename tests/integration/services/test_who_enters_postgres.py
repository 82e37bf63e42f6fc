"""Who may enter the embedded PostgreSQL, and what becomes of one that an earlier version had made."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg2
import pytest

from ffdl_ops.local.services import postgres
from ffdl_ops.local.services.errors import ServiceFailed
from ffdl_ops.local.services.postgres import Postgres
from ffdl_ops.local.services.postgres_access import DATABASES, SUPERUSER
from tests.support.postgres import server_place

pytestmark = pytest.mark.slow

PASSWORDS = {name: f"word-of-{name}/'%" for name in (SUPERUSER, *DATABASES)}


@pytest.fixture
def server() -> Iterator[Postgres]:
    """A server of the test's own, that is not up yet."""
    with server_place() as place:
        server = Postgres(place / "data", lambda: PASSWORDS)
        yield server
        server.stop()


@pytest.fixture(scope="module")
def up() -> Iterator[Postgres]:
    """A server that is up, for tests that leave it as it is."""
    with server_place() as place:
        server = Postgres(place / "data", lambda: PASSWORDS)
        server.start()
        yield server
        server.stop()


def connected(server: Postgres, role: str, database: str, password: str | None) -> Any:
    return psycopg2.connect(dbname=database, user=role, password=password, host=str(server.socket_dir))


def enter(server: Postgres, role: str, database: str, password: str | None) -> list[tuple[Any, ...]]:
    with connected(server, role, database, password) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT current_user")
        return list(cursor.fetchall())


def do(server: Postgres, database: str, *statements: str) -> list[tuple[Any, ...]]:
    """As the database's own role, by the address that its service gets."""
    with psycopg2.connect(server.url(database).replace("+psycopg2", "")) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []


def made_by_an_earlier_version(server: Postgres) -> None:
    """Databases of the superuser, on a server that lets everybody in."""
    server._make_directories(postgres._account())
    server._call("initdb", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "-U", "postgres", "--no-sync")
    start = f"-c listen_addresses='' -c unix_socket_directories='{server.socket_dir}'"
    server._call("pg_ctl", "start", "-w", "-l", str(server.log), "-o", start)
    connection = psycopg2.connect(dbname="postgres", user="postgres", host=str(server.socket_dir))
    connection.autocommit = True
    with connection.cursor() as cursor:
        for name in ("airflow", "mlflow", "ledger"):
            cursor.execute(f"CREATE DATABASE {name}")
        cursor.execute("COMMENT ON DATABASE airflow IS 'a note'")
    connection.close()
    with connected(server, SUPERUSER, "ledger", None) as ledger, ledger.cursor() as cursor:
        cursor.execute("CREATE TYPE mood AS ENUM ('well')")
        cursor.execute("CREATE TABLE job (id serial PRIMARY KEY, other bigint GENERATED ALWAYS AS IDENTITY, m mood)")
        cursor.execute("INSERT INTO job (m) VALUES ('well')")
        cursor.execute("CREATE VIEW jobs AS SELECT * FROM job")
        cursor.execute("CREATE SEQUENCE alone")
        cursor.execute("CREATE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 1'")
        cursor.execute('CREATE SCHEMA "Of Ours" CREATE TABLE "In It" (id int)')


@pytest.mark.parametrize("role", DATABASES)
def test_a_role_enters_its_own_database_alone(up: Postgres, role: str) -> None:
    assert enter(up, role, role, PASSWORDS[role]) == [(role,)]
    for other in {*DATABASES, "postgres", "template1"} - {role}:
        with pytest.raises(psycopg2.OperationalError, match="no pg_hba.conf entry"):
            enter(up, role, other, PASSWORDS[role])
    own = do(up, role, "CREATE TABLE own (id int)", "SELECT rolsuper OR rolcreatedb OR rolcreaterole OR rolbypassrls "
             "OR rolreplication FROM pg_roles WHERE rolname = current_user")  # fmt: skip
    assert own == [(False,)]


def test_a_roles_privileges_would_keep_it_out_even_if_the_entrances_did_not(up: Postgres) -> None:
    found = up.query("SELECT r.rolname, d.datname FROM pg_roles r, pg_database d WHERE r.rolcanlogin AND "
                          "r.rolname <> 'postgres' AND has_database_privilege(r.oid, d.oid, 'CONNECT')")  # fmt: skip
    assert sorted(found) == sorted((name, name) for name in DATABASES)


@pytest.mark.parametrize("role", [SUPERUSER, "ledger"])
@pytest.mark.parametrize("password", [None, "", "wrong"])
def test_nobody_enters_without_the_password(up: Postgres, role: str, password: str | None) -> None:
    with pytest.raises(psycopg2.OperationalError, match="password"):
        enter(up, role, "ledger", password)


def test_passwords_are_kept_as_verifiers_and_written_nowhere(up: Postgres) -> None:
    kept = dict(up.query("SELECT rolname, rolpassword FROM pg_authid WHERE rolcanlogin"))
    assert set(kept) == {SUPERUSER, *DATABASES}
    assert all(text.startswith("SCRAM-SHA-256$4096:") for text in kept.values())
    files = [path for path in up.directory.rglob("*") if path.is_file()]
    assert not [path for path in files for word in PASSWORDS.values() if word.encode() in path.read_bytes()]
    assert stat.S_IMODE(up.directory.stat().st_mode) == 0o700
    process = up.process
    assert process is not None
    assert not [word for word in PASSWORDS.values() if word in " ".join(process.cmdline())]
    assert not process.net_connections("inet")


def test_starting_again_changes_nothing_and_keeps_who_is_connected(up: Postgres) -> None:
    up.start()
    before = up.query("SELECT rolname, rolpassword FROM pg_authid ORDER BY 1")
    process = up.process
    with psycopg2.connect(up.url("ledger").replace("+psycopg2", "")) as connection:
        up.start()
        assert up.process == process
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    assert up.query("SELECT rolname, rolpassword FROM pg_authid ORDER BY 1") == before


@pytest.mark.parametrize("running", [True, False])
def test_what_an_earlier_version_made_is_closed_and_nothing_of_it_is_lost(server: Postgres, running: bool) -> None:
    made_by_an_earlier_version(server)
    if not running:
        server.stop()
    server.start()
    with pytest.raises(psycopg2.OperationalError, match="password"):
        enter(server, SUPERUSER, "ledger", None)
    assert server.note("airflow") == "a note"
    assert do(server, "ledger", "INSERT INTO jobs (m) VALUES ('well')", "SELECT id, other, m, one() FROM jobs") == [
        (1, 1, "well", 1), (2, 2, "well", 1)
    ]  # fmt: skip
    assert do(server, "ledger", "SELECT nextval('alone')") == [(1,)]
    do(server, "ledger", "ALTER TABLE job ADD x int", "ALTER TYPE mood ADD VALUE 'ill'", "DROP VIEW jobs",
       'DROP TABLE "Of Ours"."In It"', 'DROP SCHEMA "Of Ours"', "DROP FUNCTION one()", "DROP SEQUENCE alone")  # fmt: skip
    server.start()
    assert do(server, "ledger", "SELECT id FROM job ORDER BY 1") == [(1,), (2,)]


def test_a_move_that_was_interrupted_is_made_up_for(server: Postgres) -> None:
    made_by_an_earlier_version(server)
    server.stop()
    server._ask_for_passwords(postgres._account())
    server.start()
    assert do(server, "ledger", "SELECT count(*) FROM job") == [(1,)]


def test_other_passwords_than_it_was_made_with_are_refused_with_what_to_do_and_can_be_set_anew(
    server: Postgres,
) -> None:
    server.start()
    do(server, "ledger", "CREATE TABLE kept AS SELECT 1")
    stranger = Postgres(server.directory, lambda: {name: f"new-{name}" for name in PASSWORDS})
    with pytest.raises(ServiceFailed, match=r"secrets\.json.*pg_hba\.conf") as refused:
        stranger.start()
    assert "new-" not in str(refused.value)
    (server.directory / "pg_hba.conf").unlink()
    stranger.start()
    assert do(stranger, "ledger", "SELECT * FROM kept") == [(1,)]
    with pytest.raises(psycopg2.OperationalError, match="password"):
        enter(server, "ledger", "ledger", PASSWORDS["ledger"])


def test_a_backup_goes_back_by_the_databases_own_role(server: Postgres, tmp_path: Path) -> None:
    from ffdl_ops.adapters.ledger.backup import backup_database, restore_database

    server.start()
    do(server, "ledger", "CREATE TABLE job AS SELECT 7 AS id")
    url = server.url("ledger")
    backup = backup_database(url, tmp_path / "ledger.dump")
    do(server, "ledger", "DROP TABLE job")
    restore_database(url, backup, replace=True)
    assert do(server, "ledger", "SELECT id FROM job") == [(7,)]
    restore_database(url, backup, replace=True)
    assert do(server, "ledger", "SELECT id FROM job") == [(7,)]


def test_no_program_that_starts_it_shows_a_password(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    run = subprocess.run

    def watched(command: list[str], **options: Any) -> Any:
        seen.append(" ".join([*command, *options.get("env", {}).values()]))
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", watched)
    server.start()
    assert any("initdb" in one for one in seen)
    seen += [" ".join(one.cmdline()) for one in psutil.Process().children(recursive=True)]
    assert not [one for one in seen for word in PASSWORDS.values() if word in one]
