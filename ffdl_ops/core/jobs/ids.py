"""Names that the platform derives, so that every part finds the same thing under the same name."""

from __future__ import annotations

import hashlib
import re

__all__ = ["MLFLOW_BUCKET", "TENANT_NAME", "connection_id", "dag_id", "job_id", "namespace", "pod_name", "role"]

MLFLOW_BUCKET = "ffdl-mlflow"
"""MLflow's own bucket on the embedded platform; no tenant's."""

TENANT_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,28}[a-z0-9])?")
"""What a tenant may be called (to be matched in full)."""


def job_id(dag_id: str, run_id: str) -> str:
    """The job's identifier (its ``TRAINING_ID``): the same for the same DAG run, whichever task asks."""
    digest = hashlib.sha256(f"{dag_id}/{run_id}".encode()).hexdigest()
    return f"job-{digest[:10]}"


def namespace(tenant: str) -> str:
    """The tenant's namespace on the cluster."""
    return f"ffdl-{tenant}"


def dag_id(tenant: str) -> str:
    """The tenant's DAG. A tenant's name holds no underscore, so no two tenants share one."""
    return f"train__{_underscored(tenant)}"


def connection_id(tenant: str) -> str:
    """The Airflow connection that holds the tenant's S3 credentials."""
    return f"ffdl_s3_{_underscored(tenant)}"


def role(tenant: str) -> str:
    """The role whose people see and trigger the tenant's DAG."""
    return f"tenant_{_underscored(tenant)}"


def pod_name(job_id: str, attempt: int, rank: int) -> str:
    """The pod of one learner.

    :param attempt: counts from 1 (0 is a preflight).
    :param rank: counts from 0.
    """
    return f"{job_id}-a{attempt}-l{rank}"


def _underscored(tenant: str) -> str:
    return tenant.replace("-", "_")
