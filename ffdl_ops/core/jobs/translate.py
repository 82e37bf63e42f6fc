"""Validation errors of a model, in the words of the person who wrote the text."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ValidationError

from ffdl_ops.core.jobs.problems import Problem, nearest

__all__ = ["INEFFECTIVE", "problems_of"]

INEFFECTIVE: Mapping[str, tuple[str, str]] = {
    "storage": ("has no effect: a job's volume here has no size of its own", "remove it"),
    "evaluation_metrics.image_tag": ("has no effect: metrics are read by the platform, not by an image", "remove it"),
    "evaluation_metrics.event_types": ("has no effect: event files are kept whole", "remove it"),
    "evaluation_metrics.eventTypes": ("has no effect: event files are kept whole", "remove it"),
    "data_stores[].connection.name": ("has no effect: data stores are reached by S3", "remove it"),
    "data_stores[].connection.path": (
        "has no effect: data stores are reached by S3",
        "name bucket/prefix as container",
    ),
    "data_stores[].connection.project_id": ("has no effect: data stores are reached by S3", "remove it"),
    "data_stores[].connection.domain_name": ("has no effect: data stores are reached by S3", "remove it"),
}
"""Fields that FfDL knew and that would do nothing here: reason and hint, by path without indexes."""

_TAGS = frozenset({"count", "range", "[key]"})
_MESSAGES = {
    "missing": ("is required", ""),
    "list_type": ("must be a list", "begin each item with '- '"),
    "dict_type": ("must be a mapping of names to values", ""),
    "model_type": ("must be a mapping of fields", ""),
    "int_type": ("must be a whole number", ""),
    "int_from_float": ("must be a whole number", ""),
    "string_type": ("must be text", ""),
    "float_type": ("must be a number", ""),
    "bool_type": ("must be true or false", ""),
}


def problems_of(error: ValidationError, model: type[BaseModel], data: Any) -> list[Problem]:
    """A validation's errors as problems.

    :param model: what the text was validated as; its fields are what unknown names are compared with.
    :param data: the text's value, for showing what was given.
    """
    found: list[Problem] = []
    for item in error.errors(include_url=False):
        loc = _place(item["loc"])
        path = path_text(loc)
        value = _value_at(data, loc)
        if item["type"] == "extra_forbidden":
            found.append(_unknown(model, loc, path))
            continue
        context = item.get("ctx") or {}
        reason, hint = _MESSAGES.get(item["type"], (item["msg"].removeprefix("Value error, "), ""))
        if item["type"] == "ffdl":
            reason, hint = str(context["reason"]), str(context["hint"])
        elif item["type"] == "too_long":
            reason = f"there may be {context['max_length']} at most, and there are {context['actual_length']}"
        elif item["type"] == "too_short":
            reason = "must not be empty"
        found.append(Problem.of(path, value, reason, hint))
    return found


def path_text(loc: Sequence[str | int]) -> str:
    """A place as people write it: ``data_stores[0].type``."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{str(part)[:60]}"
    return text.removeprefix(".")


def _place(loc: Sequence[str | int]) -> list[str | int]:
    """A place without the marks that validation adds to it (which alternative, that it was a key)."""
    return [part for position, part in enumerate(loc) if part not in _TAGS or position == 0]


def _unknown(model: type[BaseModel], loc: Sequence[str | int], path: str) -> Problem:
    general = path_text(["[]" if isinstance(part, int) else part for part in loc]).replace(".[]", "[]")
    if general in INEFFECTIVE:
        reason, hint = INEFFECTIVE[general]
        return Problem(path, "", reason, hint)
    names: set[str] = set()
    for parent in _models_at(model, loc[:-1]):
        names |= {field.alias or name for name, field in parent.model_fields.items()}
    return Problem(path, "", "is no field here", nearest(str(loc[-1]), names))


def _models_at(model: type[BaseModel], loc: Sequence[str | int]) -> list[type[BaseModel]]:
    """The models that a place may hold."""
    here: list[Any] = [model]
    for part in loc:
        below: list[Any] = []
        for annotation in here:
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                fields = annotation.model_fields
                field = next((one for name, one in fields.items() if part in (name, one.alias)), None)
                below += _alternatives(field.annotation) if field else []
            else:
                below += [one for item in typing.get_args(annotation)[-1:] for one in _alternatives(item)]
        here = below
    return [one for one in here if isinstance(one, type) and issubclass(one, BaseModel)]


def _alternatives(annotation: Any) -> list[Any]:
    """An annotation's alternatives, without metadata."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _alternatives(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [one for item in typing.get_args(annotation) for one in _alternatives(item)]
    return [annotation]


def _value_at(data: Any, loc: Sequence[str | int]) -> Any:
    for part in loc:
        if isinstance(data, Mapping):
            data = data.get(part)
        elif isinstance(data, (list, tuple)) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data
