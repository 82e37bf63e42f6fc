"""The adapters that a task or a trigger works with, made once per process.

Airflow forks its tasks, so the cache is keyed by process: no connection is shared across a fork.
"""

from __future__ import annotations

import functools
import logging
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ffdl_ops.adapters.airflow_api import AirflowApi
    from ffdl_ops.adapters.cluster.client import Cluster
    from ffdl_ops.adapters.ledger import Ledger
    from ffdl_ops.adapters.settings import Settings
    from ffdl_ops.adapters.storage.store import ObjectStore
    from ffdl_ops.adapters.tracking.runs import Tracker
    from ffdl_ops.core.jobs.states import JobState
    from ffdl_ops.core.platform import PlatformConfig
    from ffdl_ops.core.tenancy.tenants import Tenant

__all__ = ["Services", "now", "services"]

_log = logging.getLogger(__name__)


def now() -> datetime:
    """The present moment, aware, in UTC."""
    return datetime.now(UTC)


class Services:
    """Ledger, cluster, stores and tracker of one installation, each opened when it is first used."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._refused = ""

    def refresh(self) -> None:
        """Take what has changed in the configuration's files; addresses and credentials stay as they were."""
        from ffdl_ops.adapters.settings import Settings
        from ffdl_ops.core.errors import UserError
        from ffdl_ops.core.jobs.problems import Problems

        try:
            fresh = Settings.load(self.settings.home, self.settings.config)
        except (Problems, UserError, OSError) as error:
            if str(error) != self._refused:
                _log.warning("The configuration has become wrong, and is not taken: %s", error)
                self._refused = str(error)
            return
        self._refused = ""
        if fresh.tenants is not self.settings.tenants or fresh.platform is not self.settings.platform:
            self.settings = fresh.with_endpoints(self.settings.endpoints)

    @property
    def platform(self) -> PlatformConfig:
        """The platform's configuration."""
        return self.settings.platform

    def tenant(self, name: str) -> Tenant:
        """A tenant by name."""
        return self.settings.tenants[name]

    @functools.cached_property
    def ledger(self) -> Ledger:
        """The durable record."""
        from ffdl_ops.adapters.ledger import Ledger

        return Ledger(self.settings.ledger_url)

    @functools.cached_property
    def cluster(self) -> Cluster:
        """The cluster that the learners run on."""
        from ffdl_ops.adapters.cluster.client import Cluster

        return Cluster(self.settings.kubeconfig)

    @functools.cached_property
    def tracker(self) -> Tracker:
        """The MLflow server."""
        from ffdl_ops.adapters.tracking.runs import Tracker

        settings = self.settings
        return Tracker(settings.mlflow_uri, public_uri=settings.mlflow_url, login=settings.mlflow_login)

    @functools.cached_property
    def airflow(self) -> AirflowApi:
        """Airflow's own REST API, as the platform's account."""
        from ffdl_ops.adapters.airflow_api import AirflowApi

        return AirflowApi.from_settings(self.settings)

    def advance(self, job_id: str, to: JobState, reason: str) -> None:
        """Move a job forward to a state, unless it is past it: a stage that runs again never moves it backwards."""
        from ffdl_ops.core.jobs.states import allowed

        job = self.ledger.job(job_id)
        if job is not None and allowed(job.state, to):
            self.ledger.transition(job_id, to, reason=reason[:500], now=now())

    def store(self, tenant: str) -> ObjectStore:
        """A tenant's object store, with the tenant's own credentials."""
        from ffdl_ops.adapters.storage.store import ObjectStore

        return ObjectStore(self.settings.store_config(tenant))


@functools.lru_cache(maxsize=2)
def _services(pid: int) -> Services:
    from ffdl_ops.adapters.settings import Settings

    return Services(Settings.load())


def services() -> Services:
    """The services of this process, with the configuration as the files have it now.

    A configuration file that has become wrong is not taken: what was right goes on to hold.
    """
    known = _services(os.getpid())
    known.refresh()
    return known
