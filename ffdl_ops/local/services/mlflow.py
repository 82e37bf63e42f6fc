"""The embedded MLflow server: its records in PostgreSQL; artifacts go from their writers to S3 directly."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from importlib.metadata import version
from pathlib import Path

from ffdl_ops.local.services.environment import base_environment
from ffdl_ops.local.services.errors import ServiceFailed
from ffdl_ops.local.services.postgres import Postgres
from ffdl_ops.local.services.process import Process, tail
from ffdl_ops.local.services.service import Service

__all__ = ["mlflow_service", "upgrade_tables"]

_START_S = 120.0
_UPGRADE_S = 600
# `mlflow db upgrade`, whose only way to be told the address, with its password, is its command line.
_UPGRADE = """
import os
from mlflow.cli import cli
cli(["db", "upgrade", os.environ["MLFLOW_BACKEND_STORE_URI"]])
"""


def mlflow_service(home: Path, port: int, database: str) -> Service:
    """The server."""
    command = [
        sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
        "--default-artifact-root", "s3://ffdl-mlflow", "--no-serve-artifacts",
    ]  # fmt: skip
    settings = {
        "MLFLOW_BACKEND_STORE_URI": database,  # it holds a password: no argument, which everybody sees
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # seven processes for features that are not used here
    }
    return Service(Process("mlflow", home), command, lambda: answers(port), _START_S, settings)


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
        with log.open("a") as file:
            done = subprocess.run(
                [sys.executable, "-c", _UPGRADE], env={**base_environment(), "MLFLOW_BACKEND_STORE_URI": postgres.url("mlflow")},
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, timeout=_UPGRADE_S, check=False,
            )  # fmt: skip
        if done.returncode:
            raise ServiceFailed(f"MLflow's tables could not be upgraded from {known} to {installed}:\n{tail(log)}")
    postgres.keep_note("mlflow", installed)
