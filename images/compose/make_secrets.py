"""Make the secrets of the Compose deployment, once: random passwords, keys, and each tenant's S3 credentials.

    .venv/bin/python images/compose/make_secrets.py [FOLDER]      FOLDER is .ffdl/compose unless given

A secret that is there is kept, so that running it again, for a tenant that was added, changes nothing else.
The folder is readable by its owner alone. Inside it, files that Compose mounts as secrets are readable by
all, because the services read them under users of their own; the others are for Compose alone.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
S3_ENDPOINT = "http://10.89.7.10:8333"
"""The S3 server for pods and Airflow: an address, as the pods' name server knows no Compose names."""

S3_REGION = "us-east-1"
DATABASES = ("airflow", "mlflow", "ffdl")


class Box:
    """Random texts by name, kept in one file.

    :param path: the file, readable by its owner alone.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._values: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}

    def text(self, name: str, size: int = 24) -> str:
        """The secret of this name, made of so many random bytes when there is none yet."""
        if name not in self._values:
            self._values[name] = secrets.token_hex(size)
            write(self._path, json.dumps(self._values, indent=1), 0o600)
        return self._values[name]


def write(path: Path, text: str, mode: int) -> None:
    """Write a file that never has more rights than these, not even for a moment."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    fresh.chmod(mode)
    fresh.replace(path)


def env_file(values: Mapping[str, str]) -> str:
    """An environment file of Compose; quoted, so that nothing in a value is replaced."""
    return "".join(f"{name}='{value}'\n" for name, value in values.items())


def database_url(name: str, password: str) -> str:
    """How a service reaches its own database."""
    return f"postgresql+psycopg2://{name}:{password}@postgres:5432/{name}"


def s3_identities(box: Box, buckets: Mapping[str, str]) -> dict[str, object]:
    """Who may do what on the S3 server: each tenant on its own bucket, the platform on all."""

    def identity(name: str, actions: list[str]) -> dict[str, object]:
        keys = {"accessKey": box.text(f"s3.{name}.access", 12), "secretKey": box.text(f"s3.{name}.secret")}
        return {"name": name, "credentials": [keys], "actions": actions}

    tenants = [
        identity(tenant, [f"{action}:{bucket}" for action in ("Read", "Write", "List", "Tagging")])
        for tenant, bucket in buckets.items()
    ]
    return {"identities": [identity("platform-admin", ["Admin", "Read", "Write", "List", "Tagging"]), *tenants]}


def connection(box: Box, tenant: str) -> str:
    """A tenant's Airflow connection to the object store."""
    return json.dumps(
        {
            "conn_type": "aws",
            "login": box.text(f"s3.{tenant}.access", 12),
            "password": box.text(f"s3.{tenant}.secret"),
            "extra": {"endpoint_url": S3_ENDPOINT, "region_name": S3_REGION},
        }
    )


def airflow_environment(box: Box, tenants: list[str]) -> dict[str, str]:
    """What of Airflow's environment is secret."""
    fernet = base64.urlsafe_b64encode(bytes.fromhex(box.text("airflow.fernet", 32))).decode()
    own = {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database_url("airflow", box.text("db.airflow")),
        "AIRFLOW__CORE__FERNET_KEY": fernet,
        "AIRFLOW__API__SECRET_KEY": box.text("airflow.api"),
        "AIRFLOW__API_AUTH__JWT_SECRET": box.text("airflow.jwt", 64),
        "FFDL_LEDGER_URL": database_url("ffdl", box.text("db.ffdl")),
        "FFDL_AIRFLOW_USERNAME": "admin",
        "FFDL_AIRFLOW_PASSWORD": box.text("airflow.admin", 12),
    }
    connections = {f"AIRFLOW_CONN_FFDL_S3_{name.replace('-', '_').upper()}": connection(box, name) for name in tenants}
    return {**own, **connections}


def make(folder: Path, buckets: Mapping[str, str]) -> None:
    """Write every file of the folder.

    :param buckets: tenant to bucket.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    box = Box(folder / "box.json")
    write(folder / "postgres_password", box.text("db.superuser"), 0o644)
    for name in DATABASES:
        write(folder / f"{name}_db_password", box.text(f"db.{name}"), 0o644)
    write(folder / "k3s_token", box.text("k3s.token"), 0o644)
    write(folder / "s3_identities.json", json.dumps(s3_identities(box, buckets), indent=1), 0o644)
    write(folder / "airflow.env", env_file(airflow_environment(box, list(buckets))), 0o600)
    # What only the one-shot setup gets: the keys that may create buckets.
    admin = {
        "FFDL_S3_ENDPOINT": S3_ENDPOINT,
        "FFDL_S3_REGION": S3_REGION,
        "FFDL_S3_ACCESS_KEY_ID": box.text("s3.platform-admin.access", 12),
        "FFDL_S3_SECRET_ACCESS_KEY": box.text("s3.platform-admin.secret"),
    }
    write(folder / "setup.env", env_file(admin), 0o600)
    backend = {"MLFLOW_BACKEND_STORE_URI": database_url("mlflow", box.text("db.mlflow"))}
    write(folder / "mlflow.env", env_file(backend), 0o600)


def main() -> int:
    """Make the secrets of the tenants in config/tenants.yaml."""
    from ffdl_ops.core.tenancy.tenants import Tenants

    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".ffdl" / "compose"
    tenants = Tenants.load(yaml.safe_load((ROOT / "config" / "tenants.yaml").read_text()))
    make(folder, {tenant.name: tenant.bucket for tenant in tenants})
    sys.stdout.write(f"Secrets are in {folder}; Airflow's admin has FFDL_AIRFLOW_PASSWORD of airflow.env.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
