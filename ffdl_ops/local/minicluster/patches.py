"""JSON patch, merge patch and strategic merge patch."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from ffdl_ops.local.minicluster.errors import ApiError, bad_request

__all__ = ["json_patch", "merge_patch", "strategic_merge_patch"]

_MERGE_KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",), "initContainers": ("name",), "ephemeralContainers": ("name",), "env": ("name",),
    "volumes": ("name",), "volumeMounts": ("mountPath",), "volumeDevices": ("devicePath",), "conditions": ("type",),
    "ports": ("port", "containerPort"), "ownerReferences": ("uid",), "imagePullSecrets": ("name",), "secrets": ("name",),
    "addresses": ("type",), "taints": ("key",), "hostAliases": ("ip",), "podIPs": ("ip",), "hostIPs": ("ip",),
    "topologySpreadConstraints": ("topologyKey",), "schedulingGates": ("name",), "resourceClaims": ("name",),
}  # fmt: skip
_SET_LISTS = ("finalizers",)


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: nulls delete, objects merge, everything else replaces."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def strategic_merge_patch(target: Any, patch: Any) -> Any:
    """Kubernetes' own merge: lists of named things merge by their key, ``$patch`` directives replace or delete."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    if patch.get("$patch") == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if key != "$patch"}
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            merged[name] = [entry for entry in merged.get(name) or [] if entry not in value]
        elif key.startswith("$retainKeys"):
            merged = {name: kept for name, kept in merged.items() if name in value}
        elif key.startswith("$"):
            continue  # orders of lists: what merges by name has no order that matters here
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, list):
            merged[key] = _merge_list(key, merged.get(key) or [], value)
        else:
            merged[key] = strategic_merge_patch(merged.get(key), value)
    return merged


def _merge_list(field: str, target: Sequence[Any], patch: Sequence[Any]) -> list[Any]:
    if field in _SET_LISTS:
        return [*target, *(entry for entry in patch if entry not in target)]
    named = all(isinstance(entry, Mapping) for entry in (*target, *patch))
    key = next((k for k in _MERGE_KEYS.get(field, ()) if named and all(k in e or "$patch" in e for e in patch)), None)
    if key is None:
        return list(copy.deepcopy(patch))
    if any(entry.get("$patch") == "replace" for entry in patch):
        return [copy.deepcopy(entry) for entry in patch if "$patch" not in entry]
    merged = list(target)
    for entry in patch:
        at = next((index for index, old in enumerate(merged) if old.get(key) == entry.get(key)), None)
        if entry.get("$patch") == "delete":
            if at is not None:
                merged.pop(at)
        elif at is None:
            merged.append(strategic_merge_patch({}, entry))
        else:
            merged[at] = strategic_merge_patch(merged[at], entry)
    return merged


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902.

    :raises ApiError: 400 for a malformed patch, 422 for one that does not apply.
    """
    if not isinstance(operations, list):
        raise bad_request("a JSON patch must be a list of operations")
    document = copy.deepcopy(target)
    for operation in operations:
        try:
            document = _apply(document, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise ApiError(
                422, "Invalid", f"the server rejected our request due to an error in our request: {error}"
            ) from None
    return document


def _apply(document: Any, operation: Mapping[str, Any]) -> Any:
    kind, path = operation["op"], _pointer(operation["path"])
    if kind == "test":
        if _at(document, path) != operation["value"]:
            raise ValueError(f"testing value {operation['path']} failed")
        return document
    if kind in ("move", "copy"):
        source = _pointer(operation["from"])
        value = copy.deepcopy(_at(document, source))
        if kind == "move":
            document = _remove(document, source)
        return _add(document, path, value)
    if kind == "remove":
        return _remove(document, path)
    if kind == "replace":
        _at(document, path)
        if path and isinstance(_at(document, path[:-1]), list):
            document = _remove(document, path)
        return _add(document, path, operation["value"])
    if kind == "add":
        return _add(document, path, operation["value"])
    raise ValueError(f"unexpected kind: {kind}")


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise ValueError(f"path {text!r} must start with '/'")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _at(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def _add(document: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value
    parent = _at(document, path[:-1])
    if isinstance(parent, list):
        parent.insert(len(parent) if path[-1] == "-" else int(path[-1]), value)
    else:
        parent[path[-1]] = value
    return document


def _remove(document: Any, path: Sequence[str]) -> Any:
    parent = _at(document, path[:-1])
    if isinstance(parent, list):
        parent.pop(int(path[-1]))
    else:
        del parent[path[-1]]
    return document
