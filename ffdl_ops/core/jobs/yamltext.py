"""YAML that strangers wrote, read strictly and within bounds.

Accepted: one document of plain mappings, lists and scalars. Refused with one clear error: a key given twice, anchors and
aliases (which let a few lines stand for gigabytes), tags of the text's own, deep nesting and huge texts. Dates stay
text, and a number remembers how it was written, so that a version ``2.10`` is not read as 2.1.
"""

from __future__ import annotations

from typing import Any, ClassVar

import yaml

from ffdl_ops.core.jobs.problems import Problem, Problems

__all__ = ["MAX_BYTES", "MAX_CONFIGURATION_BYTES", "YamlFloat", "YamlFolded", "YamlInt", "load_yaml", "written"]

MAX_BYTES = 128 * 1024
"""The longest text of a stranger that is read, in bytes of UTF-8."""
MAX_CONFIGURATION_BYTES = 4 * 1024 * 1024
"""The longest configuration of the administrator that is read."""

_MAX_DEPTH = 20
_BYTES_PER_NODE = 6
_MAX_DIGITS = 40
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_MERGE = "tag:yaml.org,2002:merge"
_SCALARS = ("str", "int", "float", "bool", "null")


class YamlInt(int):
    """A whole number, and the text that it was written as."""

    text: str


class YamlFloat(float):
    """A number, and the text that it was written as."""

    text: str


class YamlFolded(str):
    """A text that was written folded (``>``), with the line ends that YAML keeps before lines that are indented further."""

    __slots__ = ()


def written(value: int | float) -> str:
    """A number as its author wrote it, as far as that is known."""
    return str(getattr(value, "text", value))


def load_yaml(text: str, max_bytes: int = MAX_BYTES) -> Any:
    """The value of a YAML text.

    :param max_bytes: the longest text that is read; it also bounds how many values there may be.
    :raises Problems: holding one problem, with the line where it is.
    """
    if len(text) > max_bytes or len(text.encode("utf-8", "surrogatepass")) > max_bytes:
        raise _refused(f"the text is longer than the limit of {max_bytes // 1024} KiB")
    try:
        _check_events(text, max_bytes // _BYTES_PER_NODE)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader with fewer types
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise _refused(f"no valid YAML: {place}{error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _refused(f"no valid YAML: {first[:200]}") from None


def _refused(reason: str) -> Problems:
    return Problems([Problem("", "", reason)])


def _check_events(text: str, max_nodes: int) -> None:
    """Look at the text's shape before anything is built from it."""
    depth = nodes = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        where = f"line {event.start_mark.line + 1}: " if event.start_mark else ""
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _refused(f"{where}anchors (&) and aliases (*) aren't accepted; write the value out")
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        if isinstance(event, (yaml.CollectionStartEvent, yaml.ScalarEvent)):
            nodes += 1
            depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise _refused(f"{where}nested more than {_MAX_DEPTH} levels deep")
        if nodes > max_nodes:
            raise _refused(f"{where}more than {max_nodes} values")
        if documents > 1:
            raise _refused(f"{where}a second document begins; give one")


class _Loader(yaml.SafeLoader):
    """Strings, numbers, truth values, lists and mappings; every key once."""

    # Without the timestamp resolver a date stays the text that it was written as.
    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_TIMESTAMP, _MERGE)]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors: ClassVar[dict[Any, Any]] = {}


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        where = f"line {key_node.start_mark.line + 1}: "
        if isinstance(key, (list, dict)):
            raise _refused(f"{where}a key must be a name")
        name = written(key) if isinstance(key, (YamlInt, YamlFloat)) else key
        if name in result:
            raise _refused(f"{where}the key {str(name)[:60]!r} is given twice")
        result[name] = loader.construct_object(value_node, deep=True)
    return result


def _list(loader: _Loader, node: yaml.SequenceNode) -> list[Any]:
    return [loader.construct_object(item, deep=True) for item in node.value]


def _int(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = str(node.value)
    if len(text) > _MAX_DIGITS:
        raise _refused(f"line {node.start_mark.line + 1}: a number of {len(text)} digits")
    value = YamlInt(yaml.SafeLoader.construct_yaml_int(loader, node))
    value.text = text
    return value


def _text(loader: _Loader, node: yaml.ScalarNode) -> str:
    value = str(loader.construct_scalar(node))
    return YamlFolded(value) if node.style == ">" else value


def _float(loader: _Loader, node: yaml.ScalarNode) -> float:
    value = YamlFloat(yaml.SafeLoader.construct_yaml_float(loader, node))
    value.text = str(node.value)
    return value


def _other(loader: _Loader, node: yaml.Node) -> Any:
    raise _refused(
        f"line {node.start_mark.line + 1}: the tag {str(node.tag)[:60]!r} isn't accepted; write a plain value"
    )


for _kind in _SCALARS:
    _Loader.add_constructor(
        f"tag:yaml.org,2002:{_kind}", yaml.SafeLoader.yaml_constructors[f"tag:yaml.org,2002:{_kind}"]
    )
_Loader.add_constructor("tag:yaml.org,2002:str", _text)
_Loader.add_constructor("tag:yaml.org,2002:int", _int)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:seq", _list)
_Loader.add_constructor(None, _other)
