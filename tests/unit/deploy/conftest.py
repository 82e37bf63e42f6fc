"""The files of the deployment, and its scripts as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


def load(path: Path) -> ModuleType:
    """A script that is part of no package."""
    spec = importlib.util.spec_from_file_location(f"deploy_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def pin() -> ModuleType:
    """images/pin.py"""
    return load(ROOT / "images" / "pin.py")


@pytest.fixture(scope="session")
def make_secrets() -> ModuleType:
    """images/compose/make_secrets.py"""
    return load(ROOT / "images" / "compose" / "make_secrets.py")
