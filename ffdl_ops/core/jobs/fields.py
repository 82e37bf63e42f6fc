"""The kinds of value that configuration texts are made of, each with its limit and a refusal that a person understands."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from ffdl_ops.core.jobs.units import format_memory, normalise_gpu_type, parse_cpu, parse_duration, parse_memory
from ffdl_ops.core.jobs.yamltext import YamlFolded, written

__all__ = [
    "BUCKET_PATTERN", "Command", "Container", "Cpus", "Duration", "GpuType", "ImageName", "Label", "LongText",
    "Memory", "Section", "Tag", "check_image", "number", "refuse", "text", "whole",
]  # fmt: skip

MAX_COMMAND_BYTES = 16 * 1024
MIN_MEMORY = 16 * 2**20
MAX_MEMORY = 64 * 2**40
MAX_CPU_MILLIS = 1_024_000
MAX_DEADLINE_S = 366 * 86_400

BUCKET_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]"
_CONTAINER = re.compile(rf"{BUCKET_PATTERN}(?:/[^\x00-\x1f\x7f\\]*)?", re.ASCII)
_IMAGE = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d{1,5})?/)?"
    r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_CONTROL_BUT_LINES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_LINE_END = re.compile(r"[ \t]*\n\s*")
_MEMORY_SCHEMA_PATTERN = r"^\s*[0-9.]+([eE][0-9]+)?\s*([kKmMgGtTpP][iI]?[bB]|[kMGTP]|[KMGTP]i)\s*$"


def refuse(reason: str, hint: str = "") -> PydanticCustomError:
    """A refusal with a reason and a way out, to be raised by a validator."""
    return PydanticCustomError("ffdl", "{reason}", {"reason": reason, "hint": hint})


class Section(BaseModel):
    """A mapping of known fields. An empty value (``gpu_type:``) is as if the field were left out."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty(cls, data: Any) -> Any:
        if isinstance(data, cls):
            return data
        if not isinstance(data, dict):
            raise refuse("must be a mapping of fields", nearest_fields(cls))
        known = set(cls.model_fields) | {field.alias for field in cls.model_fields.values()}
        return {key: value for key, value in data.items() if value is not None or key not in known}


def nearest_fields(model: type[BaseModel]) -> str:
    """The names of a section's fields, as a hint."""
    return "its fields are " + ", ".join(field.alias or name for name, field in model.model_fields.items())


def text(maximum: int, *, lines: bool = False) -> Callable[[Any], str]:
    """A validator of text of 1 to ``maximum`` characters; a number is taken as it was written."""

    def check(value: Any) -> str:
        if isinstance(value, bool):
            raise refuse("must be text, and YAML reads this as a truth value", "put it in quotes")
        if isinstance(value, (int, float)):
            value = written(value)
        if not isinstance(value, str):
            raise refuse("must be text")
        if not value.strip() or len(value) > maximum:
            raise refuse(f"must have 1 to {maximum} characters, and has {len(value.strip())}")
        if (_CONTROL_BUT_LINES if lines else _CONTROL).search(value):
            raise refuse("holds a control character" + ("" if lines else " or a line break"), "remove it")
        return value if lines else value.strip()

    return check


def whole(minimum: int, maximum: int) -> Callable[[Any], int]:
    """A validator of whole numbers within limits."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise refuse(f"must be a whole number of {minimum} to {maximum}", "write it without quotes")
        if isinstance(value, float) and not value.is_integer():
            raise refuse(f"must be a whole number of {minimum} to {maximum}")
        if not minimum <= value <= maximum:
            raise refuse(f"must be {minimum} to {maximum}")
        return int(value)

    return check


def number(minimum: float, maximum: float) -> Callable[[Any], float]:
    """A validator of numbers within limits."""

    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise refuse(f"must be a number of {minimum:g} to {maximum:g}", "write it without quotes")
        if not minimum <= value <= maximum:
            raise refuse(f"must be {minimum:g} to {maximum:g}")
        return float(value)

    return check


def check_image(value: Any) -> str:
    """An image's name, with tag or digest if wanted."""
    name = text(255)(value)
    if not _IMAGE.fullmatch(name):
        raise refuse("is no image name", "write it like 'name:tag' or 'registry/name:tag', in lower case")
    return name


def _check_tag(value: Any) -> str:
    name = text(128)(value)
    if not _TAG.fullmatch(name):
        raise refuse("is no image tag", "letters, digits, '.', '_' and '-' are possible")
    return name


def _check_container(value: Any) -> str:
    name = text(900)(value)
    if name.startswith("s3://"):
        raise refuse("must be a bucket, or bucket/prefix", "leave out 's3://'")
    if not _CONTAINER.fullmatch(name):
        raise refuse(
            "must be a bucket, or bucket/prefix",
            "a bucket's name has 3 to 63 letters, digits, '.', '_' or '-'; a prefix has no backslash",
        )
    if any(part in (".", "..") for part in name.split("/")):
        raise refuse("must not contain '.' or '..' as a part of its path")
    return name


def _check_memory(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise refuse("needs a unit", "write it like 8Gb, 512MiB or 16Gi")
    quantity = text(64)(value)
    if quantity[-1:] == "m":
        raise refuse("'m' alone means thousandths of a byte", f"write {quantity[:-1]}Mi or {quantity[:-1]}MB")
    if quantity[-1:].isdigit():
        raise refuse("needs a unit", "write it like 8Gb, 512MiB or 16Gi")
    try:
        count = parse_memory(quantity)
    except ValueError as error:
        raise refuse(str(error)) from None
    if not MIN_MEMORY <= count <= MAX_MEMORY:
        raise refuse(f"must be {format_memory(MIN_MEMORY)} to {format_memory(MAX_MEMORY)}")
    return quantity


def _check_cpus(value: Any) -> float | str:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise refuse("must be a number of processors", "write it like 0.5, 4 or 500m")
    if not isinstance(value, str) and not 0 < value <= MAX_CPU_MILLIS / 1000:
        raise refuse(f"must be more than 0 and at most {MAX_CPU_MILLIS // 1000}")
    try:
        millis = parse_cpu(value)
    except ValueError as error:
        raise refuse(str(error)) from None
    if not 1 <= millis <= MAX_CPU_MILLIS:
        raise refuse(f"must be more than 0 and at most {MAX_CPU_MILLIS // 1000}")
    return value if isinstance(value, str) else float(value)


def _check_duration(value: Any) -> str:
    if isinstance(value, (int, float)):
        raise refuse("needs a unit", "write it like 90s, 45m, 12h or 1h30m")
    duration = text(64)(value)
    try:
        seconds = parse_duration(duration)
    except ValueError as error:
        raise refuse(str(error)) from None
    if not 1 <= seconds <= MAX_DEADLINE_S:
        raise refuse(f"must be 1s to {MAX_DEADLINE_S // 86_400}d")
    return duration


def _check_command(value: Any) -> str:
    if not isinstance(value, str):
        raise refuse("must be a shell command, as text")
    if not value.strip():
        raise refuse("is empty", "write the command that starts the training, like 'python3 train.py'")
    if len(value.encode("utf-8", "surrogatepass")) > MAX_COMMAND_BYTES:
        raise refuse(f"is longer than the limit of {MAX_COMMAND_BYTES // 1024} KiB", "put it into a script")
    if _CONTROL_BUT_LINES.search(value):
        raise refuse("holds a control character", "remove it")
    # FfDL runs a command as one line. Its examples are folded and go on with further indented lines, which YAML keeps apart.
    return _LINE_END.sub(" ", value).strip() if isinstance(value, YamlFolded) else value


def _check_gpu_type(value: Any) -> str:
    name = normalise_gpu_type(text(63)(value))
    if not re.fullmatch(r"[A-Z0-9](?:[A-Z0-9.-]{0,61}[A-Z0-9])?", name):
        raise refuse("is no GPU type", "write it like V100, A100 or nvidia-TeslaV100")
    return name


def _text_schema(maximum: int) -> WithJsonSchema:
    return WithJsonSchema({"type": ["string", "number"], "minLength": 1, "maxLength": maximum})


Label = Annotated[str, BeforeValidator(text(128)), _text_schema(128)]
"""One line of text."""
LongText = Annotated[str, BeforeValidator(text(4096, lines=True)), _text_schema(4096)]
"""Text of several lines."""
Tag = Annotated[str, BeforeValidator(_check_tag), _text_schema(128)]
"""An image's tag."""
ImageName = Annotated[str, BeforeValidator(check_image), _text_schema(255)]
"""An image's full name."""
Container = Annotated[
    str,
    BeforeValidator(_check_container),
    WithJsonSchema({"type": "string", "minLength": 3, "maxLength": 900, "description": "bucket, or bucket/prefix"}),
]
"""A bucket, or a bucket and a prefix in it."""
Memory = Annotated[
    str,
    BeforeValidator(_check_memory),
    WithJsonSchema({"type": "string", "maxLength": 64, "pattern": _MEMORY_SCHEMA_PATTERN}),
]
"""An amount of memory with its unit."""
Cpus = Annotated[
    float | str,
    BeforeValidator(_check_cpus),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_CPU_MILLIS // 1000},
                {"type": "string", "maxLength": 64, "pattern": r"^\s*[0-9.]+([eE][-+]?[0-9]+)?\s*[mun]?\s*$"},
            ]
        }
    ),
]
"""A number of processors."""
Duration = Annotated[
    str,
    BeforeValidator(_check_duration),
    WithJsonSchema({"type": "string", "maxLength": 64, "pattern": r"^\s*[0-9.]+\s*[dhms][0-9.dhms\s]*$"}),
]
"""A length of time with its unit."""
Command = Annotated[
    str,
    BeforeValidator(_check_command),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_COMMAND_BYTES}),
]
"""A shell command."""
GpuType = Annotated[str, BeforeValidator(_check_gpu_type), _text_schema(63)]
"""A GPU's model."""
