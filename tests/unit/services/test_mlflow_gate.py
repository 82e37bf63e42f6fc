"""What a log-in that is neither an administrator's nor the platform's may ask of MLflow."""

from __future__ import annotations

import configparser
import stat
from pathlib import Path

import pytest

from ffdl_ops.local.services.mlflow import mlflow_service, write_login
from ffdl_ops.local.services.mlflow_gate import reads


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/api/2.0/mlflow/runs/get"),
        ("HEAD", "/ajax-api/2.0/mlflow/experiments/get"),
        ("POST", "/api/2.0/mlflow/runs/search"),
        ("POST", "/ajax-api/2.0/mlflow/experiments/search"),
        ("POST", "/ajax-api/2.0/mlflow/experiments/search-datasets"),
        ("POST", "/ajax-api/3.0/mlflow/traces/search"),
        ("POST", "/graphql"),
    ],
)
def test_questions_are_let_through(method: str, path: str) -> None:
    assert reads(method, path)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/2.0/mlflow/users/list"),
        ("GET", "/ajax-api/2.0/mlflow/users/list"),
        ("POST", "/api/2.0/mlflow/experiments/create"),
        ("POST", "/api/2.0/mlflow/runs/log-batch"),
        ("POST", "/api/2.0/mlflow/registered-models/create"),
        ("POST", "/api/2.0/mlflow/runs/search/../create"),
        ("POST", "/api/2.0/mlflow/runs/delete?x=/api/2.0/mlflow/runs/search"),
        ("POST", "/x/graphql"),
        ("POST", "/v1/traces"),
        ("PUT", "/api/2.0/mlflow-artifacts/artifacts/1/x"),
        ("PATCH", "/api/2.0/mlflow/users/update-password"),
        ("DELETE", "/api/2.0/mlflow/users/delete"),
        ("post", "/api/2.0/mlflow/runs/get"),
    ],
)
def test_everything_else_is_not(method: str, path: str) -> None:
    assert not reads(method, path)


def test_passwords_are_in_a_file_of_its_owners_and_not_on_the_command_line(tmp_path: Path) -> None:
    address = "postgresql+psycopg2://mlflow_auth:word@/mlflow_auth?host=%2Ftmp%2Fx"
    secrets = {"users": {"admin": "word-of-admin"}, "mlflow_key": "word-of-key"}
    write_login(tmp_path, address, secrets)
    service = mlflow_service(tmp_path, 5000, "postgresql://mlflow:word-of-records@/mlflow", secrets)
    path = Path(service.settings["MLFLOW_AUTH_CONFIG_PATH"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    read = configparser.ConfigParser()  # as MLflow reads it
    read.read(path)
    assert read["mlflow"]["database_uri"] == address
    assert read["mlflow"]["default_permission"] == "NO_PERMISSIONS"
    assert read["mlflow"]["admin_password"] == "word-of-admin"
    assert "word" not in " ".join(service.command)
    assert "127.0.0.1" in service.command
