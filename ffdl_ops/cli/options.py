"""Options and arguments that several commands have."""

from __future__ import annotations

import math
from typing import Any

import click

__all__ = ["as_json", "job_argument", "pass_session", "tenant_option", "timeout_option"]

from ffdl_ops.cli.session import Session

pass_session = click.make_pass_decorator(Session)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
job_argument = click.argument("job", metavar="JOB")
tenant_option = click.option(
    "--tenant", metavar="NAME", help="Whose job it is.  [default: FFDL_TENANT, or the only tenant]"
)


class _Seconds(click.FloatRange):
    """A time above 0; no comparison with `nan` would ever be true."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is no number of seconds.", param, ctx)
        return seconds


timeout_option = click.option(
    "--timeout",
    type=_Seconds(min=0, min_open=True),
    metavar="SECONDS",
    help="Wait so long at most (exit code 75).",
)
