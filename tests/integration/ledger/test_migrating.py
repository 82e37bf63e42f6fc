"""The tables' versions: an upgrade keeps living jobs, and leads to just what the program expects."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from ffdl_ops.adapters.ledger import Ledger, NewJob, NotMigrated
from ffdl_ops.adapters.ledger.models import Base
from ffdl_ops.adapters.ledger.schema import alembic_config
from ffdl_ops.core.jobs.states import JobState
from tests.support.gangs import START, Limits, gang, later, limits, node


@pytest.fixture
def empty(postgres):
    """A ledger over a database without tables."""
    name = postgres.create_database()
    ledger = Ledger(postgres.url(name))
    yield ledger
    ledger.close()
    postgres.drop_database(name)


def test_an_upgrade_from_the_first_version_keeps_living_jobs(empty):
    script = ScriptDirectory.from_config(alembic_config())
    first = script.get_base()
    empty.migrate(first)
    assert empty.revision() == first
    tenants = limits(Limits("a", {"V100": 4}))
    for name in ("job-1", "job-2"):
        new = NewJob(name, "a", "train__a", name, "ann", "digits", {"learners": 4}, "pytorch", 4, 1, "V100")
        empty.create_job(new, START)
        empty.transition(name, JobState.QUEUED, now=later(1))
        empty.enqueue(gang(name, 4, 1), later(1))
    empty.admission_pass([node("n1")], tenants, "fifo", later(2))
    attempt = empty.begin_attempt("job-1", empty.lease("job-1").epoch, 4, 20_000, None, later(3))
    empty.record_pods("job-1", 1, {0: ("p", "u", "n1")})
    empty.stage_started("job-1", "learners", later(3), 1)
    before = [
        empty.jobs(),
        empty.transitions("job-1"),
        empty.live_leases(),
        empty.attempts("job-1"),
        empty.queue(),
        empty.waits("job-2"),
        empty.stages("job-1"),
    ]
    empty.migrate()
    assert empty.revision() == script.get_current_head() != first
    assert before == [
        empty.jobs(),
        empty.transitions("job-1"),
        empty.live_leases(),
        empty.attempts("job-1"),
        empty.queue(),
        empty.waits("job-2"),
        empty.stages("job-1"),
    ]
    empty.end_attempt("job-1", attempt.number, "succeeded", None, later(9))
    empty.release_lease("job-1", attempt.lease_epoch, "done", later(9))
    empty.admission_pass([node("n1")], tenants, "fifo", later(10))
    assert empty.lease("job-2").epoch > attempt.lease_epoch
    assert empty.claim_follower("job-2", "me", later(11), 5) == 1, "the newer tables serve the older jobs"


def test_the_versions_lead_to_the_tables_that_the_program_expects(ledger):
    with ledger._database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_processes_that_start_at_once_migrate_once(postgres, empty):
    others = [Ledger(empty._database.url.render_as_string(hide_password=False)) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda ledger: ledger.migrate(), others))
    assert empty.revision() is not None
    assert empty.jobs() == []
    for ledger in others:
        ledger.close()


def test_migrated_twice_nothing_happens(ledger, new_job):
    new_job()
    ledger.migrate()
    assert ledger.job("job-1") is not None


def test_tables_of_a_newer_program_are_left_alone(ledger, new_job):
    new_job()
    with ledger._database.transaction() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(NotMigrated, match="9999.*update the program"):
        ledger.migrate()
    assert ledger.job("job-1") is not None


def test_a_version_can_be_taken_back(ledger, new_job):
    """An admin who goes back to the older program loses the newer tables, not the jobs."""
    new_job()
    config = alembic_config()
    for revision in ("0001", "base"):
        with ledger._database.engine.begin() as connection:
            config.attributes["connection"] = connection
            command.downgrade(config, revision)
        if revision == "0001":
            assert ledger.job("job-1") is not None
    assert ledger.revision() is None
