"""Published traces, which lie beside the repository and are never part of it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from ffdl_ops.lab.simulate.results import SimJob
from ffdl_ops.lab.traces.gangs import sim_jobs
from ffdl_ops.lab.traces.philly_table import read_table
from ffdl_ops.lab.traces.records import TraceJob

__all__ = ["philly_jobs", "replayed_jobs", "trace_file"]

_BESIDE = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


def trace_file(name: str) -> Path:
    """A trace's file in FFDL_SHARED_DATA (else `../shared/data`); the test is skipped where it is not."""
    path = Path(os.environ.get("FFDL_SHARED_DATA") or _BESIDE) / "traces" / name
    if not path.is_file():
        pytest.skip(f"there is no {name}; set FFDL_SHARED_DATA to the folder that has traces/{name}")
    return path


def philly_jobs() -> list[TraceJob]:
    """The merged Philly table, read once."""
    return _read(trace_file("philly_merged.csv.gz"))


def replayed_jobs(vc: str) -> list[SimJob]:
    """A virtual cluster's jobs of October and November 2017, which published replays take."""
    since, before = datetime(2017, 10, 1, tzinfo=UTC), datetime(2017, 12, 1, tzinfo=UTC)
    return sim_jobs(philly_jobs(), tenants=[vc], since=since, before=before)


@cache
def _read(path: Path) -> list[TraceJob]:
    return read_table(path)
