"""Fixtures that tests of several areas share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ffdl_ops.core.jobs.ids import dag_id

if TYPE_CHECKING:
    from tests.support.platform import Platform


@pytest.fixture(scope="session")
def platform() -> Iterator[Platform]:
    """The whole embedded platform, up, with the repository's DAGs and the digits in every tenant's bucket; one a session."""
    from ffdl_ops.local.services.seed import seed_digits
    from tests.support.platform import running_platform

    with running_platform() as running:
        for tenant in running.settings.tenants:
            running.stack.wait_for_dag(dag_id(tenant.name))
            seed_digits(running.settings, tenant.name)
        yield running
