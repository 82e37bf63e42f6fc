"""What is shown: tables for people, JSON for programs. What users wrote is shown as text, whatever it holds."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ffdl_ops.core.showing import clean, one_line, plain, show_duration, show_time

__all__ = [
    "clean", "emit_json", "error_line", "one_line", "plain", "say", "show_duration", "show_facts", "show_table", "show_time",
]  # fmt: skip

_URL_PASSWORD = re.compile(r"(://[^/\s:@]*):[^/\s@]+@")
_COMMAND = re.compile(r"`ffdl (?=[a-z])")
_WIDE = 220


def error_line(text: object) -> str:
    """A message fit for standard error: clean, and without passwords of addresses."""
    return _to_paste(_URL_PASSWORD.sub(r"\1:***@", clean(text)).strip())


def say(text: object = "", *, err: bool = False) -> None:
    """A line for people."""
    click.echo(_to_paste(clean(text)), err=err)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """A table; a column whose name begins with ``>`` is right-aligned. Cells are text, never markup."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for position, name in enumerate(columns):
        right = name.startswith(">")
        table.add_column(name.lstrip(">"), justify="right" if right else "left", overflow="fold", no_wrap=position == 0)
    for row in rows:
        table.add_row(*(Text(one_line("-" if cell is None or cell == "" else cell)) for cell in row))
    _print(table)


def show_facts(facts: Mapping[str, object]) -> None:
    """Names and values, a line each; those without a value are left out."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value is not None and value != "":
            table.add_row(Text(name), Text(clean(value)))
    _print(table)


def emit_json(value: Any) -> None:
    """One JSON document on standard output; times in ISO 8601, UTC."""
    click.echo(json.dumps(plain(value), indent=2, allow_nan=False))


def _to_paste(text: str) -> str:
    """Commands that a text proposes, as they work here when they are pasted: this script need not be on the PATH."""
    return _COMMAND.sub(lambda _: f"`{_program()} ", text)


def _program() -> str:
    called = Path(sys.argv[0])
    found = shutil.which("ffdl")
    if called.name != "ffdl" or (found and Path(found).resolve() == called.resolve()):
        return "ffdl"
    # Not resolved: a link is what the person typed.
    script = Path(os.path.abspath(called))
    return str(script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script)


def _print(what: Any) -> None:
    from rich.console import Console

    # Into a pipe nothing is cut to a terminal's width.
    wide = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else _WIDE
    Console(file=sys.stdout, markup=False, highlight=False, emoji=False, width=wide).print(what)
