"""A manifest from a file, from flags, or from a file changed by flags. What is wrong is left for its validation to say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ffdl_ops.core.errors import UserError

__all__ = ["Flags", "build", "read_manifest"]

Flags = Mapping[str, Any]
"""Options by name, as typed; ``None`` for one that was not given."""

_MAX_BYTES = 1 << 20
_RANGE = re.compile(r"(\d{1,9})-(\d{1,9})")
_STEP = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)((?:\[\d\])*)")
_SECRET = re.compile(r"(?i)passw|secret_?key|user_name|token|credential")


def read_manifest(file: str) -> dict[str, Any]:
    """The mapping in a manifest's file; ``-`` is standard input.

    :raises UserError: when it can't be read; `Problems` when it is no YAML, or has a key twice.
    """
    from ffdl_ops.core.jobs.manifest import ManifestErrors, Problem
    from ffdl_ops.core.jobs.problems import Problems
    from ffdl_ops.core.jobs.yamltext import load_yaml

    try:
        data = load_yaml(_text_of(file))
    except Problems as refused:
        raise ManifestErrors(refused.problems) from None
    if not isinstance(data, Mapping):
        what = "is empty" if data is None else f"holds a {type(data).__name__}"
        raise ManifestErrors([Problem("", "", f"a manifest is a mapping of fields, and {file} {what}")])
    return dict(data)


def build(manifest: Mapping[str, Any], flags: Flags, sets: Iterable[str]) -> dict[str, Any]:
    """The manifest with flags laid over it.

    :param manifest: what the file says; empty without one.
    :param flags: name, framework, command, learners, gpus, gpu_type, cpus, memory, data, results, example, priority.
    :param sets: further fields, as ``path=value``, the value in YAML: ``checkpoint.keep=5``.
    :raises UserError: for a ``path=value`` that is none, or would show a password to everyone on this machine.
    """
    result = dict(manifest)
    for name in ("name", "gpu_type", "cpus", "memory", "example"):
        if flags.get(name) is not None:
            result[name] = flags[name]
    for name in ("gpus", "priority"):
        if flags.get(name) is not None:
            result[name] = _number(flags[name])
    if flags.get("learners") is not None:
        between = _RANGE.fullmatch(flags["learners"])
        result["learners"] = {"min": int(between[1]), "max": int(between[2])} if between else _number(flags["learners"])
    framework = {key: flags[flag] for key, flag in _FRAMEWORK.items() if flags.get(flag) is not None}
    if framework:
        result["framework"] = {**_mapping(result.get("framework")), **framework}
    for part in ("data", "results"):
        if flags.get(part) is not None:
            result["data_stores"] = _with_container(result.get("data_stores"), f"training_{part}", flags[part])
    for text in sets:
        _set(result, text)
    if "name" not in result and (manifest or flags or sets):
        result["name"] = _name_of(result)
    return result


_FRAMEWORK = {"name": "framework", "command": "command", "image": "image"}


def _text_of(file: str) -> str:
    import sys

    try:
        if file == "-":
            content = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with Path(file).open("rb") as source:
                content = source.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"The manifest {file} can't be read: {error.strerror}.") from None
    if len(content) > _MAX_BYTES:
        raise UserError(f"{file} is larger than 1 MiB; a manifest is a short text.")
    return content.decode("utf-8", "replace")


def _mapping(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _number(text: str) -> int | str:
    """A whole number, or the text as it is for the validation to refuse."""
    try:
        return int(text)
    except ValueError:
        return text


def _with_container(stores: Any, part: str, container: str) -> list[Any]:
    """The data stores with the place of one part of the first set."""
    listed = list(stores) if isinstance(stores, list) else []
    first = _mapping(listed[0]) if listed else {"id": "data", "type": "s3_datastore"}
    container = container.removeprefix("s3://").rstrip("/")
    return [{**first, part: {"container": container}}, *listed[1:]]


def _set(result: dict[str, Any], text: str) -> None:
    path, equals, value = text.partition("=")
    steps = [_STEP.fullmatch(part) for part in path.split(".")]
    if not equals or None in steps:
        raise UserError(f"--set takes FIELD=VALUE, like checkpoint.keep=5 or env.LR=0.1 (got {path[:60]!r}).")
    content = _value(value)
    if any(_SECRET.search(name) for name in (path, *_names_in(content))) and not path.startswith("env"):
        raise UserError(
            f"--set {path}: everyone on this machine can read a command line; write credentials into the manifest's file."
        )
    keys: list[str | int] = []
    for step in steps:
        if step is not None:
            keys += [step[1], *(int(number) for number in re.findall(r"\d", step[2]))]
    _put(result, keys, content, path)


def _names_in(value: Any) -> Iterator[str]:
    """Every key of a value, however deep."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _names_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _names_in(inner)


def _put(place: Any, keys: list[str | int], value: Any, path: str) -> None:
    """Put a value deep inside, making what is missing on the way."""
    for key, following in zip(keys, [*keys[1:], None], strict=True):
        if isinstance(key, int):
            if not isinstance(place, list) or key > len(place):
                raise UserError(f"--set {path}: there is no item {key} to set.")
            if key == len(place):
                place.append(None)
        elif not isinstance(place, dict):
            raise UserError(f"--set {path}: {key!r} can't be set, since what it is part of is not a mapping.")
        if following is None:
            place[key] = value
            return
        inner = place[key] if isinstance(key, int) else place.get(key)
        if inner is None:
            inner = [] if isinstance(following, int) else {}
        # A copy: what the file's text was read into stays as it is.
        place[key] = list(inner) if isinstance(inner, list) else dict(inner) if isinstance(inner, Mapping) else inner
        place = place[key]


def _value(text: str) -> Any:
    """A value in YAML, read as strictly as a manifest; what is none is the text itself."""
    from ffdl_ops.core.jobs.problems import Problems
    from ffdl_ops.core.jobs.yamltext import load_yaml

    try:
        return load_yaml(text)
    except Problems:
        return text


def _name_of(manifest: Mapping[str, Any]) -> str:
    """A name for a job that was given none."""
    example, framework = manifest.get("example"), _mapping(manifest.get("framework")).get("name")
    return str(example or (f"{framework}-job" if framework else "job"))[:100]
