"""One S3 server for the tests of an area, a bucket and a job for each test."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ffdl_ops.adapters.storage.datasets import dataset_of
from tests.support.s3 import S3Server, running_s3

_numbers = itertools.count(1)


@dataclass
class Job:
    """A job's volumes on this machine, and its helpers as processes, as a pod would run them."""

    s3: S3Server
    bucket: str
    root: Path
    overrides: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def job_dir(self) -> Path:
        return self.root / "job"

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    def spec(self, **changes: Any) -> dict[str, Any]:
        own = {
            "job_id": "job-1", "tenant": "a", "attempt": 1, "rank": 0, "learners": 1, "bucket": self.bucket, "data": None,
            "code": None, "job_dir": str(self.job_dir), "tools_dir": str(self.root / "tools"),
            "checkpoint": {"interval_s": 0.2, "per_rank": False, "keep": 3},
            "results": {"bucket": self.bucket, "prefix": "jobs/job-1/results"}, "grace_s": 5,
        }  # fmt: skip
        return own | self.overrides | changes

    def data(self, prefix: str) -> dict[str, Any]:
        """The specification of a data set as it is now."""
        key = dataset_of(self.s3.store, self.bucket, prefix).key
        return {"bucket": self.bucket, "prefix": prefix, "key": key, "cache_dir": str(self.cache)}

    def start(self, command: str, **changes: Any) -> subprocess.Popen[str]:
        """A helper that goes on by itself."""
        environment = os.environ | self.s3.environment() | self.environment
        environment |= {"FFDL_STAGE_SPEC": json.dumps(self.spec(**changes))}
        return subprocess.Popen(
            [sys.executable, "-m", "ffdl_ops.pod.staging", command],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def run(self, command: str, **changes: Any) -> dict[str, Any]:
        """A helper's result; its exit code is `code`, its whole output `output`."""
        return self.end(self.start(command, **changes))

    @staticmethod
    def end(process: subprocess.Popen[str]) -> dict[str, Any]:
        output, _ = process.communicate(timeout=90)
        result: dict[str, Any] = json.loads(output.splitlines()[-1])
        assert result["code"] == process.returncode, output
        return result | {"output": output}


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_s3(tmp_path_factory.mktemp("storage")) as server:
        yield server


@pytest.fixture
def job(s3: S3Server, tmp_path: Path) -> Job:
    return Job(s3, s3.bucket(f"tenant-{next(_numbers)}-{os.getpid()}"), tmp_path)


@pytest.fixture
def own_s3(tmp_path: Path) -> Iterator[S3Server]:
    """A server that the test may stop."""
    with running_s3(tmp_path / "own") as server:
        yield server
