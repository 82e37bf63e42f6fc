"""What a command works with: settings, ledger, Airflow, stores, MLflow, each opened when it is first used."""

from __future__ import annotations

import functools
import getpass
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ffdl_ops.core.errors import UserError

if TYPE_CHECKING:
    from ffdl_ops.adapters.airflow_api import AirflowApi
    from ffdl_ops.adapters.cluster.client import Cluster
    from ffdl_ops.adapters.ledger import JobRecord, Ledger
    from ffdl_ops.adapters.settings import Settings
    from ffdl_ops.adapters.storage.store import ObjectStore
    from ffdl_ops.adapters.tracking.runs import Tracker
    from ffdl_ops.core.jobs.manifest import Manifest
    from ffdl_ops.core.tenancy.tenants import Tenant

__all__ = ["NoSuchJob", "Session"]

_ALL = 100_000
_SHOWN = 5
# A person waits for the answer.
_PATIENCE_S = 10.0


class NoSuchJob(UserError):
    """The ledger has no job of this name (yet)."""


class Session:
    """One call of the command line."""

    @functools.cached_property
    def settings(self) -> Settings:
        """The installation's settings."""
        from ffdl_ops.adapters.settings import Settings

        return Settings.load()

    @functools.cached_property
    def ledger(self) -> Ledger:
        """The durable record."""
        from ffdl_ops.adapters.ledger import Ledger

        return Ledger(self.settings.ledger_url)

    @functools.cached_property
    def airflow(self) -> AirflowApi:
        """Airflow's REST API."""
        from ffdl_ops.adapters.airflow_api import AirflowApi

        return AirflowApi.from_settings(self.settings, budget_s=_PATIENCE_S)

    @functools.cached_property
    def cluster(self) -> Cluster:
        """The cluster's API."""
        from ffdl_ops.adapters.cluster.client import Cluster

        return Cluster(self.settings.kubeconfig)

    @functools.cached_property
    def tracker(self) -> Tracker:
        """The MLflow server."""
        from ffdl_ops.adapters.tracking.runs import Tracker

        settings = self.settings
        return Tracker(settings.mlflow_uri, public_uri=settings.mlflow_url, login=settings.mlflow_login)

    def store(self, tenant: str) -> ObjectStore:
        """A tenant's object store, with the tenant's own credentials."""
        from ffdl_ops.adapters.storage.store import ObjectStore

        return ObjectStore(self.settings.store_config(tenant))

    def results_store(self, tenant: str, manifest: Manifest) -> ObjectStore:
        """The store that a job's results are in: the tenant's, unless the manifest brought credentials of its own."""
        stores = manifest.data_stores
        connection = stores[0].connection if stores else None
        if connection is None or not connection.secret or stores[0].training_results is None:
            return self.store(tenant)
        from ffdl_ops.adapters.cluster.secrets import connection_secret
        from ffdl_ops.adapters.storage.config import from_env
        from ffdl_ops.adapters.storage.store import ObjectStore

        values = connection_secret(self.cluster, tenant, connection.secret)
        if values is None:
            raise UserError(f"Tenant {tenant} has no data-store secret {connection.secret!r} (any more).")
        return ObjectStore(from_env("FFDL_DATA_S3_", values))

    def remove_files(self, job: JobRecord) -> int:
        """Remove a job's directory on the cluster's job volume, by a pod: the number of its files."""
        from ffdl_ops.pipeline.helpers import run_step
        from ffdl_ops.pipeline.services import Services
        from ffdl_ops.pipeline.steps import REMOVE

        return int(run_step(Services(self.settings), job, REMOVE)["files"])

    def now(self) -> datetime:
        """The present moment, aware, in UTC."""
        return datetime.now(UTC)

    @functools.cached_property
    def user(self) -> str:
        """Who calls: FFDL_USER, or the user of this machine."""
        named = os.environ.get("FFDL_USER")
        if named:
            return named
        try:
            return getpass.getuser()
        except (OSError, KeyError):
            return f"uid-{os.getuid()}"

    def tenant(self, name: str | None) -> Tenant:
        """A tenant: the one named, else FFDL_TENANT, else the only one.

        :raises UserError: when none is named and there are several, or there is none of that name.
        """
        tenants = self.settings.tenants
        name = name or os.environ.get("FFDL_TENANT")
        names = [tenant.name for tenant in tenants]
        if name:
            if name in tenants:
                return tenants[name]
            raise UserError(f"There is no tenant {name!r}; there are {', '.join(sorted(names))}.")
        if len(names) == 1:
            return tenants[names[0]]
        raise UserError(f"Whose job is it? Give --tenant or set FFDL_TENANT; there are {', '.join(sorted(names))}.")

    def job(self, text: str) -> JobRecord:
        """The job that a person means: its id, an unambiguous beginning of it (without ``job-`` too), or its DAG run's id.

        :raises NoSuchJob: when there is none.
        :raises UserError: when there is more than one.
        """
        text = text.strip()
        exact = self.ledger.job(text)
        if exact is not None:
            return exact
        jobs = self.ledger.jobs(limit=_ALL)
        found = [job for job in jobs if text and job.run_id == text]
        found = found or [job for job in jobs if text and job.job_id.removeprefix("job-").startswith(_digits(text))]
        if len(found) == 1:
            return found[0]
        if not found:
            raise NoSuchJob(
                f"There is no job {text!r}. `ffdl list` shows the jobs; one just submitted is there once its `plan` has run."
            )
        names = ", ".join(job.job_id for job in found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
        raise UserError(f"{text!r} stands for {len(found)} jobs ({names}); give more of the id.")


def _digits(text: str) -> str:
    return text.removeprefix("job-") or text
