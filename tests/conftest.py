"""What every test may use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.platform import Platform


@pytest.fixture(scope="session")
def platform() -> Iterator[Platform]:
    """One embedded platform for the whole session."""
    from tests.support.platform import running_platform

    with running_platform() as running:
        yield running
