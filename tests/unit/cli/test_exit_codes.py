"""The error boundary: one message, a documented code, no traceback, no secret."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from ffdl_ops.adapters.airflow_api import AirflowApiError, AirflowUnavailable
from ffdl_ops.adapters.ledger import LedgerUnavailable, Refused
from ffdl_ops.adapters.storage.errors import AccessRefused, DataMissing, DiskTrouble, Unreachable
from ffdl_ops.adapters.tracking.rest import TrackingRefused, TrackingUnavailable
from ffdl_ops.cli.exits import Exit
from ffdl_ops.core.errors import FfdlError, UserError
from ffdl_ops.core.jobs.manifest import ManifestErrors, Problem

DOCS = Path(__file__).parents[3] / "docs" / "errors.md"


def failing(cli: Any, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise error

    monkeypatch.setattr(cli.ledger, "jobs", fail)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UserError("no such thing"), 2),
        (FfdlError("a service did not start"), 3),
        (ManifestErrors([Problem("gpus", "-1", "must not be negative")]), 3),
        (Refused("it contradicts"), 3),
        (TrackingRefused("no", code="INVALID_PARAMETER_VALUE"), 3),
        (AirflowApiError("no", status=400), 3),
        (DataMissing("no bucket"), 65),
        (AccessRefused("wrong key"), 66),
        (AirflowApiError("no", status=401), 66),
        (AirflowApiError("no", status=403), 66),
        (Unreachable("s3 is down"), 69),
        (LedgerUnavailable("database is down"), 69),
        (AirflowUnavailable("Airflow is down"), 69),
        (TrackingUnavailable("MLflow is down"), 69),
        (DiskTrouble("full"), 74),
        (OSError(errno.ENOSPC, "No space left on device"), 74),
        (RuntimeError("a bug"), 70),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, BaseException) else str(one),
)
def test_each_kind_of_error_has_its_code(
    cli: Any, error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(cli, error, monkeypatch)
    said = cli.refused(code, "list")
    assert said.strip()
    if not isinstance(error, (KeyboardInterrupt, OSError)):
        assert str(error) in said


def test_standard_output_stays_empty_when_a_command_fails(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(cli, LedgerUnavailable("down"), monkeypatch)
    assert cli.run("list", "--json").stdout == ""


def test_a_password_in_an_address_is_not_shown(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(cli, RuntimeError("can't open postgresql://ann:hunter2@db/ledger"), monkeypatch)
    said = cli.refused(70, "list")
    assert "hunter2" not in said
    assert "://ann:***@db" in said


def test_an_error_cannot_steer_the_terminal(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(cli, UserError("bad \x1b]0;title\x07name \x1b[2J\x9b31m"), monkeypatch)
    said = cli.refused(2, "list")
    assert not set(said) & {"\x1b", "\x07", "\x9b"}


def test_the_traceback_of_a_fault_is_there_for_who_asks(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FFDL_DEBUG", "1")
    failing(cli, RuntimeError("a bug"), monkeypatch)
    result = cli.run("list")
    assert result.exit_code == 70
    assert "Traceback" in result.stderr


@pytest.mark.parametrize(
    "args", [["lst"], ["list", "--limit", "0"], ["list", "--nope"], ["show"], ["list", "--state", "GONE"]]
)
def test_wrong_use_ends_with_2(cli: Any, args: list[str]) -> None:
    assert cli.refused(2, *args)


def test_a_mistyped_command_is_told_the_nearest(cli: Any) -> None:
    assert "did you mean 'list'?" in cli.refused(2, "lst")


def test_every_code_is_in_the_documents_table() -> None:
    rows = [line for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    documented = {int(line.split("`")[1]) for line in rows if line.split("`")[1].isdigit()}
    assert {int(code) for code in Exit} <= documented


def test_every_class_of_failure_is_documented_with_its_restarts() -> None:
    from ffdl_ops.core.failures.budgets import DEFAULT_BUDGETS

    text = DOCS.read_text()
    for cls, budget in DEFAULT_BUDGETS.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{cls}` |"))
        assert row.rstrip(" |").endswith(f" {budget}"), row
