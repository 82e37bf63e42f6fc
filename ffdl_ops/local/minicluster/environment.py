"""A container's environment, command and working directory, as the kubelet would make them."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any

from ffdl_ops.adapters.images import Image
from ffdl_ops.core.errors import FfdlError
from ffdl_ops.local.minicluster.containers import ProcessSpec
from ffdl_ops.local.minicluster.downward import field_value, resource_field
from ffdl_ops.local.minicluster.store import Object, Store
from ffdl_ops.local.minicluster.translate import expand, translator
from ffdl_ops.local.minicluster.volumes import PodDirectories

__all__ = ["ConfigError", "declared_environment", "process_spec"]

_RLIMITS = {"RLIMIT_CORE": 0, "RLIMIT_NPROC": 16384}


class ConfigError(FfdlError):
    """A container that can't be configured: ``CreateContainerConfigError`` with this message."""


def declared_environment(
    pod: Object, container: Mapping[str, Any], store: Store, allocatable: Mapping[str, Any]
) -> dict[str, str]:
    """What the pod itself puts into a container's environment: ``envFrom``, then ``env`` in order.

    :param allocatable: the node's amounts, for resource fields without a limit.
    :raises ConfigError: when a secret, a config map or a key is missing and not optional.
    """
    values: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        values |= _from_object(pod, source, store)
    for entry in container.get("env") or ():
        if "valueFrom" in entry:
            found = _value_from(pod, container, entry["valueFrom"], store, allocatable)
            if found is not None:
                values[entry["name"]] = found
        else:
            values[entry["name"]] = expand(str(entry.get("value") or ""), values)
    return values


def _lookup(pod: Object, kind: str, ref: Mapping[str, Any], store: Store) -> dict[str, str] | None:
    plural, word = ("secrets", "secret") if kind == "secret" else ("configmaps", "configmap")
    found = store.peek(plural, pod["metadata"]["namespace"], ref.get("name", ""))
    if found is None:
        if ref.get("optional"):
            return None
        raise ConfigError(f'{word} "{ref.get("name", "")}" not found')
    data = found.get("data") or {}
    if kind == "secret":
        return {key: base64.b64decode(value).decode("utf-8", "surrogateescape") for key, value in data.items()}
    return {key: str(value) for key, value in data.items()}


def _from_object(pod: Object, source: Mapping[str, Any], store: Store) -> dict[str, str]:
    kind = "secret" if "secretRef" in source else "configMap"
    data = _lookup(pod, kind, source.get(f"{kind}Ref") or {}, store) or {}
    prefix = source.get("prefix") or ""
    return {f"{prefix}{key}": value for key, value in data.items()}


def _value_from(
    pod: Object, container: Mapping[str, Any], source: Mapping[str, Any], store: Store, allocatable: Mapping[str, Any]
) -> str | None:
    if "fieldRef" in source:
        try:
            return field_value(pod, source["fieldRef"]["fieldPath"])
        except KeyError:
            raise ConfigError(f"unsupported fieldPath: {source['fieldRef']['fieldPath']}") from None
    if "resourceFieldRef" in source:
        named = {"containerName": container["name"], **source["resourceFieldRef"]}
        return resource_field(pod, named, allocatable)
    kind = "secret" if "secretKeyRef" in source else "configMap"
    ref = source.get(f"{kind}KeyRef") or {}
    data = _lookup(pod, kind, ref, store)
    if data is None:
        return None
    if ref.get("key") not in data:
        if ref.get("optional"):
            return None
        word = "Secret" if kind == "secret" else "ConfigMap"
        raise ConfigError(
            f"couldn't find key {ref.get('key')} in {word} {pod['metadata']['namespace']}/{ref.get('name')}"
        )
    return data[ref["key"]]


def process_spec(
    pod: Object, container: Mapping[str, Any], image: Image, declared: Mapping[str, str], mounts: Mapping[str, str],
    directories: PodDirectories, extra: Mapping[str, str],
) -> ProcessSpec:  # fmt: skip
    """What the shim is to run. Nothing of the server's own environment is in it.

    :param declared: as `declared_environment` gives it.
    :param mounts: real path by mount path.
    :param extra: variables of the machine (devices).
    :raises ConfigError: when there is no command.
    """
    translate = translator(mounts)
    base = {
        "HOME": str(directories.root / "home"),
        "TMPDIR": str(directories.root / "tmp"),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "USER": "pod",  # an unknown uid has no name, and programs that ask for one would fail
        "LOGNAME": "pod",
        "HOSTNAME": pod["spec"].get("hostname") or pod["metadata"]["name"],
        "FFDL_MINICLUSTER": "1",
    }
    own = {name: translate(value) for name, value in declared.items()}
    env = {**base, **image.environment(), **extra, **own}
    command = [translate(expand(text, declared)) for text in container.get("command") or ()]
    args = [translate(expand(text, declared)) for text in container.get("args") or ()]
    argv = [*command, *args] or list(image.command)
    if not argv:
        raise ConfigError("no command specified")
    cwd = translate(container.get("workingDir") or "") or str(directories.root / "home")
    return ProcessSpec(argv, env, cwd, directories.uid, _RLIMITS)
