"""The tables' versions: an upgrade keeps living jobs, and leads to just what the program expects."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from ffdl_ops.adapters.ledger import Ledger, NotMigrated
from ffdl_ops.adapters.ledger.models import Base
from ffdl_ops.adapters.ledger.schema import alembic_config
from ffdl_ops.core.jobs.states import JobState
from ffdl_ops.core.scheduling.decisions import Holder
from ffdl_ops.core.scheduling.model import Placement
from tests.support.gangs import FIFO, START, Limits, later, limits, node


@pytest.fixture
def empty(postgres):
    """A ledger over a database without tables."""
    name = postgres.create_database()
    ledger = Ledger(postgres.url(name))
    yield ledger
    ledger.close()
    postgres.drop_database(name)


FIRST_VERSION = """
INSERT INTO jobs (job_id, tenant, dag_id, run_id, submitted_by, name, manifest, framework, learners, gpus, gpu_type, state,
                  created_at, updated_at)
SELECT name, 'a', 'train__a', name, 'ann', 'digits', '{"learners": 4}', 'pytorch', 4, 1, 'V100', 'QUEUED', :start, :start
FROM unnest(ARRAY['job-1', 'job-2']) AS name;
INSERT INTO transitions (job_id, from_state, to_state, reason, at, resume_count)
VALUES ('job-1', NULL, 'NOT_STARTED', 'created', :start, 0), ('job-1', 'NOT_STARTED', 'QUEUED', '', :start, 0);
INSERT INTO leases (epoch, job_id, tenant, placements, gpus, cpu_millis, memory_bytes, gpu_type, granted_at)
VALUES (nextval('lease_epochs'), 'job-1', 'a', '[{"rank": 0, "node": "n1"}]', 4, 1000, 1024, 'V100', :start);
INSERT INTO queue (job_id, tenant, learners_min, learners_max, gpus, gpu_type, cpu_millis, memory_bytes, priority, submitted_at,
                   excluded_nodes, submitted_by, enqueued_at)
VALUES ('job-2', 'a', 4, 4, 1, 'V100', 1000, 1024, 50, :start, '["n7"]', 'ann', :start);
INSERT INTO waits (job_id, cause, message, holders, numbers, started_at)
VALUES ('job-2', 'capacity', 'nothing is free', '[{"job_id": "job-1", "tenant": "a", "gpus": 4}]', '{"free_gpus": 0}', :start);
INSERT INTO attempts (job_id, number, lease_epoch, learners, base_port, pods, started_at, resume_count)
SELECT 'job-1', 1, epoch, 1, 20000, '{"0": {"pod": "p", "uid": "u", "node": "n1"}}', :start, 0 FROM leases;
INSERT INTO stages (job_id, stage, try_number, resume_count, started_at) VALUES ('job-1', 'learners', 1, 0, :start);
"""


def test_an_upgrade_from_the_first_version_keeps_living_jobs(empty):
    script = ScriptDirectory.from_config(alembic_config())
    first = script.get_base()
    empty.migrate(first)
    assert empty.revision() == first
    with empty._database.engine.begin() as connection:
        connection.execute(text(FIRST_VERSION), {"start": START})
    empty.migrate()
    assert empty.revision() == script.get_current_head() != first
    (running, waiting) = empty.jobs()
    assert {(one.job_id, one.state, one.user) for one in (running, waiting)} == {
        ("job-1", JobState.QUEUED, "ann"),
        ("job-2", JobState.QUEUED, "ann"),
    }
    assert len(empty.transitions("job-1")) == 2
    (lease,) = empty.live_leases()
    assert (lease.job_id, lease.placements, lease.gpus, lease.granted_at) == ("job-1", (Placement(0, "n1"),), 4, START)
    (attempt,) = empty.attempts("job-1")
    assert attempt.pods == {0: {"pod": "p", "uid": "u", "node": "n1"}}
    (entry,) = empty.queue()
    assert (entry.request.job_id, entry.request.excluded_nodes, entry.request.gpus) == ("job-2", {"n7"}, 1)
    (wait,) = empty.waits("job-2")
    assert wait.holders == (Holder("job-1", "a", 4),)
    assert [one.stage for one in empty.stages("job-1")] == ["learners"]

    empty.end_attempt("job-1", attempt.number, "succeeded", None, later(9))
    empty.release_lease("job-1", attempt.lease_epoch, "done", later(9))
    empty.admission_pass([node("n1")], limits(Limits("a", {"V100": 4})), FIFO, later(10))
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
