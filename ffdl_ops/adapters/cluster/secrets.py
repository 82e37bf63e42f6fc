"""Credentials that a manifest brings for its own data store, kept as a secret of the tenant's namespace.

A run's configuration is visible in Airflow, so it may name such a secret and never hold its values.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ffdl_ops.adapters.cluster.client import Cluster
from ffdl_ops.core.jobs.ids import namespace as namespace_of

if TYPE_CHECKING:
    from ffdl_ops.adapters.settings import Settings

__all__ = ["connection_secret", "put_connection_secret"]


def put_connection_secret(settings: Settings, tenant: str, connection: Mapping[str, str | None]) -> str:
    """Store a data store's credentials and return the secret's name (the same for the same credentials).

    :param connection: `auth_url`, `user_name`, `password`, `region`.
    """
    from kubernetes import client

    digest = hashlib.sha256(json.dumps(dict(connection), sort_keys=True).encode()).hexdigest()[:12]
    name = f"ffdl-data-{digest}"
    values = {
        "FFDL_DATA_S3_ENDPOINT": connection.get("auth_url") or "",
        "FFDL_DATA_S3_ACCESS_KEY_ID": connection.get("user_name") or "",
        "FFDL_DATA_S3_SECRET_ACCESS_KEY": connection.get("password") or "",
        "FFDL_DATA_S3_REGION": connection.get("region") or "us-east-1",
    }
    labels = {
        "app.kubernetes.io/part-of": "ffdl-ops",
        "ffdl.dev/tenant": tenant,
        "ffdl.dev/kind": "data-store",
    }
    Cluster(settings.kubeconfig).put_secret(
        client.V1Secret(
            metadata=client.V1ObjectMeta(name=name, namespace=namespace_of(tenant), labels=labels),
            type="Opaque",
            string_data=values,
        )
    )
    return name


def connection_secret(cluster: Cluster, tenant: str, name: str) -> dict[str, str] | None:
    """The values of a data store's secret, or ``None`` when the tenant has none of that name."""
    return cluster.secret(namespace_of(tenant), name)
