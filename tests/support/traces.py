"""Published traces, which lie beside the repository and are never part of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

__all__ = ["trace_file"]

_BESIDE = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


def trace_file(name: str) -> Path:
    """A trace's file in FFDL_SHARED_DATA (else `../shared/data`); the test is skipped where it is not."""
    path = Path(os.environ.get("FFDL_SHARED_DATA") or _BESIDE) / "traces" / name
    if not path.is_file():
        pytest.skip(f"there is no {name}; set FFDL_SHARED_DATA to the folder that has traces/{name}")
    return path
