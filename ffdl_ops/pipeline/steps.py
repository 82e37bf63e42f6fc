"""The steps of a job that helper pods do: fetching its data, completing its checkpoint, storing its results and logs; and,
when the job is deleted, removing its files.

A step knows whether it is needed, how to start its helper, and what to keep of the result. It is done once for a job's
newest attempt, whichever task does it: its own, or `conclude` when a person's clear left that out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.pipeline.finishing import is_done, mark_done, newest_attempt, record_generations
from ffdl_ops.pipeline.helpers import HelperEnd, HelperStep, result_of, start_helper
from ffdl_ops.pipeline.staging import data_secret_of, keep_spec, stage_spec
from ffdl_ops.pod.staging.spec import KEY_SHOWN

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.pipeline.services import Services

__all__ = ["CHECKPOINT", "FETCH", "REMOVE", "STORE"]

_RECENT = 200
"""Jobs of a tenant among which one that has staged the same data is looked for."""


class _Fetch(HelperStep):
    """The job's data set, into the tenant's cache."""

    def needed(self, svc: Services, job: JobRecord) -> bool:
        """Unless the job reads no data, or a job of this tenant has staged the same objects before."""
        if not job.dataset_key:
            return False
        recent = svc.ledger.jobs(tenant=job.tenant, limit=_RECENT)
        if any(one.dataset_key == job.dataset_key and (one.dataset or {}).get("staged") for one in recent):
            self._mark(svc, job)
            return False
        return True

    def start(self, svc: Services, job: JobRecord) -> str:
        """Start the fetch."""
        spec = stage_spec(svc, job, attempt=0, learners=1)
        spec["data"]["keep"] = keep_spec(svc, job.tenant)
        return start_helper(svc, job, "fetch", "fetch", spec, data_secret=data_secret_of(load_manifest(job.manifest)))

    def finish(self, svc: Services, job: JobRecord, end: HelperEnd) -> dict[str, Any]:
        """Keep that the data is staged, and that what made way for it is not any more."""
        report = result_of(svc, job, end)
        gone = frozenset(report.get("evicted") or ())
        if gone:
            for one in svc.ledger.jobs(tenant=job.tenant, limit=_RECENT):
                if (one.dataset_key or "")[:KEY_SHOWN] in gone and (one.dataset or {}).get("staged"):
                    svc.ledger.set_facts(one.job_id, dataset={**(one.dataset or {}), "staged": False})
        self._mark(svc, job)
        made_way = {"evicted": len(gone), "evicted_bytes": report.get("evicted_bytes")} if gone else {}
        return {**{key: report.get(key) for key in ("files", "bytes", "seconds", "cached")}, **made_way}

    @staticmethod
    def _mark(svc: Services, job: JobRecord) -> None:
        svc.ledger.set_facts(job.job_id, dataset={**(job.dataset or {}), "staged": True})


class _Checkpoint(HelperStep):
    """The newest checkpoint: its upload completed, promoted, the older ones pruned."""

    def needed(self, svc: Services, job: JobRecord) -> bool:
        """Unless it was done for the newest attempt, nothing has run, or the job's checkpoints are not taken up."""
        return load_manifest(job.manifest).checkpoint.enabled and not is_done(svc, job, "checkpoint")

    def start(self, svc: Services, job: JobRecord) -> str:
        """Start the last scan of the checkpoint directory."""
        return start_helper(svc, job, "checkpoint", "checkpoint", _spec_of_newest(svc, job))

    def finish(self, svc: Services, job: JobRecord, end: HelperEnd) -> dict[str, Any]:
        """Promote and prune."""
        result_of(svc, job, end)
        result = record_generations(svc, job, load_manifest(job.manifest).checkpoint.keep)
        mark_done(svc, job, "checkpoint", result)
        return result


class _Store(HelperStep):
    """The results and all logs, into the bucket."""

    def needed(self, svc: Services, job: JobRecord) -> bool:
        """Unless it was done for the newest attempt, or nothing has run."""
        return not is_done(svc, job, "store")

    def start(self, svc: Services, job: JobRecord) -> str:
        """Start the upload."""
        secret = data_secret_of(load_manifest(job.manifest))
        return start_helper(svc, job, "store", "store", _spec_of_newest(svc, job), data_secret=secret)

    def finish(self, svc: Services, job: JobRecord, end: HelperEnd) -> dict[str, Any]:
        """Keep what was stored."""
        report = result_of(svc, job, end)
        result: dict[str, Any] = {key: report[key] for key in ("files", "bytes", "seconds", "skipped") if key in report}
        mark_done(svc, job, "store", result)
        return result


class _Remove(HelperStep):
    """The job's directory on the job volume, gone."""

    def needed(self, svc: Services, job: JobRecord) -> bool:
        """Always: what is there, only a pod can see."""
        return True

    def start(self, svc: Services, job: JobRecord) -> str:
        """Start the removal, from the directory above."""
        spec = stage_spec(svc, job, attempt=0, learners=1)
        spec["job_dir"] = f"{spec['job_dir']}/{job.job_id}"
        return start_helper(svc, job, "remove", "remove", spec, all_jobs=True)

    def finish(self, svc: Services, job: JobRecord, end: HelperEnd) -> dict[str, Any]:
        """Tell how much it was."""
        report = result_of(svc, job, end)
        return {"files": report["files"], "bytes": report["bytes"]}


def _spec_of_newest(svc: Services, job: JobRecord) -> dict[str, Any]:
    attempts = svc.ledger.attempts(job.job_id)
    return stage_spec(svc, job, attempt=newest_attempt(svc, job), learners=attempts[-1].learners)


FETCH = _Fetch()
CHECKPOINT = _Checkpoint()
STORE = _Store()
REMOVE = _Remove()
