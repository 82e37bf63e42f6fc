"""Where the embedded services are, and what opens them: `endpoints.json`, which its owner alone can read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ffdl_ops.core.tenancy.tenants import Tenants
from ffdl_ops.local.services.minicluster import kubeconfig
from ffdl_ops.local.services.mlflow_gate import WRITER
from ffdl_ops.local.services.postgres import Postgres
from ffdl_ops.local.services.s3 import PLATFORM

__all__ = ["describe"]


def describe(
    home: Path, ports: Mapping[str, int], postgres: Postgres, tenants: Tenants, secrets: Mapping[str, Any]
) -> dict[str, Any]:
    """The content of `endpoints.json`; `Settings` reads it."""
    keys = secrets["s3"]
    return {
        "airflow": {
            "url": f"http://127.0.0.1:{ports['airflow']}",
            "username": "admin",
            "password": secrets["users"]["admin"],
        },
        "mlflow": {
            "url": f"http://127.0.0.1:{ports['mlflow']}",
            "username": WRITER,
            "password": secrets["mlflow_writer"],
        },
        "s3": {
            "endpoint": f"http://127.0.0.1:{ports['s3']}",
            "platform": keys[PLATFORM],
            "tenants": {tenant.name: {**keys[tenant.name], "bucket": tenant.bucket} for tenant in tenants},
        },
        "ledger_url": postgres.url("ledger"),
        "mlflow_database_url": postgres.url("mlflow"),
        "kubeconfig": str(kubeconfig(home)),
        "users": secrets["users"],
    }
