"""A server for the session, a migrated ledger of its own for every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ffdl_ops.adapters.ledger import JobRecord, Ledger, NewJob
from tests.support.gangs import START
from tests.support.postgres import TestPostgres, running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[TestPostgres]:
    """A running PostgreSQL."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def migrated(postgres: TestPostgres) -> str:
    """Name of a database with the ledger's tables, to be copied."""
    name = postgres.create_database()
    ledger = Ledger(postgres.url(name))
    ledger.migrate()
    ledger.close()
    return name


@pytest.fixture
def ledger_url(postgres: TestPostgres, migrated: str) -> Iterator[str]:
    """URL of an empty ledger."""
    name = postgres.create_database(template=migrated)
    yield postgres.url(name)
    postgres.drop_database(name)


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    """An empty ledger."""
    ledger = Ledger(ledger_url)
    yield ledger
    ledger.close()


@pytest.fixture
def new_job(ledger: Ledger) -> Callable[..., JobRecord]:
    """Stores a job of the given id, with the defaults of a small one."""

    def store(job_id: str = "job-1", *, tenant: str = "a", **changes: object) -> JobRecord:
        facts: dict[str, object] = {
            "job_id": job_id,
            "tenant": tenant,
            "dag_id": f"train__{tenant}",
            "run_id": f"run-{job_id}",
            "user": "ann",
            "name": "digits",
            "manifest": {"name": "digits", "learners": 1},
            "framework": "pytorch",
            "learners": 1,
            "gpus": 1,
            "gpu_type": "V100",
            "priority": 0,
        }
        return ledger.create_job(NewJob(**(facts | changes)), START)  # type: ignore[arg-type]

    return store
