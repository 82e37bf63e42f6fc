"""The platform of these tests, seen through a `Rig`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.rig import Rig


@pytest.fixture(scope="session")
def rig(platform: Any) -> Rig:
    """The session's platform."""
    return Rig(platform.settings)
