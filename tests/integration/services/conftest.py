"""A platform of these tests' own, with DAGs that need nothing of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.platform import Platform, running_platform

DAGS = (Path(__file__).parent / "dags",)


@pytest.fixture(scope="module")
def small_platform() -> Iterator[Platform]:
    """A platform that is up when the module's first test begins."""
    with running_platform(DAGS) as platform:
        yield platform
