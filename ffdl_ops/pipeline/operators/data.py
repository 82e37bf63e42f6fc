"""`fetch_data`: the data set is on the cluster before any GPU is held."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ffdl_ops.core.jobs.ids import namespace as namespace_of
from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.core.jobs.states import JobState
from ffdl_ops.pipeline import helpers
from ffdl_ops.pipeline.services import Services
from ffdl_ops.pipeline.stage import StageOperator
from ffdl_ops.pipeline.staging import data_secret_of, stage_spec
from ffdl_ops.pipeline.triggers.helper import HelperTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ffdl_ops.adapters.ledger import JobRecord

__all__ = ["FetchDataOperator"]

_DEFER_LIMIT = timedelta(days=2)


class FetchDataOperator(StageOperator):
    """Stages the job's data into the tenant's cache, by a pod that streams it from the store.

    Data that an earlier job of the tenant has staged is not fetched again; each learner's `prepare` container still
    looks whether its node has it.

    :param tenant: whose DAG it is in.
    """

    stage = "fetch_data"
    ui_color = "#dbe9ff"

    def work(self, context: Context, svc: Services, job: JobRecord) -> dict[str, Any] | None:
        """Stage the data, or say that it is there."""
        svc.advance(job.job_id, JobState.DOWNLOADING, "staging data")
        if not job.dataset_key:
            self.log.info("The job reads no data set.")
            return None
        if _staged(svc, job):
            self.log.info("Data set %s is in the tenant's cache.", job.dataset_key[:12])
            self._mark(svc, job)
            return {"cached": True}
        spec = stage_spec(svc, job, attempt=0, learners=1)
        secret = data_secret_of(load_manifest(job.manifest))
        pod = helpers.start_helper(svc, job, "fetch", "fetch", spec, data_secret=secret)
        namespace = namespace_of(job.tenant)
        end = helpers.await_helper(svc, namespace, pod)
        if end is None:
            trigger = HelperTrigger(job.job_id, namespace, pod)
            self.defer(trigger=trigger, method_name="resume_stage", timeout=_DEFER_LIMIT)
            return None
        return self._ended(svc, job, end)

    def woken(self, context: Context, svc: Services, job: JobRecord, event: dict[str, Any]) -> dict[str, Any]:
        """Read the helper's result."""
        namespace = namespace_of(job.tenant)
        end = helpers.helper_end(svc, namespace, event["pod"], age_s=float("inf"))
        return self._ended(svc, job, end or helpers.HelperEnd(event["pod"], None, {}, "helper did not start"))

    def _ended(self, svc: Services, job: JobRecord, end: helpers.HelperEnd) -> dict[str, Any]:
        result = helpers.result_of(svc, namespace_of(job.tenant), end)
        size, seconds = int(result.get("bytes") or 0), float(result.get("seconds") or 0)
        self.log.info("Staged %.1f MiB in %.1f s.", size / 2**20, seconds)
        self._mark(svc, job)
        return {"bytes": size, "seconds": seconds, "cached": bool(result.get("cached"))}

    @staticmethod
    def _mark(svc: Services, job: JobRecord) -> None:
        svc.ledger.set_facts(job.job_id, dataset={**(job.dataset or {}), "staged": True})


def _staged(svc: Services, job: JobRecord) -> bool:
    """Whether a job of this tenant has staged the same objects before."""
    recent = svc.ledger.jobs(tenant=job.tenant, limit=200)
    return any(one.dataset_key == job.dataset_key and (one.dataset or {}).get("staged") for one in recent)
