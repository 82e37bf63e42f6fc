"""A pod's volumes as directories of this machine, and its paths translated to them.

There are no mount namespaces here: where a container expects a mount, its environment, command and arguments get the real
directory instead. A program that has a mount's path written into it will not find it; one that reads its
environment will.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["Mounts", "make_volumes"]


class Mounts:
    """One container's paths: what it calls them, and where they are.

    :param places: mount path → real directory.
    """

    def __init__(self, places: Mapping[str, Path]) -> None:
        self.places = dict(sorted(places.items(), key=lambda item: -len(item[0])))
        names = "|".join(re.escape(path) for path in self.places)
        self._pattern = re.compile(rf"(?<![\w./-])({names})(?=$|[/\s:;,'\"\)}}=&|>])") if names else None

    def text(self, value: str) -> str:
        """A text with every mount path in it replaced."""
        if self._pattern is None:
            return value
        return self._pattern.sub(lambda found: str(self.places[found[1]]), value)

    def path(self, value: str) -> Path:
        """A container's path as a real one."""
        return Path(self.text(value))


def make_volumes(
    pod: Mapping[str, Any], directory: Path, hostpath_root: Path, owner: int | None, values: Mapping[str, Any]
) -> dict[str, Path]:
    """Make the pod's volumes.

    :param directory: the pod's own directory.
    :param hostpath_root: below it are the host paths.
    :param owner: the uid that the pod's processes run under; ``None`` leaves ownership alone.
    :param values: by kind and name, the secrets and config maps that may be used.
    :returns: by volume name, its directory.
    :raises KeyError: naming a secret or config map that is not there.
    """
    made: dict[str, Path] = {}
    for volume in pod["spec"].get("volumes") or []:
        name = volume["name"]
        if "hostPath" in volume:
            path = hostpath_root / volume["hostPath"]["path"].strip("/")
            _make_owned(path, hostpath_root, owner)
        else:
            path = directory / "volumes" / name
            _make_owned(path, directory, owner)
            for file, content in _files(volume, pod, values).items():
                target = path / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                if owner is not None:
                    os.chown(target, owner, owner)
        made[name] = path
    return made


def _files(volume: Mapping[str, Any], pod: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, bytes]:
    if "secret" in volume:
        data = values["secrets"][volume["secret"]["secretName"]]
        return {key: base64.b64decode(value) for key, value in data.items()}
    if "configMap" in volume:
        return {key: value.encode() for key, value in values["configmaps"][volume["configMap"]["name"]].items()}
    if "downwardAPI" in volume:
        found = {}
        for item in volume["downwardAPI"].get("items") or []:
            value: Any = pod
            for part in item["fieldRef"]["fieldPath"].split("."):
                value = value.get(part, {}) if isinstance(value, Mapping) else value
            lines = [f'{key}="{one}"' for key, one in value.items()] if isinstance(value, Mapping) else [str(value)]
            found[item["path"]] = "\n".join(lines).encode()
        return found
    return {}


def _make_owned(path: Path, root: Path, owner: int | None) -> None:
    """Make a directory; those that are made on the way below the root belong to the owner alone."""
    missing = []
    step = path
    while not step.exists() and step != root:
        missing.append(step)
        step = step.parent
    for step in reversed(missing):
        step.mkdir(mode=0o700, exist_ok=True)
        if owner is not None:
            os.chown(step, owner, owner)
