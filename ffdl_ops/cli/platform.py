"""The embedded platform from the command line: `up`, `down`, `status`, and `run`, which shows one job from end to end."""

from __future__ import annotations

import signal
import time
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from ffdl_ops.cli.output import emit_json, say, show_duration, show_table

if TYPE_CHECKING:
    from ffdl_ops.local.services.stack import Stack

__all__ = ["commands"]


def _stack(*, quiet: bool = False) -> Stack:
    from ffdl_ops.adapters.settings import Settings
    from ffdl_ops.local.services.stack import Stack

    return Stack(Settings.load(), (lambda line: None) if quiet else say)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the services as JSON.")
def up(as_json: bool) -> None:
    """Start the embedded platform, and what of it is not up yet."""
    stack = _stack(quiet=as_json)
    stack.up()
    if as_json:
        emit_json(stack.status())
    else:
        _addresses(stack)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print what was stopped as JSON.")
def down(as_json: bool) -> None:
    """Stop the embedded platform. Data stays; what trains is stopped."""
    stopped = _stack(quiet=as_json).down()
    if as_json:
        emit_json({"stopped": stopped})
    else:
        say(f"Stopped: {', '.join(stopped)}." if stopped else "Nothing was up.")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the services as JSON.")
def status(as_json: bool) -> None:
    """Show which parts of the platform are up. Exits with 1 unless all are."""
    rows = _stack(quiet=True).status()
    if as_json:
        emit_json(rows)
    else:
        show_table(
            ["Service", "State", "Pid", "Address", "Log"],
            [[row.service, row.state, row.pid or "", row.address, row.log] for row in rows],
        )
    if any(row.state != "up" for row in rows):
        raise click.exceptions.Exit(1)


@click.command()
@click.option("--once", is_flag=True, help="Stop by itself after the job; the exit code is the job's outcome.")
@click.option("--example", default="digits-pytorch", show_default=True, help="Which example to train.")
@click.option("--learners", default=1, show_default=True, type=click.IntRange(1, 64))
@click.option("--tenant", default="vision", show_default=True)
def run(once: bool, example: str, learners: int, tenant: str) -> None:
    """Start the platform, train one example on real data, and show where everything is."""
    signal.signal(signal.SIGTERM, _interrupt)
    stack = _stack()
    started = stack.up()
    try:
        code = _one_job(stack, example, learners, tenant)
        _addresses(stack)
        if not once:
            say("\nThe platform stays up. Ctrl-C stops it.")
            while True:
                time.sleep(3600)
    except KeyboardInterrupt:
        say("\nStopping what was started here.")
        code = 0 if not once else 130
    finally:
        stack.stop(started)
    raise click.exceptions.Exit(code)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _one_job(stack: Stack, example: str, learners: int, tenant: str) -> int:
    """Submit the example, follow it, sum it up. Returns the exit code that its end stands for."""
    import uuid

    from ffdl_ops.cli.exits import exit_of_state
    from ffdl_ops.cli.follow import Followed, follow, settle
    from ffdl_ops.cli.session import Session
    from ffdl_ops.core.jobs.ids import dag_id, job_id
    from ffdl_ops.local.services.seed import seed_digits

    session = Session()
    data = seed_digits(session.settings, tenant)
    say(f"Data: s3://{data}")
    target, run_id = dag_id(tenant), f"run-{uuid.uuid4().hex[:8]}"
    stack.wait_for_dag(target)
    form: dict[str, Any] = {"example": example, "learners": learners, "submitted_by": session.user}
    session.airflow.trigger(target, run_id, form)
    say(f"Triggered {target}: {session.airflow.run_url(target, run_id)}\n")
    job = follow(session, Followed(target, run_id, job_id(target, run_id)))
    settle(session, job)
    _summary(session, session.ledger.job(job.job_id) or job)
    return int(exit_of_state(job.state))


def _summary(session: Any, job: Any) -> None:
    say(f"\nJob {job.job_id} is {job.state}.")
    stages = session.ledger.stage_seconds(job.job_id)
    show_table(["Stage", "Duration"], [[stage, show_duration(seconds)] for stage, seconds in stages.items()])
    if job.mlflow_run_id:
        latest = session.tracker.run(job.mlflow_run_id).latest
        if "test_accuracy" in latest:
            say(f"Test accuracy: {latest['test_accuracy'].value:.2f} %")
    bucket = session.settings.tenants[job.tenant].bucket
    say(f"Model:         s3://{bucket}/jobs/{job.job_id}/results/   (ffdl download {job.job_id} model)")
    say(f"Logs:          s3://{bucket}/jobs/{job.job_id}/logs/")


def _addresses(stack: Stack) -> None:
    passwords = stack.passwords()
    say("")
    show_table(
        ["Service", "Address", "Log in as", "Password"],
        [
            *[
                ["Airflow", f"http://127.0.0.1:{stack.ports['airflow']}", user, word]
                for user, word in passwords.items()
            ],
            ["MLflow", f"http://127.0.0.1:{stack.ports['mlflow']}", "", ""],
            ["S3", f"http://127.0.0.1:{stack.ports['s3']}", "keys in endpoints.json", ""],
            ["minicluster", f"https://127.0.0.1:{stack.ports['minicluster']}", "kubeconfig", ""],
        ],
    )
    say(f"State: {stack.home}")


commands: list[click.Command] = [up, down, status, run]
