"""Removing what an ended job left: files on the cluster, its objects, its MLflow run. The ledger keeps its record and says so.

What it does not do: end a job, remove code that other jobs may use too, or remove secrets of data stores.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from ffdl_ops.cli.exits import Refusal
from ffdl_ops.core.jobs.states import TERMINAL

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord, Ledger
    from ffdl_ops.cli.session import Session

__all__ = ["deleted_at", "remove_job"]

_MARK = "deleted"


def deleted_at(ledger: Ledger, job: JobRecord) -> datetime | None:
    """When what the job left was deleted; ``None`` if it was not, or if the job was resumed since."""
    mark = ledger.cursor(job.job_id, _MARK)
    if not mark or mark.get("resume_count") != job.resume_count:
        return None
    return datetime.fromisoformat(str(mark["at"]))


def remove_job(session: Session, job: JobRecord) -> dict[str, Any]:
    """Delete the job's files, objects and MLflow run, then mark it; may be repeated after it was interrupted.

    :returns: how many files and objects were deleted, and whether there was a run to delete.
    :raises Refusal: while the job has not ended.
    """
    if job.state not in TERMINAL:
        raise Refusal(
            f"Job {job.job_id} is {job.state}; halt it first (`ffdl halt {job.job_id} --wait`, or --force here)."
        )
    words = "removes what it left on the cluster, in the bucket and in MLflow"
    session.ledger.audit(session.user, "delete", session.now(), words, tenant=job.tenant, job_id=job.job_id)
    files = session.remove_files(job)
    objects = _remove_objects(session, job)
    run = _remove_run(session, job)
    mark = {"at": session.now().isoformat(), "by": session.user, "resume_count": job.resume_count}
    session.ledger.save_cursor(job.job_id, _MARK, mark, 0)
    return {"files": files, "objects": objects, "mlflow_run": run}


def _remove_objects(session: Session, job: JobRecord) -> int:
    """What is under the job's own prefix, and its results where the manifest sent them elsewhere."""
    from ffdl_ops.cli.places import bucket_of, job_prefix, results_place
    from ffdl_ops.core.jobs.manifest import load_manifest

    own_bucket, own_prefix = bucket_of(session, job), job_prefix(job.job_id)
    store = session.store(job.tenant)
    removed = store.delete_many(own_bucket, [one.key for one in store.list(own_bucket, own_prefix)])
    bucket, prefix = results_place(session, job)
    if bucket != own_bucket or not prefix.startswith(own_prefix):
        other = session.results_store(job.tenant, load_manifest(job.manifest))
        removed += other.delete_many(bucket, [one.key for one in other.list(bucket, prefix)])
    return removed


def _remove_run(session: Session, job: JobRecord) -> bool:
    """Delete the job's MLflow run; one that is gone already counts as deleted."""
    from ffdl_ops.adapters.tracking.rest import MlflowApi, TrackingRefused

    if not job.mlflow_run_id:
        return False
    try:
        api = MlflowApi(session.settings.mlflow_uri, login=session.settings.mlflow_login)
        api.post("runs/delete", {"run_id": job.mlflow_run_id})
    except TrackingRefused as error:
        if error.code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return False
    return True
