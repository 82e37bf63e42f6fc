"""What of a platform that is up, and has run a job, can be seen from outside: sockets, command lines, logs, records."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from tests.support.platform import Platform
from tests.support.rig import Rig, Run

pytestmark = pytest.mark.slow

T = TypeVar("T")


@pytest.fixture(scope="module")
def ran(platform: Platform) -> tuple[Rig, Run]:
    """A job that has run to its end."""
    rig = Rig(platform.settings)
    run = rig.probe(flags="--steps 2 --seconds-per-step 0.1")
    rig.wait_run(run)
    job = rig.job(run)
    assert job is not None
    assert job.state == "COMPLETED", rig.story(run)
    return rig, run


def processes(platform: Platform) -> Iterator[psutil.Process]:
    """Everything that the platform has started and that lives."""
    stack = platform.stack
    server = stack.postgres.process
    assert server is not None
    yield server
    yield from server.children(recursive=True)
    for name in stack.names:
        family = stack.process(name).family()
        assert family, name
        yield from family


def seen(platform: Platform, look: Callable[[psutil.Process], T]) -> list[T]:
    """What a look at each process shows; one that ends meanwhile (Airflow forks and reaps many) shows nothing."""
    found = []
    for process in processes(platform):
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(look(process))
    return found


def words(value: Any) -> Iterator[str]:
    """Every text in a structure."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from words(one)
    elif value:
        yield str(value)


def secrets(platform: Platform) -> set[str]:
    """All that is to be kept secret; access keys are names and no secrets."""
    known = json.loads((platform.home / "secrets.json").read_text())
    for pair in known["s3"].values():
        del pair["access_key"]
    found = set(words(known))
    assert len(found) >= 15
    assert all(len(word) >= 12 for word in found)
    return found


def test_nothing_listens_beyond_this_machine(platform: Platform) -> None:
    listening = [
        (name, socket.laddr)
        for name, sockets in seen(platform, lambda one: (one.name(), one.net_connections("inet")))
        for socket in sockets
        if socket.status == psutil.CONN_LISTEN or not socket.raddr
    ]
    assert {address.port for _, address in listening} == set(platform.stack.ports.values())
    assert not [one for one in listening if not ipaddress.ip_address(one[1].ip).is_loopback]


def test_no_command_line_shows_a_secret(platform: Platform, ran: tuple[Rig, Run]) -> None:
    hidden = secrets(platform)
    shown = dict(seen(platform, lambda one: (one.pid, " ".join(one.cmdline()))))
    assert len(shown) >= 10
    assert not [(pid, line) for pid, line in shown.items() for word in hidden if word in line]


def test_no_log_holds_a_secret(platform: Platform, ran: tuple[Rig, Run]) -> None:
    hidden = secrets(platform)
    logs = [path for path in (platform.home / "logs").rglob("*") if path.is_file()]
    logs.append(platform.stack.postgres.log)
    assert len(logs) >= 10
    found = [path for path in logs for word in hidden if word in path.read_text(errors="replace")]
    assert not found


def test_neither_airflows_nor_our_own_records_hold_a_secret(platform: Platform, ran: tuple[Rig, Run]) -> None:
    """XCom, rendered templates, DAG run configurations, the ledger, and what MLflow keeps."""
    hidden = secrets(platform)
    postgres = platform.stack.postgres
    tables = 0
    for database in ("airflow", "ledger", "mlflow"):
        names = postgres.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", database=database)
        for (table,) in names:
            tables += 1
            rows = postgres.query(f'SELECT t::text FROM "{table}" t', database=database)
            content = "\n".join(str(row[0]) for row in rows)
            assert not [word for word in hidden if word in content], f"{database}.{table}"
    assert tables > 60
    assert postgres.query("SELECT count(*) FROM xcom", database="airflow")[0][0] > 0


def test_files_with_secrets_are_their_owners_alone(platform: Platform, ran: tuple[Rig, Run]) -> None:
    hidden = [word.encode() for word in secrets(platform)]
    home = platform.home

    def closed(path: Path) -> bool:
        """Whether the file, or a directory on the way to it, is closed to others."""
        way = [path, *path.parents]
        return any(not stat.S_IMODE(one.stat().st_mode) & 0o077 for one in way[: way.index(home)])

    open_ones = []
    for path in home.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 16 << 20 and not closed(path):
            content = path.read_bytes()
            open_ones += [path for word in hidden if word in content]
    assert not open_ones
    for name in ("secrets.json", "endpoints.json", "s3/keys.json", "mlflow/login.ini"):
        assert stat.S_IMODE((home / name).stat().st_mode) == 0o600
