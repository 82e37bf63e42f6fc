"""`ffdl delete`."""

from __future__ import annotations

import click

from ffdl_ops.cli.control import halt_job
from ffdl_ops.cli.options import as_json, job_argument, pass_session, timeout_option
from ffdl_ops.cli.output import emit_json, say
from ffdl_ops.cli.removal import remove_job
from ffdl_ops.cli.session import Session
from ffdl_ops.core.jobs.states import TERMINAL

__all__ = ["commands"]


@click.command()
@job_argument
@click.option("--force", is_flag=True, help="Halt a job that has not ended, and wait for that, first.")
@timeout_option
@as_json
@pass_session
def delete(session: Session, job: str, force: bool, timeout: float | None, as_json: bool) -> None:
    """Delete what an ended job left: its files on the cluster, results, checkpoints and logs in the bucket, its run in MLflow.

    The ledger keeps the job's record, and its code stays, since other jobs may use the same. It can't be undone.
    """
    from ffdl_ops.cli.follow import Followed, wait_for_end

    record = session.job(job)
    if force and record.state not in TERMINAL:
        halt_job(session, record)
        run = Followed(record.dag_id, record.run_id, record.job_id, record.resume_count)
        record = wait_for_end(session, run, timeout_s=timeout)
    done = remove_job(session, record)
    if as_json:
        emit_json({"job_id": record.job_id, **done})
        return
    also = " and its MLflow run" if done["mlflow_run"] else ""
    say(f"Deleted {done['files']} files on the cluster and {done['objects']} objects of {record.job_id}{also}.")


commands = [delete]
