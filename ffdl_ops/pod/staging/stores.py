"""The stores that a helper's environment gives it: the tenant's, and the manifest's own data store if it names one."""

from __future__ import annotations

import os

from ffdl_ops.adapters.storage.config import from_env
from ffdl_ops.adapters.storage.store import ObjectStore
from ffdl_ops.pod.staging.spec import StageSpec

__all__ = ["data_store", "has_own_data_store", "results_store", "tenant_store"]

_DATA = "FFDL_DATA_S3_"


def tenant_store() -> ObjectStore:
    """The tenant's store."""
    return ObjectStore(from_env())


def has_own_data_store() -> bool:
    """Whether the environment names a data store besides the tenant's."""
    return bool(os.environ.get(f"{_DATA}ACCESS_KEY_ID"))


def data_store() -> ObjectStore:
    """The store that holds the job's data."""
    return ObjectStore(from_env(_DATA)) if has_own_data_store() else tenant_store()


def results_store(spec: StageSpec) -> ObjectStore:
    """The store that takes the results: the manifest's own one, unless they go to the job's place in the tenant's bucket."""
    own_place = spec.results.bucket == spec.bucket and spec.results.prefix == f"jobs/{spec.job_id}/results"
    return tenant_store() if own_place else data_store()
