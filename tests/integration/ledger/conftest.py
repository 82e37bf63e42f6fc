"""A server for the session, a migrated ledger of its own for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ffdl_ops.adapters.ledger import Ledger
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
