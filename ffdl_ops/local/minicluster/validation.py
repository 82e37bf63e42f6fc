"""What the API server would answer with 422: names, required fields, values, references inside a pod, immutable fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ffdl_ops.local.minicluster.errors import Cause, invalid
from ffdl_ops.local.minicluster.quantity import is_quantity, quantity
from ffdl_ops.local.minicluster.resources import Resource

__all__ = ["check_new", "check_update", "prune"]

Object = Mapping[str, Any]

_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_PATH_SEGMENT = re.compile(r"^[^/%]+$")
_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_LABEL_HELP = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_HELP = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_VALUE_HELP = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_LABEL_NAMED = ("namespaces", "services")
_PATH_NAMED = ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
_OVERCOMMIT = "Required value: Limit must be set for non overcommitable resources"
_MUTABLE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")


def _value(field: str, value: object, why: str) -> Cause:
    return Cause(field, "FieldValueInvalid", f'Invalid value: "{value}": {why}')


def _required(field: str, why: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", f"Required value{': ' + why if why else ''}")


def _supported(field: str, value: object, allowed: tuple[str, ...]) -> Cause:
    listed = ", ".join(f'"{one}"' for one in sorted(allowed))
    return Cause(field, "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {listed}')


def check_new(resource: Resource, body: Object) -> None:
    """Refuse a new object that the real server would refuse.

    :raises ApiError: 422 with all causes.
    """
    causes = list(_metadata(resource, body["metadata"]))
    if resource.key == "pods":
        causes += _pod(body.get("spec") or {})
    elif resource.key == "resourcequotas":
        causes += _quota(body)
    if causes:
        raise invalid(resource.kind, body["metadata"].get("name", ""), causes, resource.group)


def check_update(resource: Resource, old: Object, new: Object) -> None:
    """Refuse an update that changes what can't be changed.

    :raises ApiError: 422 with all causes.
    """
    causes = list(_metadata(resource, new["metadata"]))
    if resource.key == "pods" and _fixed(old["spec"]) != _fixed(new["spec"]):
        causes.append(
            Cause(
                "spec",
                "FieldValueForbidden",
                "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
                "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
                "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
            )
        )
    if resource.key in ("secrets", "configmaps") and old.get("immutable"):
        for field in ("data", "binaryData"):
            if old.get(field) != new.get(field):
                causes.append(
                    Cause(field, "FieldValueForbidden", "Forbidden: field is immutable when `immutable` is set")
                )
    if resource.plural in ("rolebindings", "clusterrolebindings") and old.get("roleRef") != new.get("roleRef"):
        causes.append(_value("roleRef", new.get("roleRef"), "cannot change roleRef"))
    if resource.key == "secrets" and old.get("type") != new.get("type"):
        causes.append(_value("type", new.get("type"), "field is immutable"))
    if causes:
        raise invalid(resource.kind, new["metadata"]["name"], causes, resource.group)


def prune(body: Object) -> dict[str, Any]:
    """An object without nulls, which mean "not given"."""
    return {key: _without_nulls(value) for key, value in body.items() if value is not None}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value


def _fixed(spec: Object) -> Any:
    kept = {key: value for key, value in spec.items() if key not in _MUTABLE}
    for field in ("containers", "initContainers"):
        if field in kept:
            kept[field] = [{key: value for key, value in one.items() if key != "image"} for one in kept[field]]
    return kept


def _metadata(resource: Resource, meta: Object) -> Iterator[Cause]:
    name = str(meta.get("name", ""))
    if not name:
        yield _required("metadata.name", "name or generateName is required")
        return
    if resource.plural in _PATH_NAMED:
        if not _PATH_SEGMENT.match(name):
            yield _value("metadata.name", name, "may not contain '/' or '%'")
    elif resource.plural in _LABEL_NAMED:
        if not _LABEL.match(name) or len(name) > 63:
            yield _value(
                "metadata.name", name, _LABEL_HELP if len(name) <= 63 else "must be no more than 63 characters"
            )
    elif not _SUBDOMAIN.match(name) or len(name) > 253:
        yield _value(
            "metadata.name", name, _SUBDOMAIN_HELP if len(name) <= 253 else "must be no more than 253 characters"
        )
    for key, value in (meta.get("labels") or {}).items():
        bare = key.rpartition("/")[2]
        if not bare or len(bare) > 63 or not _VALUE.match(bare):
            yield _value(
                "metadata.labels", key, "name part " + _VALUE_HELP.replace("a valid label", "a valid label key")
            )
        if not isinstance(value, str) or len(value) > 63 or not _VALUE.match(value):
            why = _VALUE_HELP if len(str(value)) <= 63 else "must be no more than 63 characters"
            yield _value("metadata.labels", value, why)


def _pod(spec: Object) -> Iterator[Cause]:
    policies = ("Always", "OnFailure", "Never")
    if spec.get("restartPolicy") not in policies:
        yield _supported("spec.restartPolicy", spec.get("restartPolicy"), policies)
    grace = spec.get("terminationGracePeriodSeconds", 30)
    if not isinstance(grace, int) or grace < 0:
        yield _value("spec.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and (not isinstance(deadline, int) or deadline < 1):
        yield _value("spec.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")
    volumes: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        field = f"spec.volumes[{index}].name"
        yield from _name(field, volume.get("name"), volumes)
    if not spec.get("containers"):
        yield _required("spec.containers")
    names: set[str] = set()
    for index, container in enumerate(spec.get("initContainers") or ()):
        yield from _container(f"spec.initContainers[{index}]", container, volumes, names, True)
    for index, container in enumerate(spec.get("containers") or ()):
        yield from _container(f"spec.containers[{index}]", container, volumes, names, False)


def _name(field: str, name: Any, taken: set[str]) -> Iterator[Cause]:
    if not name:
        yield _required(field)
    elif not _LABEL.match(str(name)) or len(str(name)) > 63:
        yield _value(field, name, _LABEL_HELP)
    elif name in taken:
        yield Cause(field, "FieldValueDuplicate", f'Duplicate value: "{name}"')
    else:
        taken.add(str(name))


def _container(field: str, one: Object, volumes: set[str], names: set[str], is_init: bool) -> Iterator[Cause]:
    yield from _name(f"{field}.name", one.get("name"), names)
    if not one.get("image"):
        yield _required(f"{field}.image")
    if is_init and one.get("restartPolicy") not in (None, "Always"):
        yield _supported(f"{field}.restartPolicy", one["restartPolicy"], ("Always",))
    policies = ("Always", "IfNotPresent", "Never")
    if one.get("imagePullPolicy") not in policies:
        yield _supported(f"{field}.imagePullPolicy", one.get("imagePullPolicy"), policies)
    for index, entry in enumerate(one.get("env") or ()):
        if not entry.get("name"):
            yield _required(f"{field}.env[{index}].name")
        if entry.get("valueFrom") and entry.get("value"):
            yield _value(f"{field}.env[{index}].valueFrom", "", "may not be specified when `value` is not empty")
    paths: set[str] = set()
    for index, mount in enumerate(one.get("volumeMounts") or ()):
        at = f"{field}.volumeMounts[{index}]"
        if mount.get("name") not in volumes:
            yield Cause(f"{at}.name", "FieldValueNotFound", f'Not found: "{mount.get("name")}"')
        if not mount.get("mountPath"):
            yield _required(f"{at}.mountPath")
        elif mount["mountPath"] in paths:
            yield _value(f"{at}.mountPath", mount["mountPath"], "must be unique")
        paths.add(str(mount.get("mountPath")))
        if ".." in str(mount.get("subPath", "")).split("/"):
            yield _value(f"{at}.subPath", mount["subPath"], "must not contain '..'")
    yield from _resources(f"{field}.resources", one.get("resources") or {})


def _resources(field: str, resources: Object) -> Iterator[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    usable: Callable[[Object, str], bool] = lambda amounts, name: is_quantity(amounts.get(name))  # noqa: E731
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if not is_quantity(amount):
                yield _value(f"{field}.{kind}[{name}]", amount, "quantities must match the regular expression "
                             "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")  # fmt: skip
            elif quantity(amount) < 0:
                yield _value(f"{field}.{kind}[{name}]", amount, "must be greater than or equal to 0")
            elif "/" in name and quantity(amount) != int(quantity(amount)):
                yield _value(f"{field}.{kind}[{name}]", amount, "must be an integer")
    for name, amount in requests.items():
        if not usable(requests, name):
            continue
        if "/" in name and name not in limits:
            yield Cause(f"{field}.limits", "FieldValueRequired", _OVERCOMMIT)
        elif usable(limits, name) and "/" in name and quantity(amount) != quantity(limits[name]):
            yield _value(f"{field}.requests", amount, f"must be equal to {name} limit of {limits[name]}")
        elif usable(limits, name) and quantity(amount) > quantity(limits[name]):
            yield _value(f"{field}.requests", amount, f"must be less than or equal to {name} limit of {limits[name]}")


def _quota(body: Object) -> Iterator[Cause]:
    for name, amount in ((body.get("spec") or {}).get("hard") or {}).items():
        if not is_quantity(amount):
            yield _value(f"spec.hard[{name}]", amount, "quantities must be numbers with an optional suffix")
