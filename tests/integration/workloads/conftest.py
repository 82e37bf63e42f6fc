"""The example programs as learners of a job: their code and data set where a pod has them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import ffdl_ops.pod.workloads
from ffdl_ops.pod.staging.launcher import write_launcher
from ffdl_ops.pod.workloads.dataset import make_dataset
from tests.unit.learner.pods import Job

PROGRAMS = ("digits_pytorch.py", "digits_tensorflow.py", "probe.py")


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The launcher, and the data set beside it."""
    directory = tmp_path_factory.mktemp("tools")
    write_launcher(str(directory))
    make_dataset(directory / "digits")
    return directory


@pytest.fixture
def job(tmp_path: Path, tools: Path) -> Iterator[Job]:
    job = Job(tmp_path / "job", tools / "learner.pyz")
    for name in PROGRAMS:
        shutil.copy(Path(ffdl_ops.pod.workloads.__file__).parent / name, job.root / "code" / name)
    shutil.copytree(tools / "digits", job.root / "data", dirs_exist_ok=True)
    yield job
    job.close()
