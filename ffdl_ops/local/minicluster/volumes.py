"""A pod's volumes as real directories, and the mounts of its containers.

Directories of a pod: ``pods/<uid>/`` (the tenant's alone) with ``home``, ``tmp``, ``volumes/<name>`` and, per container,
``containers/<name>`` with its termination message. Host paths are kept below ``hostpath/``.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ffdl_ops.core.errors import FfdlError
from ffdl_ops.local.minicluster.downward import field_value, resource_field
from ffdl_ops.local.minicluster.safepaths import make_below, write_below
from ffdl_ops.local.minicluster.store import Object, Store

__all__ = ["TERMINATION_LOG", "MountFailed", "PodDirectories", "Volumes"]

TERMINATION_LOG = "/dev/termination-log"
_MAKES = {"", "DirectoryOrCreate", "FileOrCreate"}


class MountFailed(FfdlError):
    """A volume that can't be set up (yet); the message is the event's."""


@dataclass(frozen=True)
class PodDirectories:
    """Where a pod lives.

    :param root: the pod's own directory.
    :param uid: whose it is, or ``None`` for the server's own user.
    """

    root: Path
    uid: int | None

    def make(self, relative: str, mode: int = 0o700) -> Path:
        """A directory of the pod."""
        return make_below(self.root.parent, f"{self.root.name}/{relative}", uid=self.uid, mode=mode, between=0o700)


class Volumes:
    """Sets up and removes pods' directories.

    :param state: the server's state directory.
    :param store: where secrets, config maps and claims are.
    """

    def __init__(self, state: Path, store: Store) -> None:
        self.state, self._store = state, store
        self.pods, self.hostpath, self.claims = state / "pods", state / "hostpath", state / "claims"
        for directory in (self.pods, self.hostpath, self.claims):
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o711)

    def directories(self, pod: Object, uid: int | None) -> PodDirectories:
        """The directories of a pod, created when needed."""
        name = pod["metadata"]["uid"]
        make_below(self.pods, name, uid=uid)
        made = PodDirectories(self.pods / name, uid)
        for part in ("home", "tmp"):
            made.make(part)
        return made

    def set_up(self, pod: Object, directories: PodDirectories) -> dict[str, Path]:
        """Make a pod's volumes.

        :returns: the real directory of each, by volume name.
        :raises MountFailed: when something that a volume needs is missing.
        """
        ready: dict[str, Path] = {}
        for volume in pod["spec"].get("volumes") or ():
            try:
                ready[volume["name"]] = self._one(pod, volume, directories)
            except OSError as error:
                raise MountFailed(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}') from None
        return ready

    def remove(self, pod_uid: str) -> None:
        """Remove a pod's own directories."""
        shutil.rmtree(self.pods / pod_uid, ignore_errors=True)

    def remove_claim(self, namespace: str, claim: str) -> None:
        """Remove what a claim held."""
        shutil.rmtree(self.claims / namespace / claim, ignore_errors=True)

    def _one(self, pod: Object, volume: Mapping[str, Any], directories: PodDirectories) -> Path:
        name = volume["name"]
        if "hostPath" in volume:
            return self._host_path(volume["hostPath"], name, directories.uid)
        if "persistentVolumeClaim" in volume:
            return self._claim(pod, volume["persistentVolumeClaim"]["claimName"], name, directories.uid)
        place = f"volumes/{name}"
        files = self._files(pod, volume, name)
        if files is None:
            return directories.make(place)
        path = directories.make(place)
        for relative, (data, mode) in files.items():
            if "/" in relative:
                directories.make(f"{place}/{os.path.dirname(relative)}")
            write_below(directories.root.parent, f"{directories.root.name}/{place}/{relative}", data,
                        uid=directories.uid, mode=mode)  # fmt: skip
        return path

    def _host_path(self, source: Mapping[str, Any], name: str, uid: int | None) -> Path:
        path, kind = str(source["path"]), source.get("type") or ""
        real = self.hostpath / path.lstrip("/")
        if kind not in _MAKES and not real.exists():
            raise MountFailed(f'MountVolume.SetUp failed for volume "{name}" : hostPath type check failed: {path} is not a '
                              f"{kind.lower()}")  # fmt: skip
        return make_below(self.hostpath, path, uid=uid)

    def _claim(self, pod: Object, claim: str, name: str, uid: int | None) -> Path:
        namespace = pod["metadata"]["namespace"]
        if self._store.peek("persistentvolumeclaims", namespace, claim) is None:
            raise MountFailed(f'persistentvolumeclaim "{claim}" not found')
        return make_below(self.claims, f"{namespace}/{claim}", uid=uid)

    # -- volumes made of objects ---------------------------------------------------------------------------------
    def _files(self, pod: Object, volume: Mapping[str, Any], name: str) -> dict[str, tuple[bytes, int]] | None:
        """The files of a secret, configMap, downwardAPI or projected volume; ``None`` for an empty directory."""
        if "projected" in volume:
            mode = volume["projected"].get("defaultMode", 0o644)
            files: dict[str, tuple[bytes, int]] = {}
            for source in volume["projected"].get("sources") or ():
                for kind, value in source.items():
                    files |= self._source(pod, kind, {"defaultMode": mode, **value}, name)
            return files
        for kind in ("secret", "configMap", "downwardAPI"):
            if kind in volume:
                return self._source(pod, kind, volume[kind], name)
        return None

    def _source(self, pod: Object, kind: str, source: Mapping[str, Any], volume: str) -> dict[str, tuple[bytes, int]]:
        mode = int(source.get("defaultMode", 0o644))
        if kind == "downwardAPI":
            return {
                item["path"]: (_downward(pod, item), int(item.get("mode", mode))) for item in source.get("items") or ()
            }
        if kind not in ("secret", "configMap"):
            return {}  # a projected service-account token: none is issued
        data = self._data(pod, kind, source, volume)
        if data is None:
            return {}
        items = source.get("items")
        if items is None:
            return {key: (value, mode) for key, value in data.items()}
        files = {}
        for item in items:
            if item["key"] not in data:
                if source.get("optional"):
                    continue
                raise MountFailed(f'MountVolume.SetUp failed for volume "{volume}" : references non-existent '
                                  f'{"secret" if kind == "secret" else "config"} key: {item["key"]}')  # fmt: skip
            files[item["path"]] = (data[item["key"]], int(item.get("mode", mode)))
        return files

    def _data(self, pod: Object, kind: str, source: Mapping[str, Any], volume: str) -> dict[str, bytes] | None:
        plural, word = ("secrets", "secret") if kind == "secret" else ("configmaps", "configmap")
        name = source.get("secretName") or source.get("name") or ""
        found = self._store.peek(plural, pod["metadata"]["namespace"], name)
        if found is None:
            if source.get("optional"):
                return None
            raise MountFailed(f'MountVolume.SetUp failed for volume "{volume}" : {word} "{name}" not found')
        if kind == "secret":
            return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
        plain = {key: str(value).encode() for key, value in (found.get("data") or {}).items()}
        return plain | {key: base64.b64decode(value) for key, value in (found.get("binaryData") or {}).items()}

    # -- mounts --------------------------------------------------------------------------------------------------
    def mounts(
        self, container: Mapping[str, Any], ready: Mapping[str, Path], directories: PodDirectories,
        expand: Callable[[str], str], attempt: int,
    ) -> dict[str, str]:  # fmt: skip
        """The real path behind each mount path of a container, its termination message included.

        :param expand: replaces the container's environment in ``subPathExpr``.
        :param attempt: which start it is: each has a termination message of its own.
        :raises MountFailed: when a sub-path can't be made.
        """
        found: dict[str, str] = {}
        for mount in container.get("volumeMounts") or ():
            real = ready[mount["name"]]
            part = mount.get("subPath") or expand(mount.get("subPathExpr") or "")
            if part:
                real = self._sub_path(real, part, directories.uid)
            found[mount["mountPath"]] = str(real)
        home = directories.make(f"containers/{container['name']}")
        path = container.get("terminationMessagePath") or TERMINATION_LOG
        if not any(path == mount or path.startswith(f"{mount.rstrip('/')}/") for mount in found):
            found[path] = str(home / f"termination-log-{attempt}")
        return found

    def _sub_path(self, real: Path, part: str, uid: int | None) -> Path:
        whole = real / part
        if whole.is_file() and not whole.is_symlink() and ".." not in part.split("/"):
            return whole
        try:
            return make_below(real, part, uid=uid)
        except OSError as error:
            raise MountFailed(f"failed to prepare subPath for volumeMount: {error}") from None


def _downward(pod: Object, item: Mapping[str, Any]) -> bytes:
    if "fieldRef" in item:
        return field_value(pod, item["fieldRef"]["fieldPath"]).encode()
    return resource_field(pod, item["resourceFieldRef"], {}).encode()
