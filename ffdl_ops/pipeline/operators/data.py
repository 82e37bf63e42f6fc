"""`fetch_data`: the data set is on the cluster before any GPU is held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ffdl_ops.core.jobs.states import JobState
from ffdl_ops.pipeline.operators.helper_stage import HelperStageOperator
from ffdl_ops.pipeline.steps import FETCH

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.pipeline.services import Services

__all__ = ["FetchDataOperator"]


class FetchDataOperator(HelperStageOperator):
    """Stages the job's data into the tenant's cache, by a pod that streams it from the store.

    Data that an earlier job of the tenant has staged is not fetched again; each learner's `prepare` container still
    looks whether its node has it.

    :param tenant: whose DAG it is in.
    """

    stage = "fetch_data"
    ui_color = "#dbe9ff"
    work_of = FETCH

    def work(self, context: Context, svc: Services, job: JobRecord) -> dict[str, Any]:
        """Stage the data, or find it staged."""
        svc.advance(job.job_id, JobState.DOWNLOADING, "staging data")
        return super().work(context, svc, job)
