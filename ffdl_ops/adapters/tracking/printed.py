"""Metrics that programs print without being asked to: ``step=30 loss=0.1``, ``Epoch 3/10 - loss: 0.4``,
``{'loss': 0.4}``.

With a step (or epoch) in its line, every ``key=number`` counts; without one, and for ``key: number``, only
names that are a metric's by custom (loss, accuracy, …), so that ``port=8080`` or ``time: 12`` in a start-up
message is none. The patterns can't backtrack: each begins where a word begins and has a bounded length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ffdl_ops.adapters.tracking.points import number

__all__ = ["Printed", "read_printed"]

_PAIR = re.compile(
    r"""(?<![\w./-]) (?P<quote>["']?) (?P<key>[A-Za-z][\w./-]{0,80}) (?P=quote)
        [ ]{0,2} (?P<sign>[=:]) [ ]{0,2} (?P<value>[-+.\w/%]{1,40})""",
    re.VERBOSE | re.ASCII,
)
_COUNTER = re.compile(
    r"""(?<![\w./-]) ["']? (?P<name>global_step|step|iteration|iter|epoch|batch) ["']?
        [ ]{0,2} [=:\#\[]? [ ]{0,2} (?P<value>\d{1,15}) (?![\d.]*\.\d)""",
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
_CUSTOMARY = re.compile(
    r"""(?:^|[_./-]) (?: loss | acc | accuracy | error | err | lr | learning_rate | perplexity | ppl
        | auc | f1 | precision | recall | mae | mse | rmse | bleu | rouge | iou | miou | map | reward | score
        | top_?[15] | grad_norm | throughput | (?:images|samples|examples|tokens|steps)_per_s(?:ec(?:ond)?)? ) (?:@\d+)?$""",
    re.VERBOSE | re.IGNORECASE,
)
_STEPS = ("global_step", "step", "iteration", "iter")
_COUNTERS = (*_STEPS, "epoch", "batch")


@dataclass(frozen=True)
class Printed:
    """What a line holds: its values, and its step and epoch where it names them."""

    values: tuple[tuple[str, float], ...]
    step: int | None
    epoch: int | None


def read_printed(text: str) -> Printed | None:
    """The metrics and counters in a printed line, ``None`` when there are none."""
    counters = {found["name"].lower(): int(found["value"]) for found in _COUNTER.finditer(text)}
    epoch = counters.get("epoch")
    step = next((counters[name] for name in _STEPS if name in counters), None)
    if step is None and epoch is None:
        step = counters.get("batch")
    values: dict[str, float] = {}
    for pair in _PAIR.finditer(text):
        key = pair["key"]
        if key.lower() in _COUNTERS:
            continue
        plain = pair["sign"] == ":" and not pair["quote"]
        if (plain or not counters) and not _CUSTOMARY.search(key):
            continue
        value = number(pair["value"].rstrip("%./"))
        if value is not None:
            values[key] = value
    return Printed(tuple(values.items()), step, epoch) if values or counters else None
