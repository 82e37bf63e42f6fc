"""What a job's staging helpers are told: where its data, code, checkpoints and results are. No secrets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.cluster.specs import CACHE_DIR, JOB_DIR, TOOLS_DIR
from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.core.jobs.states import TERMINAL, JobState
from ffdl_ops.pipeline.services import now
from ffdl_ops.pod.staging.spec import KEY_SHOWN

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.core.jobs.manifest import Manifest
    from ffdl_ops.pipeline.services import Services

__all__ = ["data_dir_of", "data_secret_of", "keep_spec", "results_of", "stage_spec"]

_ALL = 100_000
_LIVING = frozenset(JobState) - TERMINAL
_SHA256 = re.compile(r"[0-9a-f]{64}")


def stage_spec(svc: Services, job: JobRecord, *, attempt: int, learners: int) -> dict[str, Any]:
    """The specification that every staging command of the job reads.

    :param attempt: the attempt that it serves (0 when none has begun).
    :param learners: the gang's size.
    """
    manifest = load_manifest(job.manifest)
    bucket = svc.tenant(job.tenant).bucket
    results_bucket, results_prefix = results_of(manifest, bucket, job.job_id)
    return {
        "job_id": job.job_id,
        "tenant": job.tenant,
        "attempt": attempt,
        "rank": 0,
        "learners": learners,
        "bucket": bucket,
        "data": _data(job),
        "code": _code(manifest),
        "job_dir": JOB_DIR,
        "tools_dir": TOOLS_DIR,
        "checkpoint": {
            "enabled": manifest.checkpoint.enabled,
            "interval_s": manifest.checkpoint.interval_s,
            "per_rank": manifest.checkpoint.per_rank,
            "keep": manifest.checkpoint.keep,
        },
        "results": {"bucket": results_bucket, "prefix": results_prefix},
    }


def keep_spec(svc: Services, tenant: str) -> dict[str, Any]:
    """What may stay in the tenant's cache beside a data set that is staged."""
    as_of = now()
    living = svc.ledger.jobs(tenant=tenant, states=_LIVING, limit=_ALL)
    return {
        "max_bytes": svc.platform.cache.max_bytes,
        "max_age_s": svc.platform.cache.max_age_s,
        "in_use": sorted({job.dataset_key[:KEY_SHOWN] for job in living if job.dataset_key}),
        "as_of": as_of.timestamp(),
    }


def results_of(manifest: Manifest, bucket: str, job_id: str) -> tuple[str, str]:
    """Bucket and prefix of the job's results: the manifest's container, else the job's own place."""
    store = manifest.data_stores[0] if manifest.data_stores else None
    if store is not None and store.training_results is not None:
        name, _, prefix = store.training_results.container.partition("/")
        return name, "/".join(part for part in (prefix.strip("/"), job_id) if part)
    return bucket, f"jobs/{job_id}/results"


def data_dir_of(job: JobRecord) -> str | None:
    """Where the job's data set lies in a learner's container, or ``None`` when it reads none."""
    return f"{CACHE_DIR}/{job.dataset_key}" if job.dataset_key else None


def data_secret_of(manifest: Manifest) -> str | None:
    """The secret with the credentials of the manifest's own data store, or ``None`` for the tenant's store."""
    store = manifest.data_stores[0] if manifest.data_stores else None
    connection = store.connection if store is not None else None
    return connection.secret if connection is not None else None


def _data(job: JobRecord) -> dict[str, Any] | None:
    if not job.dataset_key or not job.dataset:
        return None
    return {
        "bucket": job.dataset["bucket"],
        "prefix": job.dataset["prefix"],
        "key": job.dataset_key,
        "cache_dir": CACHE_DIR,
    }


def _code(manifest: Manifest) -> dict[str, Any] | None:
    if manifest.example:
        return {"inline_example": manifest.example}
    if manifest.code:
        digest = manifest.code.rsplit("/", 1)[-1].removesuffix(".zip")
        return {"uri": manifest.code, "sha256": digest if _SHA256.fullmatch(digest) else None}
    return None
