"""Where a job's things are: its results, logs and code in buckets, its run in MLflow and in Airflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.cli.session import Session

__all__ = ["bucket_of", "job_prefix", "logs_prefix", "mlflow_url", "results_place", "results_uri", "run_url"]


def bucket_of(session: Session, job: JobRecord) -> str:
    """The bucket of the job's tenant."""
    return session.tenant(job.tenant).bucket


def job_prefix(job_id: str) -> str:
    """What the keys of everything of a job begin with, in its tenant's bucket."""
    return f"jobs/{job_id}/"


def logs_prefix(job_id: str) -> str:
    """What the keys of a job's logs begin with."""
    return f"{job_prefix(job_id)}logs/"


def results_place(session: Session, job: JobRecord) -> tuple[str, str]:
    """Bucket and prefix (ending in ``/``) of the job's results."""
    from ffdl_ops.core.jobs.manifest import load_manifest
    from ffdl_ops.pipeline.staging import results_of

    bucket, prefix = results_of(load_manifest(job.manifest), bucket_of(session, job), job.job_id)
    return bucket, f"{prefix.rstrip('/')}/"


def results_uri(session: Session, job: JobRecord) -> str:
    """The address of the job's results."""
    bucket, prefix = results_place(session, job)
    return f"s3://{bucket}/{prefix}"


def mlflow_url(session: Session, job: JobRecord) -> str | None:
    """The page of the job's run in MLflow, or ``None`` while there is none."""
    if not job.mlflow_run_id or not job.mlflow_experiment_id:
        return None
    from ffdl_ops.adapters.tracking.runs import RunRef

    return session.tracker.url(RunRef(job.mlflow_experiment_id, job.mlflow_run_id))


def run_url(session: Session, job: JobRecord) -> str:
    """The page of the job's run in Airflow."""
    return session.airflow.run_url(job.dag_id, job.run_id)
