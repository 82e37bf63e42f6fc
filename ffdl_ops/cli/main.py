"""The group of all commands, and the boundary where errors become one message and an exit code.

Commands are imported when they are called: `ffdl --help` loads none of them.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from ffdl_ops.cli.exits import Exit, exit_of
from ffdl_ops.cli.output import error_line
from ffdl_ops.core.errors import FfdlError

__all__ = ["COMMANDS", "main"]

COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("platform", "Start the embedded platform."),
    "down": ("platform", "Stop the embedded platform."),
    "status": ("platform", "Show which parts of the platform are up."),
    "run": ("platform", "Start the platform, train one example and follow it to its end."),
    "submit": ("submit", "Submit a training job."),
    "validate": ("validate", "Check a manifest without submitting it."),
    "schema": ("validate", "Print the manifest's JSON Schema."),
    "list": ("listing", "List jobs, the newest first."),
    "queue": ("queue", "Show who waits and why, and who holds GPUs."),
    "show": ("show", "Show all that is known of a job."),
    "logs": ("logs", "Show what a job's learners print, live or after the end."),
    "metrics": ("metrics", "Show a job's metrics."),
    "download": ("download", "Download a job's model, logs, code or checkpoint."),
    "halt": ("control", "Stop a job; its checkpoint is kept."),
    "resume": ("control", "Go on with a job that has ended, from its checkpoint."),
    "delete": ("delete", "Delete what an ended job left in the bucket and in MLflow."),
    "tenants": ("tenants", "Show what tenants hold, lend and wait for; `apply` brings the cluster to their file."),
    "demand": ("demand", "Show what waits by shape, and how much of it more nodes would let start."),
    "cordon": ("nodes", "Let nothing new start on a node, or anywhere."),
    "uncordon": ("nodes", "Let jobs start again on a node, or anywhere."),
    "drain": ("nodes", "Cordon a node, or everything, and have what runs there stop, save and queue again."),
    "audit": ("audit", "Show who ordered or decided what."),
    "backup": ("backup", "Back up the ledger's and MLflow's databases."),
    "restore": ("backup", "Restore the ledger's and MLflow's databases."),
    "simulate": ("simulate", "Replay a trace of another cluster's jobs through the scheduler."),
    "bench": ("bench", "Run a benchmark."),
}
"""Each command's module (in `ffdl_ops.cli`) and what the help says of it."""


class _Ffdl(click.Group):
    """Imports a command when it is called, and ends with an exit code whatever happens."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"ffdl_ops.cli.{COMMANDS[cmd_name][0]}")
        return next((command for command in module.commands if command.name == cmd_name), None)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from ffdl_ops.core.jobs.problems import nearest

            ctx.fail(f"There is no command {args[0]!r}; {nearest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run a command line and exit; see docs/errors.md for the codes."""
        _take_any_text()
        extra["standalone_mode"] = False
        try:
            code = super().main(args, prog_name or "ffdl", **extra)
            sys.stdout.flush()
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            _complain("Interrupted.")
            sys.exit(Exit.INTERRUPTED)
        except BrokenPipeError:
            # Whoever read the output has enough of it; Python would complain when it closes standard output.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(Exit.BROKEN_PIPE)
        except FfdlError as error:
            _complain(error_line(error))
            sys.exit(exit_of(error))
        except OSError as error:
            _complain(error_line(f"{error.filename or 'Input or output'}: {error.strerror or error}"))
            sys.exit(Exit.DISK)
        except Exception as error:
            _fault(error)
            sys.exit(Exit.INTERNAL)
        sys.exit(code if isinstance(code, int) else 0)


@click.group("ffdl", cls=_Ffdl, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="ffdl-ops", prog_name="ffdl")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Train models on shared GPUs: submit jobs, watch them, halt and resume them, fetch what they made.

    JOB is a job's id, an unambiguous beginning of it, or the id of its DAG run. With --json a command prints one JSON
    document. Times are in UTC. Exit codes are in docs/errors.md.
    """
    if ctx.obj is None:
        from ffdl_ops.cli.session import Session

        ctx.obj = Session()


def _complain(message: str) -> None:
    click.echo(message, err=True)


def _fault(error: Exception) -> None:
    """An error that is ours: one line, and the way to more."""
    if os.environ.get("FFDL_DEBUG"):
        import traceback

        traceback.print_exception(error)
        return
    _complain(f"Internal error: {error_line(f'{type(error).__name__}: {error}')}")
    _complain("This is a fault of ffdl itself; FFDL_DEBUG=1 shows where.")


def _take_any_text() -> None:
    """Print what the terminal's encoding can't show as escapes, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
