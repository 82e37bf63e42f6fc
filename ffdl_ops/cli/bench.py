"""`ffdl bench`: hands over to a benchmark, which takes its own options."""

from __future__ import annotations

import importlib

import click

from ffdl_ops.core.errors import UserError

__all__ = ["commands"]

_BENCHMARKS = {
    "startup": (
        "startup",
        "Time from trigger to first training step, against a plain DAG with one KubernetesPodOperator.",
    ),
    "admission": ("admission", "Time of a scheduling pass over a long queue and a large cluster, and of single events."),
    "storm": ("storm", "Many jobs of four tenants at once: ends, waits of those that fit, GPUs counted from pods."),
    "staging": ("staging", "Throughput of data staging, against s5cmd in the same run."),
}
_PASS_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


@click.group()
def bench() -> None:
    """Run a benchmark. Each takes --json and options of its own: `ffdl bench startup --help`."""


def _command(name: str, module: str, text: str) -> click.Command:
    @click.command(name=name, help=text, context_settings=_PASS_ON, add_help_option=False)
    @click.argument("options", nargs=-1, type=click.UNPROCESSED)
    def run(options: tuple[str, ...]) -> int:
        try:
            found = importlib.import_module(f"ffdl_ops.lab.bench.{module}")
        except ModuleNotFoundError as error:
            if error.name != f"ffdl_ops.lab.bench.{module}":
                raise
            raise UserError(f"The benchmark {name} is not part of this installation.") from None
        return int(found.main(list(options)) or 0)

    return run


for _name, (_module, _text) in _BENCHMARKS.items():
    bench.add_command(_command(_name, _module, _text))

commands = [bench]
