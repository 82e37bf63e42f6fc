"""Two tenants on one platform: `vision` attacks, `speech` is what is attacked, and is looked at before and after."""

from __future__ import annotations

import pytest

from ffdl_ops.adapters.airflow_api import AirflowApi
from tests.support.platform import Platform
from tests.support.rig import Rig, Run
from tests.support.victims import VICTIM, Victims


@pytest.fixture(scope="session")
def rig(platform: Platform) -> Rig:
    """The session's platform."""
    return Rig(platform.settings)


@pytest.fixture(scope="session")
def attacker(platform: Platform) -> AirflowApi:
    """Airflow as one of vision's people sees it."""
    settings = platform.settings
    return AirflowApi(settings.airflow_url, "vision-user", settings.endpoints["users"]["vision-user"], budget_s=60)


@pytest.fixture(scope="session")
def victim(rig: Rig) -> Run:
    """A job of the victim's that has run to its end."""
    run = rig.probe(VICTIM, "--steps 2")
    assert rig.wait_run(run, within_s=300) == "success"
    return run


@pytest.fixture
def victims(rig: Rig, victim: Run) -> Victims:
    """What the victim has, to be compared."""
    return Victims(rig)
