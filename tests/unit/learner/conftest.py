"""A job's volume with the launcher's archive, as the staging helper writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ffdl_ops.pod.staging.launcher import write_launcher
from tests.unit.learner.pods import Job


@pytest.fixture(scope="session")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(write_launcher(str(tmp_path_factory.mktemp("tools"))))


@pytest.fixture
def job(tmp_path: Path, launcher: Path) -> Iterator[Job]:
    job = Job(tmp_path / "job", launcher)
    yield job
    job.close()
