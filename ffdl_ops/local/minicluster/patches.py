"""Patches: JSON merge, JSON patch, and strategic merge as far as lists with names go."""

from __future__ import annotations

import copy
from typing import Any

from ffdl_ops.local.minicluster.errors import ApiError

__all__ = ["apply_patch"]


def apply_patch(content_type: str, value: dict[str, Any], patch: Any) -> dict[str, Any]:
    """The object after the patch.

    :raises ApiError: 415 for another type, 422 for a path that is not there.
    """
    value = copy.deepcopy(value)
    if "json-patch" in content_type:
        for step in patch:
            _step(value, step)
        return value
    if "merge-patch" in content_type or "apply-patch" in content_type:
        return dict(_merge(value, patch, strategic="strategic" in content_type))
    raise ApiError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {content_type}")


def _merge(value: Any, patch: Any, *, strategic: bool) -> Any:
    if strategic and isinstance(value, list) and isinstance(patch, list):
        named = {one.get("name", one.get("type")): one for one in value if isinstance(one, dict)}
        if named and all(isinstance(one, dict) and one.get("name", one.get("type")) for one in patch):
            for one in patch:
                key = one.get("name", one.get("type"))
                named[key] = _merge(named.get(key, {}), one, strategic=True)
            return list(named.values())
    if not isinstance(patch, dict):
        return patch
    value = dict(value) if isinstance(value, dict) else {}
    for key, new in patch.items():
        if new is None:
            value.pop(key, None)
        else:
            value[key] = _merge(value.get(key), new, strategic=strategic)
    return value


def _step(value: Any, step: dict[str, Any]) -> None:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].strip("/").split("/")]
    target = value
    try:
        for part in parts[:-1]:
            target = target[int(part)] if isinstance(target, list) else target[part]
        last = parts[-1]
        if isinstance(target, list):
            if step["op"] == "add":
                target.insert(len(target) if last == "-" else int(last), step["value"])
            elif step["op"] == "remove":
                del target[int(last)]
            else:
                target[int(last)] = step["value"]
        elif step["op"] == "remove":
            del target[last]
        else:
            target[last] = step["value"]
    except (KeyError, IndexError, ValueError, TypeError):
        raise ApiError(422, "Invalid", f"the path {step['path']} of the patch is not there") from None
