"""`ffdl halt` and `ffdl resume`: what Airflow's buttons *mark failed* and *clear* do, with the ledger told first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ffdl_ops.cli.exits import Exit, Refusal, exit_of_state
from ffdl_ops.cli.follow import is_stranded
from ffdl_ops.cli.listing import job_summary
from ffdl_ops.cli.options import as_json, job_argument, pass_session, timeout_option
from ffdl_ops.cli.output import emit_json, say
from ffdl_ops.cli.session import NoSuchJob, Session
from ffdl_ops.cli.unplanned import UnplannedRun, find_run, halt_run, wait_for_run
from ffdl_ops.core.jobs.states import TERMINAL, JobState

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord

__all__ = ["commands", "halt_job"]


@click.command()
@job_argument
@click.option("--wait", is_flag=True, help="Wait until it has stopped and its logs are stored.")
@timeout_option
@as_json
@pass_session
def halt(session: Session, job: str, wait: bool, timeout: float | None, as_json: bool) -> int:
    """Stop a job. Its learners save and stop within the grace period; checkpoint and logs are kept.

    With --wait the exit code is 0 when the job is halted, or had completed before it could be; 1 when it failed.
    """
    try:
        record = session.job(job)
    except NoSuchJob:
        run = find_run(session, job)
        if run is None:
            raise
        found = session.ledger.job(run.job_id)  # stored while Airflow was asked
        if found is None:
            return _halt_unplanned(session, run, wait=wait, timeout=timeout, as_json=as_json)
        record = found
    if record.state is JobState.HALTED:
        _report(record, "is halted already", as_json)
        return Exit.OK
    if record.state in TERMINAL:
        raise Refusal(f"Job {record.job_id} is {record.state} already; there is nothing to halt.")
    halt_job(session, record)
    if not wait:
        record = session.ledger.job(record.job_id) or record
        _report(record, "is being halted", as_json)
        return Exit.OK
    record = _wait(session, record, timeout)
    _report(record, f"is {record.state}", as_json)
    return Exit.JOB_FAILED if record.state is JobState.FAILED else Exit.OK


@click.command()
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Wait until the job ends; the exit code is its outcome.")
@timeout_option
@as_json
@pass_session
def resume(session: Session, job: str, follow: bool, timeout: float | None, as_json: bool) -> int:
    """Go on with a job that has ended, from its newest checkpoint, in the same MLflow run."""
    from ffdl_ops.cli.follow import Followed, settle, summarise
    from ffdl_ops.cli.follow import follow as follow_job
    from ffdl_ops.cli.removal import deleted_at

    record = session.job(job)
    if record.state not in TERMINAL and not is_stranded(session, record):
        raise Refusal(f"Job {record.job_id} is {record.state}; only a job that has ended can be resumed.")
    if deleted_at(session.ledger, record) is not None:
        raise Refusal(f"What job {record.job_id} left was deleted; submit it again instead.")
    # A clear would stop the last task while it still writes the old end.
    settle(session, record)
    words = f"clears run {record.run_id}"
    session.ledger.audit(session.user, "resume", session.now(), words, tenant=record.tenant, job_id=record.job_id)
    session.airflow.clear_run(record.dag_id, record.run_id)
    if not follow:
        _report(record, "is being resumed", as_json)
        return Exit.OK
    say(f"{record.job_id} is being resumed.", err=as_json)
    run = Followed(record.dag_id, record.run_id, record.job_id, record.resume_count + (record.state in TERMINAL))
    record = follow_job(session, run, timeout_s=timeout, err=as_json)
    summarise(session, record, err=as_json)
    if as_json:
        emit_json(job_summary(record))
    return exit_of_state(record.state)


def halt_job(session: Session, job: JobRecord) -> None:
    """Ask for a job's halt. The ledger first: whatever runs of the job then knows that a person wants it to end."""
    session.ledger.request_halt(job.job_id, session.user, session.now())
    session.airflow.mark_run_failed(job.dag_id, job.run_id)


def _wait(session: Session, job: JobRecord, timeout: float | None) -> JobRecord:
    from ffdl_ops.cli.follow import Followed, wait_for_end

    return wait_for_end(session, Followed(job.dag_id, job.run_id, job.job_id, job.resume_count), timeout_s=timeout)


def _halt_unplanned(session: Session, run: UnplannedRun, *, wait: bool, timeout: float | None, as_json: bool) -> int:
    halt_run(session, run)
    code = wait_for_run(session, run, timeout) if wait else Exit.OK
    if as_json:
        emit_json(run.summary())
    else:
        say(
            f"{run.job_id} is halted before its `plan` has stored it: run {run.run_id} of {run.dag_id} is marked as failed."
        )
        say("Nothing of it trains. To start it after all, clear the run in Airflow.")
    return code


def _report(job: JobRecord, what: str, as_json: bool) -> None:
    if as_json:
        emit_json(job_summary(job))
    else:
        say(f"{job.job_id} {what}.")


commands = [halt, resume]
