"""The command line on the session's platform."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ffdl_ops.cli.main import main
from ffdl_ops.cli.session import Session


@pytest.fixture
def ffdl(platform: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs a command line in an empty directory; anything but the expected exit code fails the test with what was said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FFDL_TENANT", "vision")
    monkeypatch.setenv("COLUMNS", "200")

    def run(*args: str, code: int = 0, input: str | None = None) -> Result:
        session = Session()
        session.__dict__["settings"] = platform.settings
        result = CliRunner().invoke(main, list(args), obj=session, input=input)
        assert result.exit_code == code, f"ffdl {' '.join(args)} ended with {result.exit_code}:\n{result.output}"
        return result

    return run
