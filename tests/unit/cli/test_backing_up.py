"""`ffdl backup`, `ffdl restore`, and how `ffdl bench` hands over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def calls(cli: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    made: list[tuple[Any, ...]] = []

    def backup(url: str, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"PGDMP")
        made.append(("backup", url, path.name))
        return path

    def restore(url: str, path: Path, *, replace: bool = False) -> None:
        made.append(("restore", url, path.name, replace))

    monkeypatch.setattr("ffdl_ops.adapters.ledger.backup.backup_database", backup)
    monkeypatch.setattr("ffdl_ops.adapters.ledger.backup.restore_database", restore)
    monkeypatch.setattr(type(cli.ledger), "migrate", lambda self: made.append(("migrate",)), raising=False)
    monkeypatch.setattr(type(cli.ledger), "close", lambda self: None, raising=False)
    return made


def test_both_databases_are_written_into_one_directory(cli: Any, calls: list[Any]) -> None:
    told = json.loads(cli.ok("backup", "saved", "--json").stdout)
    assert calls == [("backup", "postgresql://ledger", "ledger.dump"), ("backup", "postgresql://mlflow", "mlflow.dump")]
    assert sorted(path.name for path in Path("saved").iterdir()) == ["ledger.dump", "mlflow.dump"]
    assert "postgresql" not in json.dumps(told)


def test_without_a_directory_the_time_names_it(cli: Any, calls: list[Any]) -> None:
    cli.ok("backup", "--only", "ledger")
    assert [call[2] for call in calls] == ["ledger.dump"]
    assert Path("ffdl-backup-20260101T120200Z").is_dir()


def test_a_restore_brings_the_ledger_up_to_date(cli: Any, calls: list[Any]) -> None:
    cli.ok("backup", "saved")
    del calls[:]
    cli.ok("restore", "saved", "--replace")
    assert calls == [
        ("restore", "postgresql://ledger", "ledger.dump", True), ("migrate",),
        ("restore", "postgresql://mlflow", "mlflow.dump", True),
    ]  # fmt: skip


def test_nothing_is_restored_when_a_file_is_missing(cli: Any, calls: list[Any]) -> None:
    cli.ok("backup", "saved")
    Path("saved/mlflow.dump").unlink()
    del calls[:]
    assert "mlflow.dump" in cli.refused(2, "restore", "saved", "--replace")
    assert calls == []


def test_an_unknown_address_of_mlflows_database_is_said(cli: Any, calls: list[Any]) -> None:
    cli.session.settings.endpoints.clear()
    assert "FFDL_MLFLOW_DATABASE_URL" in cli.refused(2, "backup", "saved")
    assert calls == []


@pytest.mark.parametrize(("answer", "code"), [(0, 0), (None, 0), (1, 1)])
def test_a_benchmark_gets_its_options_and_decides_the_exit_code(
    cli: Any, answer: int | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ffdl_ops.lab.bench import startup

    got: list[list[str]] = []

    def main(argv: list[str]) -> int | None:
        got.append(argv)
        return answer

    monkeypatch.setattr(startup, "main", main)
    assert cli.run("bench", "startup", "--rounds", "2", "--json").exit_code == code
    assert got == [["--rounds", "2", "--json"]]
