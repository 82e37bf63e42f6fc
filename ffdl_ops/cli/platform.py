"""The embedded platform from the command line: `up`, `down`, `status`, and `run`, which shows one job from end to end."""

from __future__ import annotations

import signal
from types import FrameType
from typing import TYPE_CHECKING

import click

from ffdl_ops.cli.output import emit_json, say, show_table

if TYPE_CHECKING:
    from ffdl_ops.local.services.stack import Stack

__all__ = ["commands"]

_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the services as JSON.")
def up(as_json: bool) -> None:
    """Start the embedded platform, and what of it is not up yet.

    What runs with an older configuration is restarted. When a part fails, what this call has started is stopped again.
    """
    _interrupt_once()
    stack = _stack(quiet=as_json)
    stack.up()
    if as_json:
        emit_json(stack.status())
    else:
        _show_addresses(stack)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print what was stopped as JSON.")
def down(as_json: bool) -> None:
    """Stop the embedded platform. Data stays; what trains is stopped, and goes on from its checkpoint after `ffdl up`."""
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
            ["Service", "State", ">Pid", "Address", "Log"],
            [[row.service, row.state, row.pid, row.address, row.log] for row in rows],
        )
    if any(row.state != "up" for row in rows):
        raise click.exceptions.Exit(1)


@click.command()
@click.option("--once", is_flag=True, help="Stop by itself after the job; the exit code is the job's outcome.")
@click.option("--example", default="digits-pytorch", show_default=True, help="Which example to train.")
@click.option("--learners", default=1, show_default=True, type=click.IntRange(1, 64))
@click.option("--tenant", default="vision", show_default=True, help="Whose job it is.")
def run(once: bool, example: str, learners: int, tenant: str) -> None:
    """Start the platform, train one example on real data, and show where everything is.

    Ctrl-C stops what this call has started, and nothing else.
    """
    from ffdl_ops.cli.demo import run_example

    _interrupt_once()
    stack = _stack()
    started = stack.up()
    code: int | None = None
    try:
        code = run_example(stack, example, learners, tenant)
        _show_addresses(stack)
        if not once:
            say(
                "\nThe platform stays up. Ctrl-C stops it."
                if started
                else "\nThe platform was up before. Ctrl-C ends this."
            )
            while True:
                signal.pause()
    except KeyboardInterrupt:
        if code is None or once:
            code = 130
    finally:
        if started:
            say("\nStopping what was started here ...")
            stack.stop(started)
            say(
                f"Stopped. `ffdl up` starts it again, with everything that is there now; buckets are folders of "
                f"{stack.home / 's3' / 'buckets'}."
            )
    raise click.exceptions.Exit(code or 0)


commands: list[click.Command] = [up, down, status, run]


def _stack(*, quiet: bool = False) -> Stack:
    from ffdl_ops.adapters.settings import Settings
    from ffdl_ops.local.services.stack import Stack

    return Stack(Settings.load(), _nothing if quiet else _progress)


def _progress(line: str) -> None:
    click.echo(line)


def _nothing(line: str) -> None:
    pass


def _interrupt_once() -> None:
    """Let Ctrl-C, and being asked to stop, end the command in order; who asks twice does not break what stops services."""
    for number in _STOPS:
        signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    for stop in _STOPS:
        signal.signal(stop, signal.SIG_IGN)
    raise KeyboardInterrupt


def _show_addresses(stack: Stack) -> None:
    ports, passwords = stack.ports, stack.passwords()
    say("")
    show_table(
        ["Service", "Address", "Log in as", "Password"],
        [
            *(["Airflow", f"http://127.0.0.1:{ports['airflow']}", user, word] for user, word in passwords.items()),
            ["MLflow", f"http://127.0.0.1:{ports['mlflow']}", "as in Airflow", "as in Airflow"],
            ["S3", f"http://127.0.0.1:{ports['s3']}", "keys: endpoints.json", None],
            ["minicluster", f"https://127.0.0.1:{ports['minicluster']}", "minicluster/kubeconfig", None],
        ],
    )
    say(f"Everything of it is in {stack.home}")
