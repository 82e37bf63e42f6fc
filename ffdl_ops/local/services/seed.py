"""Real data in every tenant's bucket, for the examples."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ffdl_ops.adapters.settings import Settings

__all__ = ["PREFIX", "seed_digits"]

PREFIX = "datasets/digits"


def seed_digits(settings: Settings, tenant: str) -> str:
    """Put the digits data set into a tenant's bucket, unless it is there.

    :returns: its place, as `bucket/prefix`.
    """
    from ffdl_ops.adapters.storage.store import ObjectStore
    from ffdl_ops.pod.workloads.dataset import make_dataset

    bucket = settings.tenants[tenant].bucket
    store = ObjectStore(settings.store_config(tenant))
    present = {item.key for item in store.list(bucket, f"{PREFIX}/")}
    if not {f"{PREFIX}/train.npz", f"{PREFIX}/test.npz"} <= present:
        with tempfile.TemporaryDirectory() as directory:
            for path in make_dataset(Path(directory)):
                store.put_file(bucket, f"{PREFIX}/{path.name}", path)
    return f"{bucket}/{PREFIX}"
