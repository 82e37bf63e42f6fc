"""Links from a task to where else its job can be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

    from ffdl_ops.adapters.ledger import JobRecord

__all__ = ["PAGES", "MlflowRunLink", "WaitLink"]

PAGES = "/ffdl"
"""Where the plugin mounts the platform's own pages in Airflow's API server."""


class MlflowRunLink(BaseOperatorLink):
    """The job's run in MLflow: parameters, metrics, where the model is."""

    name = "MLflow run"

    @staticmethod
    def url_of(job: JobRecord) -> str | None:
        """The run's page, or ``None`` while the job has no run."""
        from ffdl_ops.pipeline.services import services

        if not job.mlflow_run_id:
            return None
        base = services().settings.mlflow_url.rstrip("/")
        return f"{base}/#/experiments/{job.mlflow_experiment_id}/runs/{job.mlflow_run_id}"

    def get_link(self, operator: BaseOperator, *, ti_key: object) -> str:
        """The link of one task instance; empty when its job has no run."""
        from ffdl_ops.core.jobs.ids import job_id
        from ffdl_ops.pipeline.services import services

        dag_id, run_id = getattr(ti_key, "dag_id", ""), getattr(ti_key, "run_id", "")
        job = services().ledger.job(job_id(dag_id, run_id))
        return (self.url_of(job) if job else None) or ""


class WaitLink(BaseOperatorLink):
    """The page that says why the job waits, who holds what it waits for, and until when.

    Its address follows from the run alone. It has no host, so it holds under whatever name people reach Airflow.
    """

    name = "Why it waits"

    @staticmethod
    def url_of(job: JobRecord) -> str:
        """The job's page."""
        return _wait_page(job.job_id)

    def get_link(self, operator: BaseOperator, *, ti_key: object) -> str:
        """The link of one task instance."""
        from ffdl_ops.core.jobs.ids import job_id

        return _wait_page(job_id(getattr(ti_key, "dag_id", ""), getattr(ti_key, "run_id", "")))


def _wait_page(job_id: str) -> str:
    from urllib.parse import urlsplit

    from airflow.configuration import conf

    root = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    return f"{root}{PAGES}/jobs/{job_id}/wait"
