"""The `ffdl` commands that the README and the pages on operating show work as they are written there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

README = Path(__file__).parents[3] / "README.md"
DOCS = README.parent / "docs"
SHOWN = re.compile(r"^\.venv/bin/ffdl .*$", re.MULTILINE)


def test_each_command_ends_well(platform: Any) -> None:
    commands = [
        line for block in re.findall(r"```sh\n(.*?)```", README.read_text(), re.DOTALL) for line in SHOWN.findall(block)
    ]
    assert len(commands) >= 5
    program = str(Path(sys.executable).parent / "ffdl")
    for line in commands:
        words = [program, *shlex.split(line)[1:]]
        done = subprocess.run(words, env=platform.environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_each_command_of_the_queues_page_ends_well(platform: Any) -> None:
    """What docs/cli.md and docs/operations.md show of queue, tenants, nodes and audit, in their order."""
    commands = [
        line
        for page in ("cli.md", "operations.md")
        for block in re.findall(r"```sh\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
        for line in re.findall(r"^ffdl (?:queue|tenants|demand|cordon|uncordon|drain|audit)\b.*$", block, re.MULTILINE)
    ]
    assert len(commands) >= 10
    try:
        for line in commands:
            done = platform.ffdl(*shlex.split(line, comments=True)[1:])
            assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    finally:
        platform.ffdl("uncordon", "--all")
