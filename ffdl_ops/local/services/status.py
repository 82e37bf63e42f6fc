"""What state each service is in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ffdl_ops.local.services import minicluster, mlflow
from ffdl_ops.local.services.airflow import COMPONENTS, Health
from ffdl_ops.local.services.ports import listens
from ffdl_ops.local.services.postgres import Postgres
from ffdl_ops.local.services.process import Process

__all__ = ["Status", "look"]


@dataclass(frozen=True)
class Status:
    """One service's state, for people and programs.

    :param state: "up" (lives and answers), "ill" (lives and does not answer as it should) or "down".
    :param since: when it was started; ``None`` when it is down.
    """

    service: str
    state: str
    pid: int | None
    address: str
    log: str
    since: datetime | None = None


def look(home: Path, ports: Mapping[str, int], postgres: Postgres, names: Sequence[str]) -> list[Status]:
    """Look at every service.

    :param names: the services that are processes of ours.
    """
    server = postgres.process
    rows = [
        Status(
            "postgres",
            "up" if server else "down",
            server.pid if server else None,
            str(postgres.socket_dir),
            str(postgres.log),
            datetime.fromtimestamp(server.create_time(), UTC) if server else None,
        )
    ]
    checks = _checks(home, ports)
    for name in names:
        process = Process(name, home)
        living = process.find()
        port = ports.get(name.removesuffix("-api-server"))
        scheme = "https" if name == "minicluster" else "http"
        since = process.record().get("since")
        rows.append(
            Status(
                name,
                _state(checks[name]) if living else "down",
                living.pid if living else None,
                f"{scheme}://127.0.0.1:{port}" if port else "",
                str(process.log),
                datetime.fromtimestamp(since, UTC) if living and since else None,
            )
        )
    return rows


def _checks(home: Path, ports: Mapping[str, int]) -> dict[str, Callable[[], bool]]:
    health = Health(home, ports["airflow"])
    checks: dict[str, Callable[[], bool]] = {
        "s3": lambda: listens(ports["s3"]),
        "minicluster": lambda: minicluster.answers(minicluster.kubeconfig(home), ports["minicluster"]),
        "mlflow": lambda: mlflow.answers(ports["mlflow"]),
    }
    for component in COMPONENTS:
        checks[f"airflow-{component}"] = lambda component=component: health.shows(component)  # type: ignore[misc]
    return checks


def _state(check: Callable[[], bool]) -> str:
    try:
        return "up" if check() else "ill"
    except (OSError, ValueError, KeyError):
        return "ill"
