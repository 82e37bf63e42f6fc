"""The embedded MLflow server: its records in PostgreSQL; artifacts go from their writers to S3 directly.

Nobody reads or writes there without a log-in: MLflow's own app `basic-auth`, with `mlflow_gate` before it.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ffdl_ops.core.jobs.ids import MLFLOW_BUCKET
from ffdl_ops.core.tenancy.tenants import Tenants
from ffdl_ops.local.services import mlflow_gate
from ffdl_ops.local.services.environment import base_environment
from ffdl_ops.local.services.errors import ServiceFailed
from ffdl_ops.local.services.postgres import Postgres
from ffdl_ops.local.services.process import Process, tail
from ffdl_ops.local.services.secrets import write_private
from ffdl_ops.local.services.service import Service

__all__ = ["admit_people", "mlflow_service", "upgrade_tables", "write_login"]

_START_S = 120.0
_UPGRADE_S = 600
# `mlflow db upgrade`, whose only way to be told the address, with its password, is its command line.
_UPGRADE = """
import os
from mlflow.cli import cli
cli(["db", "upgrade", os.environ["MLFLOW_BACKEND_STORE_URI"]])
"""
_ADMIN = "admin"
# Comparing a password takes 50 ms by design, and the platform's writer comes with each request. The server has one worker,
# which forgets a password when it is changed.
_KNOWN_S = 3600


def mlflow_service(home: Path, port: int, database: str, secrets: Mapping[str, Any]) -> Service:
    """The server.

    :param database: the address of its records.
    """
    command = [
        sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
        "--app-name", "basic-auth", "--default-artifact-root", f"s3://{MLFLOW_BUCKET}", "--no-serve-artifacts",
    ]  # fmt: skip
    settings = {
        "MLFLOW_BACKEND_STORE_URI": database,  # it holds a password: no argument, which everybody sees
        "MLFLOW_AUTH_CONFIG_PATH": str(_login_file(home)),
        "MLFLOW_BASIC_AUTH_FAIL_CLOSED": "true",
        "MLFLOW_FLASK_SERVER_SECRET_KEY": str(secrets["mlflow_key"]),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # seven processes for features that are not used here
    }
    return Service(Process("mlflow", home), command, lambda: answers(port), _START_S, settings)


def write_login(home: Path, database: str, secrets: Mapping[str, Any]) -> None:
    """Write what the log-in app is configured by.

    :param database: the address of the accounts.
    """
    values = {
        "default_permission": "NO_PERMISSIONS",
        "database_uri": database,
        "admin_username": _ADMIN,
        "admin_password": secrets["users"][_ADMIN],
        "authorization_function": f"{mlflow_gate.__name__}:authenticate",
        "auth_cache_ttl_seconds": _KNOWN_S,
    }
    lines = [f"{name} = {str(value).replace('%', '%%')}" for name, value in values.items()]
    write_private(_login_file(home), "\n".join(["[mlflow]", *lines, ""]))


def answers(port: int) -> bool:
    """Whether the server says that it is healthy."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
        return bool(answer.status == 200)


def upgrade_tables(postgres: Postgres, log: Path) -> None:
    """Bring the tables of an older MLflow up to date; a server makes those of an empty database by itself."""
    installed, known = version("mlflow"), postgres.note("mlflow")
    if known == installed:
        return
    if known is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        environment = {**base_environment(), "MLFLOW_BACKEND_STORE_URI": postgres.url("mlflow")}
        with log.open("a") as file:
            done = subprocess.run(
                [sys.executable, "-c", _UPGRADE], env=environment,
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, timeout=_UPGRADE_S, check=False,
            )  # fmt: skip
        if done.returncode:
            raise ServiceFailed(f"MLflow's tables could not be upgraded from {known} to {installed}:\n{tail(log)}")
    postgres.keep_note("mlflow", installed)


def admit_people(postgres: Postgres, url: str, tenants: Tenants, secrets: Mapping[str, Any]) -> None:
    """Give each tenant's people a log-in that reads their tenant's experiment, with the password that they have in Airflow;
    take it from those whose tenant is gone.

    What each may see is looked at every time: after a restore an experiment may have another's number.
    """
    from ffdl_ops.adapters.tracking.accounts import Accounts, Person
    from ffdl_ops.adapters.tracking.rest import TrackingRefused

    users: dict[str, str] = secrets["users"]
    people = [Person(f"{one.name}-user", users[f"{one.name}-user"], one.name) for one in tenants]
    gone = set(users) - {one.name for one in people} - {_ADMIN}
    writer = (mlflow_gate.WRITER, str(secrets["mlflow_writer"]))
    logins = [(_ADMIN, users[_ADMIN]), writer, *((one.name, one.password) for one in people)]
    note = "ffdl " + hashlib.sha256(repr(sorted(logins)).encode()).hexdigest()
    set_passwords = postgres.note("mlflow_auth") != note
    accounts = Accounts(url, (_ADMIN, users[_ADMIN]))
    try:
        accounts.bring(writer, people, gone, set_passwords=set_passwords)
    except TrackingRefused as error:
        if error.code != "UNAUTHENTICATED":
            raise
        # The administrator has changed the password in MLflow, which leaves nobody to set it by MLflow's own means.
        _set_password(postgres, _ADMIN, users[_ADMIN])
        accounts.bring(writer, people, gone, set_passwords=True)
    postgres.keep_note("mlflow_auth", note)


def _set_password(postgres: Postgres, user: str, password: str) -> None:
    from werkzeug.security import generate_password_hash

    postgres.query(
        "UPDATE users SET password_hash = %s, is_admin = true WHERE username = %s",
        generate_password_hash(password), user, database="mlflow_auth",
    )  # fmt: skip


def _login_file(home: Path) -> Path:
    return home / "mlflow" / "login.ini"
