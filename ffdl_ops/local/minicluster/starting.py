"""Starts of containers: image, environment, command, and the back-off of what fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ffdl_ops.adapters.images import Image
from ffdl_ops.local.minicluster.containers import ProcessSpec, Run
from ffdl_ops.local.minicluster.environment import ConfigError, declared_environment, process_spec
from ffdl_ops.local.minicluster.podstatus import Waiting
from ffdl_ops.local.minicluster.store import Object
from ffdl_ops.local.minicluster.translate import expand, translator
from ffdl_ops.local.minicluster.volumes import TERMINATION_LOG, MountFailed, PodDirectories

if TYPE_CHECKING:
    from ffdl_ops.local.minicluster.kubelet import Kubelet

__all__ = ["Starter", "field_path_of"]

_RETRY_S = 2.0
_BACKOFF_S, _BACKOFF_MAX_S = 10.0, 300.0
_LONG_S = 600.0


class _Identity(Protocol):
    """Which pod it is."""

    namespace: str
    name: str
    uid: str


class Starter:
    """Starts one pod's containers.

    :param kubelet: whose pod.
    :param pod: which pod.
    :param tell: records an event of the pod.
    :param at: looks at the pod again at a moment.
    """

    def __init__(
        self, kubelet: Kubelet, pod: _Identity, tell: Callable[..., None], at: Callable[[float], None]
    ) -> None:
        self._kubelet, self._pod, self._tell, self._at = kubelet, pod, tell, at
        self._store, self._runtime = kubelet.store, kubelet.runtime
        self.waiting: dict[str, Waiting] = {}
        self._retry_at: dict[str, float] = {}
        self._failures: dict[str, int] = {}

    def retry(self) -> None:
        """Try at once what waited for a secret or a config map."""
        for name, waiting in self.waiting.items():
            if waiting.reason == "CreateContainerConfigError":
                self._retry_at.pop(name, None)

    def directories(self, pod: Object) -> PodDirectories:
        """Where the pod lives."""
        parts = self._kubelet.parts
        return parts.volumes.directories(pod, parts.isolation.uid_of(self._store, self._pod.namespace))

    def start(self, pod: Object, container: Mapping[str, Any], before: Run | None, mounted: Mapping[str, Path]) -> None:
        """Start a container (again), or note why it waits.

        :param before: its newest run, if it has run.
        :param mounted: the real directories of the pod's volumes.
        """
        name, now = container["name"], time.time()
        if before is not None and before.ended and not self._backed_off(pod, container, before):
            return
        if now < self._retry_at.get(name, 0):
            self._at(self._retry_at[name])
            if self.waiting.get(name, Waiting("")).reason == "ErrImagePull":
                text = f'Back-off pulling image "{container["image"]}"'
                self.waiting[name] = Waiting("ImagePullBackOff", f"{text}: {self.waiting[name].message}")
                self._tell(pod, "BackOff", text, field_path=field_path_of(pod, name))
            return
        image = self._kubelet.parts.images.find(container["image"])
        if image is None:
            self._pull_failed(pod, container)
            return
        try:
            attempt = before.attempt + 1 if before else 0
            spec, termination = self._process(pod, container, image, mounted, attempt)
        except (ConfigError, MountFailed) as error:
            self.waiting[name] = Waiting("CreateContainerConfigError", str(error))
            self._tell(pod, "Failed", f"Error: {error}", kind="Warning", field_path=field_path_of(pod, name))
            self._retry_at[name] = now + _RETRY_S
            self._at(self._retry_at[name])
            return
        self.waiting.pop(name, None)
        self._retry_at.pop(name, None)
        text = f'Container image "{container["image"]}" already present on machine'
        self._tell(pod, "Pulled", text, field_path=field_path_of(pod, name))
        run = self._runtime.start(self._pod.uid, name, spec)
        (run.directory / "termination-path").write_text(termination)
        self._tell(pod, "Created", f"Created container: {name}", field_path=field_path_of(pod, name))

    def _process(
        self, pod: Object, container: Mapping[str, Any], image: Image, mounted: Mapping[str, Path], attempt: int
    ) -> tuple[ProcessSpec, str]:
        """What to run, and the real path of the termination message."""
        parts, directories = self._kubelet.parts, self.directories(pod)
        allocatable = self._kubelet.allocatable(pod["spec"].get("nodeName", ""))
        declared = declared_environment(pod, container, self._store, allocatable)
        expanded = lambda text: expand(text, declared)  # noqa: E731
        mounts = parts.volumes.mounts(container, mounted, directories, expanded, attempt)
        extra = parts.devices.environment(pod, container["name"])
        path = container.get("terminationMessagePath") or TERMINATION_LOG
        spec = process_spec(pod, container, image, declared, mounts, directories, extra)
        return spec, translator(mounts)(path)

    def _pull_failed(self, pod: Object, container: Mapping[str, Any]) -> None:
        name, image = container["name"], container["image"]
        if container.get("imagePullPolicy") == "Never":
            text = f'Container image "{image}" is not present with pull policy of Never'
            self.waiting[name] = Waiting("ErrImageNeverPull", text)
            self._retry_at[name] = time.time() + _BACKOFF_MAX_S
            self._tell(pod, "ErrImageNeverPull", text, kind="Warning", field_path=field_path_of(pod, name))
            return
        text = f'failed to pull and unpack image "{image}": no pattern of the image table matches it: not found'
        self._tell(pod, "Pulling", f'Pulling image "{image}"', field_path=field_path_of(pod, name))
        self._tell(
            pod,
            "Failed",
            f'Failed to pull image "{image}": {text}',
            kind="Warning",
            field_path=field_path_of(pod, name),
        )
        self._tell(pod, "Failed", "Error: ErrImagePull", kind="Warning", field_path=field_path_of(pod, name))
        self.waiting[name] = Waiting("ErrImagePull", text)
        self._failures[name] = self._failures.get(name, 0) + 1
        self._retry_at[name] = time.time() + _backoff(self._failures[name])
        self._at(time.time() + 0.5)

    def _backed_off(self, pod: Object, container: Mapping[str, Any], before: Run) -> bool:
        """Whether a container that has ended may start again: at once the first time, or after a long run."""
        name, ended = container["name"], float((before.exit or {}).get("finished", 0))
        delay = 0.0 if before.attempt == 0 or ended - before.started > _LONG_S else _backoff(before.attempt)
        again = ended + delay
        if time.time() >= again:
            return True
        who = f"{self._pod.name}_{self._pod.namespace}({self._pod.uid})"
        text = f"back-off {int(delay)}s restarting failed container={name} pod={who}"
        if name not in self.waiting:
            told = f"Back-off restarting failed container {name} in pod {who}"
            self._tell(pod, "BackOff", told, kind="Warning", field_path=field_path_of(pod, name))
        self.waiting[name] = Waiting("CrashLoopBackOff", text)
        self._at(again)
        return False


def _backoff(failures: int) -> float:
    return min(_BACKOFF_MAX_S, _BACKOFF_S * 2 ** min(failures - 1, 8))


def field_path_of(pod: Mapping[str, Any], name: str) -> str:
    """How events name a container of a pod."""
    inits = {one["name"] for one in pod["spec"].get("initContainers") or ()}
    return f"spec.{'initContainers' if name in inits else 'containers'}{{{name}}}"
