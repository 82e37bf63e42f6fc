"""What an object is, what it should be, and the difference as text: pure.

Only what a manifest names is ours: its labels, and each of its other fields as a whole. The rest of the live object
(status, others' labels and annotations, what the server fills in elsewhere) is neither compared nor touched.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Change", "LeftAlone", "as_it_should_be", "change_of", "differs"]

Manifest = dict[str, Any]

_IDENTITY = ("apiVersion", "kind", "metadata")
_QUANTITIES = frozenset({"hard", "max", "min", "default", "defaultRequest"})
_HIDDEN, _HIDDEN_OLD, _HIDDEN_NEW = "(hidden)", "(hidden, as it is)", "(hidden, as it should be)"


@dataclass(frozen=True)
class Change:
    """What becomes of one object.

    :param tenant: whose it is; ``None`` for the platform's own.
    :param namespace: ``None`` for an object that lives in none.
    :param action: "create", "update" or "none".
    :param difference: a unified diff of what is ours; empty for "none". Secrets' values are not in it.
    """

    tenant: str | None
    kind: str
    namespace: str | None
    name: str
    action: str
    difference: str = ""


@dataclass(frozen=True)
class LeftAlone:
    """An object of ours that the configuration does not name any more.

    :param why: in words.
    :param remove_with: the command that deletes it.
    """

    kind: str
    namespace: str | None
    name: str
    why: str
    remove_with: str


def differs(live: Manifest, wanted: Manifest) -> bool:
    """Whether anything that is ours is not as it should be; quantities are compared as numbers."""
    return _normal(_ours(live, wanted)) != _normal(_ours(wanted, wanted))


def as_it_should_be(live: Manifest, wanted: Manifest) -> Manifest:
    """The live object with what is ours put right, to be written back."""
    labels = {**(live["metadata"].get("labels") or {}), **wanted["metadata"].get("labels", {})}
    return {**copy.deepcopy(live), **copy.deepcopy(wanted), "metadata": {**live["metadata"], "labels": labels}}


def change_of(tenant: str | None, live: Manifest | None, wanted: Manifest, outcome: Manifest) -> Change:
    """The change from what is there to what the server makes of it.

    :param live: ``None`` when there is no such object yet.
    :param outcome: the object as the server answers it (or as it is wanted, where it was not asked).
    """
    meta = wanted["metadata"]
    kind, namespace, name = wanted["kind"], meta.get("namespace"), meta["name"]
    before, after = None if live is None else _ours(live, wanted), _ours(outcome, wanted)
    if before is not None and _normal(before) == _normal(after):
        return Change(tenant, kind, namespace, name, "none")
    text = _diff(before, after, f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}")
    return Change(tenant, kind, namespace, name, "create" if before is None else "update", text)


def _ours(body: Manifest, wanted: Manifest) -> Manifest:
    labels = body["metadata"].get("labels") or {}
    return {
        "labels": {key: labels[key] for key in wanted["metadata"].get("labels", {}) if key in labels},
        **{key: body[key] for key in wanted if key not in _IDENTITY and body.get(key) is not None},
    }


def _normal(value: Any, *, quantities: bool = False) -> Any:
    """A value in which equal things are equal: `1` and `1000m`, a subject with and without its empty group."""
    if isinstance(value, Mapping):
        return {
            key: _normal(inner, quantities=key in _QUANTITIES or quantities)
            for key, inner in value.items()
            if inner is not None and (key, inner) != ("apiGroup", "")
        }
    if isinstance(value, list):
        return [_normal(inner) for inner in value]
    return _number(value) if quantities else value


def _number(value: Any) -> Any:
    from kubernetes.utils import parse_quantity

    try:
        return parse_quantity(value)
    except ValueError:
        return value


def _diff(before: Manifest | None, after: Manifest, title: str) -> str:
    before, after = _without_secrets(before or {}, after)
    lines = difflib.unified_diff(
        _lines(before), _lines(after), f"{title} (as it is)", f"{title} (as it should be)", n=3, lineterm=""
    )
    return "\n".join(lines)


def _without_secrets(before: Manifest, after: Manifest) -> tuple[Manifest, Manifest]:
    """Both, with the values of a secret's data replaced by whether they differ."""
    old, new = before.get("data") or {}, after.get("data") or {}
    if not old and not new:
        return before, after
    same = {key for key in old.keys() & new.keys() if old[key] == new[key]}
    hidden_old = {key: _HIDDEN if key in same else _HIDDEN_OLD for key in old}
    hidden_new = {key: _HIDDEN if key in same else _HIDDEN_NEW for key in new}
    return ({**before, "data": hidden_old} if before else before), {**after, "data": hidden_new}


def _lines(body: Manifest) -> list[str]:
    import json

    import yaml

    # Through JSON, since YAML would write a part that occurs twice as a reference to itself.
    return str(yaml.safe_dump(json.loads(json.dumps(body)), sort_keys=True)).splitlines() if body else []
