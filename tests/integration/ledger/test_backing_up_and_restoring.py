"""A backup is there whole or not at all; a restore happens whole or not at all."""

from __future__ import annotations

import stat

import psycopg2
import pytest
from sqlalchemy.engine import make_url

from ffdl_ops.adapters.ledger import Ledger, LedgerUnavailable, Refused, backup_database, programs, restore_database
from ffdl_ops.adapters.ledger.programs import ProgramFailed, ProgramMissing, find_programs
from ffdl_ops.core.errors import UserError
from tests.support.gangs import FIFO, Limits, gang, later, limits, node


@pytest.fixture
def target(postgres):
    """URL of another, empty database."""
    name = postgres.create_database()
    yield postgres.url(name)
    postgres.drop_database(name)


def test_a_restored_ledger_is_what_was_backed_up_and_goes_on(ledger, new_job, ledger_url, target, tmp_path):
    new_job()
    ledger.enqueue(gang("job-1"), later(0))
    ledger.admission_pass([node("n1")], limits(Limits("a", {"V100": 4})), FIFO, later(1))
    backup = backup_database(ledger_url, tmp_path / "new" / "ledger.dump")
    new_job("job-2")
    restore_database(target, backup)
    restored = Ledger(target)
    assert restored.jobs() == [ledger.job("job-1")]
    assert restored.live_leases() == ledger.live_leases()
    restored.migrate()
    assert restored.revision() == ledger.revision()
    restored.release_lease("job-1", ledger.lease("job-1").epoch, "done", later(2))
    restored.enqueue(gang("job-1"), later(3))
    restored.admission_pass([node("n1")], limits(Limits("a", {"V100": 4})), FIFO, later(4))
    assert restored.lease("job-1").epoch > ledger.lease("job-1").epoch, "the epochs go on, too"
    restored.close()


def test_only_its_owner_may_read_a_backup_and_nothing_else_is_left_beside_it(ledger_url, tmp_path):
    backup = backup_database(ledger_url, tmp_path / "ledger.dump")
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [backup]


def test_a_database_with_tables_is_overwritten_only_when_that_is_asked_for(ledger, new_job, ledger_url, tmp_path):
    new_job()
    backup = backup_database(ledger_url, tmp_path / "ledger.dump")
    new_job("job-2")
    with pytest.raises(Refused, match="tables already"):
        restore_database(ledger_url, backup)
    assert len(ledger.jobs()) == 2
    restore_database(ledger_url, backup, replace=True)
    assert [job.job_id for job in ledger.jobs()] == ["job-1"]
    restore_database(ledger_url, backup_database(ledger_url, tmp_path / "again.dump"), replace=True)
    assert [job.job_id for job in ledger.jobs()] == ["job-1"]


def test_replacing_removes_what_the_backup_does_not_know(target, postgres, tmp_path):
    name = make_url(target).database
    postgres.execute("CREATE SCHEMA other; CREATE TABLE other.t (x int); CREATE TABLE kept (x int)", name)
    postgres.execute("INSERT INTO kept VALUES (7)", name)
    backup = backup_database(target, tmp_path / "any.dump")
    postgres.execute('CREATE SCHEMA "odd ""name"; CREATE TABLE later (x int)', name)
    restore_database(target, backup, replace=True)
    tables = "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname !~ '^(pg_|information)' ORDER BY 1"
    assert postgres.execute(tables, name) == [("other.t",), ("public.kept",)]
    assert postgres.execute("SELECT x FROM kept", name) == [(7,)]


def test_a_damaged_backup_changes_nothing(ledger, new_job, ledger_url, tmp_path):
    for number in range(50):
        new_job(f"job-{number}", manifest={"text": str(number) * 500})
    backup = backup_database(ledger_url, tmp_path / "ledger.dump")
    backup.write_bytes(backup.read_bytes()[:-3000])
    with pytest.raises(ProgramFailed):
        restore_database(ledger_url, backup, replace=True)
    assert len(ledger.jobs()) == 50


def test_a_backup_that_fails_leaves_the_older_one(ledger_url, tmp_path, monkeypatch):
    backup = backup_database(ledger_url, tmp_path / "ledger.dump")
    before = backup.read_bytes()
    real = find_programs(("pg_dump", "pg_restore", "psql"), 18)
    broken = tmp_path / "pg_dump"
    broken.write_text(f"#!/bin/sh\n{real['pg_dump']} \"$@\"\necho 'no space left' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr("ffdl_ops.adapters.ledger.backup.find_programs", lambda *_: {**real, "pg_dump": str(broken)})
    with pytest.raises(ProgramFailed, match="no space left"):
        backup_database(ledger_url, backup)
    assert backup.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.dump", "pg_dump"]


def test_a_database_in_use_is_not_restored_over_and_says_so(ledger, new_job, ledger_url, tmp_path, monkeypatch):
    new_job()
    backup = backup_database(ledger_url, tmp_path / "ledger.dump")
    monkeypatch.setattr("ffdl_ops.adapters.ledger.backup._LOCK_WAIT", "200ms")
    user = psycopg2.connect(ledger_url.replace("+psycopg2", ""))
    try:
        with user.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM jobs")
        with pytest.raises(ProgramFailed, match="is in use; stop what uses it"):
            restore_database(ledger_url, backup, replace=True)
    finally:
        user.close()
    assert len(ledger.jobs()) == 1


def test_a_file_that_is_no_backup_is_refused(ledger_url, tmp_path):
    (tmp_path / "x.sql").write_text("DROP TABLE jobs")
    with pytest.raises(UserError, match="is not a backup"):
        restore_database(ledger_url, tmp_path / "x.sql", replace=True)
    with pytest.raises(UserError, match="can't be read: No such file"):
        restore_database(ledger_url, tmp_path / "none.dump")


def test_a_database_that_is_not_there_is_said(tmp_path):
    with pytest.raises(LedgerUnavailable):
        backup_database("postgresql+psycopg2://ffdl:s3cr3t@127.0.0.1:9/ledger", tmp_path / "x.dump")
    assert list(tmp_path.iterdir()) == []


def test_programs_older_than_the_server_are_not_taken():
    assert "pg_dump" in find_programs(("pg_dump", "psql"), 18)
    with pytest.raises(ProgramMissing, match="PostgreSQL 99 or newer are needed"):
        find_programs(("pg_dump",), 99)
    with pytest.raises(ProgramMissing, match="found: none"):
        find_programs(("pg_no_such_program",), 18)


def test_a_programs_error_never_shows_the_password(postgres):
    url = make_url(postgres.url("no_such_database")).set(password="s3cr3t")
    psql = find_programs(("psql",), 18)["psql"]
    with pytest.raises(ProgramFailed, match="no_such_database") as caught:
        programs.run_program([psql, "-c", "SELECT 1"], url)
    assert "s3cr3t" not in str(caught.value)
