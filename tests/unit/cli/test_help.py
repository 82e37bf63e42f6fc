"""What the help says, and what it costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from ffdl_ops.cli.main import COMMANDS, main
from ffdl_ops.cli.output import error_line, say

OWN = [name for name, (module, _) in COMMANDS.items() if module != "platform"]
HEAVY = ("rich", "pydantic", "sqlalchemy", "boto3", "urllib3", "yaml", "kubernetes", "mlflow", "airflow")


def imported_by(code: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after this."""
    script = f"{code}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("called", "path", "typed"),
    [
        ("somewhere/bin/ffdl", "", "somewhere/bin/ffdl"),
        ("/other/bin/ffdl", "", "/other/bin/ffdl"),
        ("somewhere/bin/ffdl", "somewhere/bin", "ffdl"),
    ],
)
def test_a_command_that_is_proposed_works_when_it_is_pasted(
    called: str,
    path: str,
    typed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = tmp_path / "somewhere/bin/ffdl"
    script.parent.mkdir(parents=True)
    script.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / path) if path else "")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / called)])
    say("See `ffdl show job-1` (ffdl is not `ffdlx`).")
    assert capsys.readouterr().out == f"See `{typed} show job-1` (ffdl is not `ffdlx`).\n"
    assert error_line("Use `ffdl up`.") == f"Use `{typed} up`."


def test_the_help_lists_every_command(cli: Any) -> None:
    out = cli.ok("--help").stdout
    assert [name for name in COMMANDS if f"\n  {name} " not in out] == []


@pytest.mark.parametrize("name", OWN)
def test_each_command_explains_itself(cli: Any, name: str) -> None:
    out = cli.ok(name, "--help").stdout
    assert f"Usage: ffdl {name}" in out
    assert COMMANDS[name][1].split()[0] in out


@pytest.mark.parametrize("name", [name for name in OWN if name not in ("schema", "bench")])
def test_every_command_has_an_output_for_programs(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    for one in command.commands.values() if isinstance(command, click.Group) else [command]:
        assert "--json" in {option for param in one.params for option in param.opts}


def test_the_help_loads_no_command() -> None:
    run = "from ffdl_ops.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    assert imported_by(run) == set()


def test_validating_loads_neither_database_nor_cluster_nor_store() -> None:
    run = (
        "from ffdl_ops.cli.main import main\n"
        "try: main(['validate', '--tenant', 'vision', '--example', 'digits-pytorch'])\nexcept SystemExit: pass"
    )
    assert imported_by(run) <= {"pydantic", "yaml"}


def test_the_version_is_the_packages(cli: Any) -> None:
    from importlib.metadata import version

    assert version("ffdl-ops") in cli.ok("--version").stdout
