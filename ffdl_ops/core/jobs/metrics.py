"""The manifest's ``evaluation_metrics``: how figures are read out of what a learner prints or writes."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from ffdl_ops.core.jobs.fields import Section, refuse, text, whole
from ffdl_ops.core.jobs.problems import nearest
from ffdl_ops.core.jobs.yamltext import written

__all__ = ["EvaluationMetrics", "MACRO_NAMES", "METRIC_TYPES", "MetricGroup"]

METRIC_TYPES = ("logger", "regex_extractor", "emetrics_file", "tensorboard")
MACRO_NAMES = ("FLOAT", "GLOG_STAMP", "HEX", "INT", "INT_ANY", "TIMESTAMP")
"""FfDL's names for parts of a pattern, as in ``{{FLOAT:loss}}``."""

_SYNONYMS = {"optivist": "emetrics_file", "file": "emetrics_file"}
_MACRO = re.compile(
    r"\{\{\s*(?P<a>[A-Z_]+)\s*(?::\s*(?P<a_name>[A-Za-z_]\w*)\s*)?\}\}|%\{(?P<b>[A-Z_]+)(?::(?P<b_name>[A-Za-z_]\w*))?\}",
    re.ASCII,
)
_KEPT = ("$JOB_STATE_DIR", "${JOB_STATE_DIR}", "$LOG_DIR", "${LOG_DIR}", "$RESULT_DIR", "${RESULT_DIR}")
_MAX_PATTERN = 2000
_MAX_GROUPS = 20
_MAX_KEYS = 50


def _check_type(value: Any) -> str:
    kind = text(64)(value).lower()
    kind = _SYNONYMS.get(kind, kind)
    if kind not in METRIC_TYPES:
        raise refuse("is no way to read metrics that this platform has", nearest(kind, METRIC_TYPES))
    return kind


def _check_place(value: Any) -> str:
    place = text(512)(value)
    if ".." in place.split("/"):
        raise refuse("must not contain '..'")
    if not place.startswith(_KEPT):
        raise refuse(
            "must begin with $JOB_STATE_DIR, $LOG_DIR or $RESULT_DIR",
            "nothing else of a learner's files is kept after the job",
        )
    return place


def _check_regex(value: Any) -> str:
    pattern = text(_MAX_PATTERN, lines=True)(value)
    _groups_of(pattern)
    return pattern


def _groups_of(pattern: str) -> set[str]:
    """The names of a pattern's groups, its macros included."""

    def one(found: re.Match[str]) -> str:
        macro, name = found["a"] or found["b"], found["a_name"] or found["b_name"]
        if macro not in MACRO_NAMES:
            raise refuse(f"has the unknown macro {found[0][:60]!r}", nearest(macro, MACRO_NAMES))
        return f"(?P<{name}>.)" if name else "."

    try:
        return set(re.compile(_MACRO.sub(one, pattern)).groupindex)
    except (re.error, RecursionError, OverflowError) as error:
        raise refuse(f"is no regular expression: {error}") from None


def _check_key(value: Any) -> str:
    key = text(100)(value)
    if not re.fullmatch(r"[A-Za-z0-9_./ -]+", key):
        raise refuse("is no metric's name", "letters, digits, '_', '.', '/', '-' and spaces are possible")
    return key


class Typed(Section):
    """FfDL's typed value: ``{type: FLOAT, value: $loss}``. Figures are numbers here, whatever type is named."""

    type: Annotated[str, BeforeValidator(text(20)), WithJsonSchema({"type": "string"})] | None = None
    value: Annotated[str, BeforeValidator(text(200)), WithJsonSchema({"type": ["string", "number"]})]


def _plain_or_typed(value: Any) -> Any:
    """FfDL's older texts write the reference alone."""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return {"value": written(value) if isinstance(value, (int, float)) else value}
    return value


_Values = dict[
    Annotated[str, BeforeValidator(_check_key), WithJsonSchema({"type": "string"})],
    Annotated[Typed, BeforeValidator(_plain_or_typed, json_schema_input_type=Typed | str | float)],
]


class MetricMeta(Section):
    """Which match is the time of a figure, and which tells its source apart."""

    time: Annotated[str, BeforeValidator(text(200)), WithJsonSchema({"type": "string"})] | None = None
    subid: Annotated[str, BeforeValidator(text(200)), WithJsonSchema({"type": "string"})] | None = None


class MetricGroup(Section):
    """One pattern, and what its matches stand for."""

    regex: Annotated[
        str,
        BeforeValidator(_check_regex),
        WithJsonSchema({"type": "string", "minLength": 1, "maxLength": _MAX_PATTERN}),
    ]
    meta: MetricMeta | None = None
    scalars: Annotated[_Values, Field(min_length=1, max_length=_MAX_KEYS)]
    etimes: Annotated[_Values, Field(max_length=_MAX_KEYS)] | None = None

    def unknown_references(self) -> list[tuple[str, str, str]]:
        """What refers to a group that the pattern does not have: (path, reference, hint)."""
        known = _groups_of(self.regex)
        references = [(f"scalars.{key}", item.value) for key, item in self.scalars.items()]
        references += [(f"etimes.{key}", item.value) for key, item in (self.etimes or {}).items()]
        if self.meta:
            references += [("meta.time", self.meta.time or ""), ("meta.subid", self.meta.subid or "")]
        return [
            (path, reference, nearest(reference.strip("${}"), known))
            for path, reference in references
            if reference.startswith("$") and reference[1:].strip("{}") not in known
        ]


class EvaluationMetrics(Section):
    """How figures are read.

    ``logger`` reads ``key=value`` lines of the output; ``regex_extractor`` reads it by patterns; ``tensorboard`` reads the
    scalars of TensorBoard's event files; ``emetrics_file`` reads a file of FfDL's metric records.
    """

    type: Annotated[
        Literal["logger", "regex_extractor", "emetrics_file", "tensorboard"],
        BeforeValidator(_check_type),
        WithJsonSchema({"type": "string", "enum": [*METRIC_TYPES, *_SYNONYMS]}),
    ]
    in_: Annotated[str | None, BeforeValidator(_check_place), WithJsonSchema({"type": "string", "maxLength": 512})] = (
        Field(default=None, alias="in")
    )
    line_lookahead: Annotated[
        int | None, BeforeValidator(whole(1, 20)), WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 20})
    ] = None
    groups: (
        Annotated[
            dict[Annotated[str, BeforeValidator(_check_key), WithJsonSchema({"type": "string"})], MetricGroup],
            Field(min_length=1, max_length=_MAX_GROUPS),
        ]
        | None
    ) = None
