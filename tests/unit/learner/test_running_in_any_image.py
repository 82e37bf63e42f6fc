"""The launcher needs nothing but a Python of 3.8 or newer; the example programs need nothing of ours."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ffdl_ops.pod.learner
import ffdl_ops.pod.workloads

LEARNER = sorted(Path(ffdl_ops.pod.learner.__file__).parent.glob("**/*.py"))
WORKLOADS = sorted(Path(ffdl_ops.pod.workloads.__file__).parent.glob("*.py"))
NEWER_THAN_3_8 = {"removeprefix", "removesuffix", "waitstatus_to_exitcode", "pairwise", "UTC", "cache", "to_thread"}


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."


@pytest.mark.parametrize("path", LEARNER, ids=lambda path: path.name)
def test_the_launcher_is_python_3_8_of_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    for name in imported(tree):
        assert name.partition(".")[0] in sys.stdlib_module_names or name.startswith("ffdl_ops.pod.learner."), name
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not used & NEWER_THAN_3_8


@pytest.mark.parametrize("path", LEARNER, ids=lambda path: path.name)
def test_the_launchers_annotations_are_never_evaluated(path: Path) -> None:
    """`str | None` and `list[str]` would fail on Python 3.8."""
    text = path.read_text()
    assert "from __future__ import annotations" in text or "def " not in text


@pytest.mark.parametrize("path", WORKLOADS, ids=lambda path: path.name)
def test_example_programs_import_nothing_of_the_platform(path: Path) -> None:
    assert not [name for name in imported(ast.parse(path.read_text())) if name.startswith("ffdl_ops")]
