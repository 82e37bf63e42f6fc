"""Bodies in Kubernetes' protobuf, which kubectl's typed commands send (``create secret``, ``drain``, …).

Only reading, and only the kinds that such commands write; anything else is refused with 415, and clients that speak JSON
(all of this platform's do) never come here. Field numbers are those of the API's ``generated.proto`` files.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ffdl_ops.local.minicluster.errors import bad_request, unsupported_media
from ffdl_ops.local.minicluster.times import iso

__all__ = ["CONTENT_TYPE", "decode"]

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"


@dataclass(frozen=True)
class _Field:
    """How one field is read.

    :param name: as in JSON.
    :param kind: "text", "number", "bool", "bytes", "quantity", "time", or the name of a message.
    :param many: whether it is a list.
    :param map: whether it is a map from text to `kind`.
    """

    name: str
    kind: str = "text"
    many: bool = False
    map: bool = False


def _m(name: str, kind: str = "text") -> _Field:
    return _Field(name, kind, map=True)


_OWNER = {5: _Field("apiVersion"), 1: _Field("kind"), 3: _Field("name"), 4: _Field("uid"), 6: _Field("controller", "bool"),
          7: _Field("blockOwnerDeletion", "bool")}  # fmt: skip
_META = {
    1: _Field("name"), 2: _Field("generateName"), 3: _Field("namespace"), 5: _Field("uid"), 6: _Field("resourceVersion"),
    8: _Field("creationTimestamp", "time"), 11: _m("labels"), 12: _m("annotations"), 13: _Field("ownerReferences", "Owner", True),
    14: _Field("finalizers", many=True),
}  # fmt: skip
_META_FIELD = {1: _Field("metadata", "Meta")}
_MESSAGES: dict[str, dict[int, _Field]] = {
    "Owner": _OWNER,
    "Meta": _META,
    "Reference": {1: _Field("kind"), 2: _Field("namespace"), 3: _Field("name")},
    "LocalReference": {1: _Field("name")},
    "Preconditions": {1: _Field("uid"), 2: _Field("resourceVersion")},
    "NamespaceSpec": {1: _Field("finalizers", many=True)},
    "QuotaSpec": {1: _m("hard", "quantity"), 2: _Field("scopes", many=True)},
    "Namespace": {**_META_FIELD, 2: _Field("spec", "NamespaceSpec")},
    "Secret": {**_META_FIELD, 2: _m("data", "bytes"), 3: _Field("type"), 4: _m("stringData"), 5: _Field("immutable", "bool")},
    "ConfigMap": {**_META_FIELD, 2: _m("data"), 3: _m("binaryData", "bytes"), 4: _Field("immutable", "bool")},
    "ResourceQuota": {**_META_FIELD, 2: _Field("spec", "QuotaSpec")},
    "ServiceAccount": {**_META_FIELD, 2: _Field("secrets", "Reference", True),
                       3: _Field("imagePullSecrets", "LocalReference", True)},
    "DeleteOptions": {1: _Field("gracePeriodSeconds", "number"), 2: _Field("preconditions", "Preconditions"),
                      3: _Field("orphanDependents", "bool"), 4: _Field("propagationPolicy"), 5: _Field("dryRun", many=True)},
    "Eviction": {**_META_FIELD, 2: _Field("deleteOptions", "DeleteOptions")},
}  # fmt: skip
_READ = ("Namespace", "Secret", "ConfigMap", "ResourceQuota", "ServiceAccount", "DeleteOptions", "Eviction")


def decode(data: bytes) -> dict[str, Any]:
    """The object in a body.

    :raises ApiError: 415 for a kind that is not read, 400 for what is no Kubernetes protobuf.
    """
    if not data.startswith(_MAGIC):
        raise bad_request("the body is not Kubernetes protobuf: it does not begin with k8s")
    try:
        outer = dict(_fields(data[len(_MAGIC) :]))
        kind_of = {number: value.decode() for number, value in _fields(outer.get(1, b""))}
        version, kind = kind_of.get(1, ""), kind_of.get(2, "")
        if kind not in _READ:
            raise unsupported_media(f"{CONTENT_TYPE} with kind {kind}", ("application/json", "application/yaml"))
        return {"apiVersion": version, "kind": kind, **_message(kind, outer.get(2, b""))}
    except (IndexError, UnicodeDecodeError, ValueError, AttributeError) as error:
        raise bad_request(f"the body is not readable protobuf: {error}") from None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and raw values: an integer, or bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value: Any
            value, at = _varint(data, at)
        elif wire == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("a field is longer than its message")
            value, at = data[at : at + size], at + size
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"wire type {wire}")
        yield number, value


def _message(name: str, data: bytes) -> dict[str, Any]:
    known = _MESSAGES[name]
    found: dict[str, Any] = {}
    for number, raw in _fields(data):
        field = known.get(number)
        if field is None:
            continue
        if field.map:
            entry = dict(_fields(raw))
            key = entry.get(1, b"").decode()
            found.setdefault(field.name, {})[key] = _value(field.kind, entry.get(2, b""))
        elif field.many:
            found.setdefault(field.name, []).append(_value(field.kind, raw))
        else:
            value = _value(field.kind, raw)
            if value not in ("", None, {}):
                found[field.name] = value
    return found


def _value(kind: str, raw: Any) -> Any:
    match kind:
        case "text":
            return raw.decode()
        case "bytes":
            return base64.b64encode(raw).decode()
        case "number":
            return raw - (1 << 64) if raw >= 1 << 63 else raw
        case "bool":
            return bool(raw)
        case "quantity":
            return dict(_fields(raw)).get(1, b"0").decode()
        case "time":
            seconds = dict(_fields(raw)).get(1)
            return iso(seconds) if seconds and seconds < 1 << 40 else None
    return _message(kind, raw)
