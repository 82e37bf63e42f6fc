"""Every `ffdl` command that the README shows works as it is written there."""

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
