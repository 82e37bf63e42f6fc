"""A ledger lives through forks, a restart of its server and a server that is not there."""

from __future__ import annotations

import gc
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg2
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from ffdl_ops.adapters.ledger import Ledger, LedgerUnavailable, NotMigrated
from ffdl_ops.core.errors import PermanentError, TemporaryError
from tests.support.gangs import later


def in_child(work) -> int:
    """The exit status of a forked child that does the work: 0 when it did."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def backend(ledger) -> int:
    """The server's process that the ledger's pooled connection speaks to."""
    with ledger._database.engine.connect() as connection:
        return connection.execute(text("SELECT pg_backend_pid()")).scalar_one()


def test_a_fork_uses_connections_of_its_own_and_leaves_the_parents_alone(ledger, new_job):
    new_job()
    parents = backend(ledger)

    def work():
        assert backend(ledger) != parents
        ledger.record_outcome("job-1", "failed", None, later(1))
        ledger.close()
        gc.collect()

    assert [in_child(work) for _ in range(3)] == [0, 0, 0]
    assert backend(ledger) == parents, "nobody has closed it"
    assert ledger.job("job-1").outcome == "failed"


def test_a_restart_of_the_server_is_lived_through(ledger, new_job, postgres):
    new_job()
    postgres.stop()
    with pytest.raises(LedgerUnavailable, match="can't be reached"):
        ledger.job("job-1")
    postgres.start()
    assert ledger.job("job-1") is not None
    ledger.set_facts("job-1", code_uri="s3://b/code.zip")


def test_a_restart_between_two_calls_is_not_even_noticed(ledger, new_job, postgres):
    new_job()
    postgres.stop()
    postgres.start()
    assert ledger.job("job-1") is not None


def test_a_server_that_is_not_there_is_said_without_the_password():
    for url in (
        "postgresql+psycopg2://ffdl:s3cr3t@127.0.0.1:9/ledger",
        "postgresql+psycopg2://ffdl@127.0.0.1:9/ledger?password=s3cr3t",
        "postgresql://ffdl:s3cr3t@/ledger?host=/nowhere",
    ):
        with pytest.raises(TemporaryError, match="can't be reached") as caught:
            Ledger(url).job("job-1")
        assert "s3cr3t" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert "ledger" in str(caught.value)


def test_a_server_that_does_not_answer_is_given_up_soon():
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        began = time.monotonic()
        with pytest.raises(LedgerUnavailable):
            Ledger(f"postgresql+psycopg2://ffdl@127.0.0.1:{deaf.getsockname()[1]}/ledger?connect_timeout=2").job(
                "job-1"
            )
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("url", ["sqlite:///ledger.db", "no url at all"])
def test_a_url_that_is_none_for_postgresql_is_refused(url):
    with pytest.raises(PermanentError, match="URL"):
        Ledger(url)


def test_a_database_without_tables_says_what_to_do(postgres):
    name = postgres.create_database()
    ledger = Ledger(postgres.url(name))
    with pytest.raises(NotMigrated, match="run its migrations"):
        ledger.job("job-1")
    assert ledger.revision() is None
    ledger.close()
    postgres.drop_database(name)


def test_a_writer_that_hangs_holds_up_the_others_for_a_bounded_time(ledger, new_job, ledger_url):
    new_job()
    url = ledger_url.replace("+psycopg2", "")
    impatient = Ledger(f"{ledger_url}&options=-c lock_timeout=200ms")
    holder = psycopg2.connect(url)
    try:
        with holder.cursor() as cursor:
            cursor.execute("SELECT 1 FROM jobs WHERE job_id = 'job-1' FOR UPDATE")
        with pytest.raises(LedgerUnavailable, match="held the lock for too long"):
            impatient.request_halt("job-1", "bob", later(1))
    finally:
        holder.close()
        impatient.close()
    assert ledger.request_halt("job-1", "bob", later(1)).halt_requested_by == "bob"


def test_connections_are_few_and_closed_on_demand(ledger, postgres, ledger_url):
    database = make_url(ledger_url).database
    count = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'"
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda _: ledger.job("job-1"), range(200)))
    assert postgres.execute(count)[0][0] <= 2, "idle ones"
    ledger.close()
    deadline = time.monotonic() + 5
    while postgres.execute(count)[0][0] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert postgres.execute(count)[0][0] == 0
    assert ledger.job("job-1") is None
