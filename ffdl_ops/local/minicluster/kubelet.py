"""Pods from their creation to their end: placed, prepared, run container by container, stopped, removed."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import shutil
import signal
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ffdl_ops.local.minicluster.containers import ConfigError, Container, environment_of
from ffdl_ops.local.minicluster.images import Image, Images
from ffdl_ops.local.minicluster.quantities import amount
from ffdl_ops.local.minicluster.scheduling import place
from ffdl_ops.local.minicluster.status import container_status, set_condition
from ffdl_ops.local.minicluster.store import Store, now_text
from ffdl_ops.local.minicluster.volumes import Mounts, make_volumes

__all__ = ["Kubelet"]

Object = dict[str, Any]
Key = tuple[str, str]
_GPU = "nvidia.com/gpu"
_DEFAULT_GRACE_S = 30


class Kubelet:
    """Runs the cluster's pods on this machine.

    :param uids: gives a namespace's uid; ``None`` when this server may not change users.
    """

    def __init__(self, store: Store, state: Path, images: Images, uids: Any) -> None:
        self.store = store
        self.state = state
        self.images = images
        self.uids = uids
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._stops: dict[Key, asyncio.Event] = {}
        self._wake = asyncio.Event()

    # -- placing ---------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Adopt what lives, then place and run pods for ever."""
        for pod in self.store.list("pods"):
            if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed"):
                self._start(pod)
            elif pod["metadata"].get("deletionTimestamp"):
                self._finalise(_key(pod))
        while True:
            self._wake.clear()
            self._place_pending()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), 1.0)

    def wake(self) -> None:
        """Look at the pending pods again: one came, one ended, a node changed."""
        self._wake.set()

    def _place_pending(self) -> None:
        nodes = self.store.list("nodes")
        for pod in sorted(self.store.list("pods"), key=lambda one: int(one["metadata"]["resourceVersion"])):
            if pod["spec"].get("nodeName") or pod["status"].get("phase") != "Pending":
                continue
            if pod["metadata"].get("deletionTimestamp"):
                self._finalise(_key(pod))
                continue
            node, why = place(pod, nodes, self.store.list("pods"))
            pod = copy.deepcopy(pod)
            if node is None:
                if set_condition(pod, "PodScheduled", "False", "Unschedulable", why):
                    self._save(pod)
                    self.event(pod, "Warning", "FailedScheduling", why)
                continue
            pod["spec"]["nodeName"] = node
            set_condition(pod, "PodScheduled", "True")
            pod["status"]["hostIP"] = "127.0.0.1"
            pod["status"]["podIP"] = self._ip()
            pod["status"]["podIPs"] = [{"ip": pod["status"]["podIP"]}]
            pod["status"]["startTime"] = now_text()
            pod["metadata"].setdefault("annotations", {})["minicluster/gpus"] = self._gpus(pod, node)
            pod = self._save(pod)
            self.event(pod, "Normal", "Scheduled", f"Successfully assigned {'/'.join(_key(pod))} to {node}")
            self._start(pod)

    def _ip(self) -> str:
        """An address on loopback that no other pod has."""
        taken = {pod["status"].get("podIP") for pod in self.store.list("pods")}
        for number in range(256, 65_000):
            address = f"127.1.{number // 250}.{number % 250 + 1}"
            if address not in taken:
                return address
        return "127.0.0.1"

    def _gpus(self, pod: Object, node: str) -> str:
        """Which of the node's devices the pod gets."""
        wanted = sum(
            int(amount(((one.get("resources") or {}).get("limits") or {}).get(_GPU, 0)))
            for one in pod["spec"]["containers"]
        )
        taken: set[str] = set()
        for other in self.store.list("pods"):
            if other["spec"].get("nodeName") == node and other["status"].get("phase") not in ("Succeeded", "Failed"):
                taken |= set(
                    filter(None, (other["metadata"].get("annotations") or {}).get("minicluster/gpus", "").split(","))
                )
        total = int(amount(self.store.get("nodes", "", node)["status"]["allocatable"].get(_GPU, 0)))
        return ",".join([str(index) for index in range(total) if str(index) not in taken][:wanted])

    # -- running ---------------------------------------------------------------------------------------------------
    def _start(self, pod: Object) -> None:
        key = _key(pod)
        self._stops.setdefault(key, asyncio.Event())
        task = asyncio.get_running_loop().create_task(self._run_pod(key))
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._ended(key, done))

    def _ended(self, key: Key, task: asyncio.Task[None]) -> None:
        self._tasks.pop(key, None)
        if not task.cancelled() and task.exception() is not None:
            self._fail(key, "ContainerCreateError", str(task.exception()))
        pod = self.store.find("pods", *key)
        if pod is not None and pod["metadata"].get("deletionTimestamp"):
            self._finalise(key)
        self.wake()

    def directory(self, pod: Object) -> Path:
        """The pod's own directory."""
        return self.state / "pods" / str(pod["metadata"]["uid"])

    async def _run_pod(self, key: Key) -> None:
        pod = self.store.get("pods", *key)
        run = _PodRun(self, key, pod)
        await run.whole()

    def stop(self, key: Key, grace_s: int) -> None:
        """Begin a pod's end (its deletion was asked for)."""
        stop = self._stops.setdefault(key, asyncio.Event())
        stop.set()
        if key not in self._tasks:
            self._finalise(key)

    def stopping(self, key: Key) -> asyncio.Event:
        """Set when the pod shall end."""
        return self._stops.setdefault(key, asyncio.Event())

    def _finalise(self, key: Key) -> None:
        pod = self.store.remove("pods", *key)
        self._stops.pop(key, None)
        if pod is not None:
            shutil.rmtree(self.directory(pod), ignore_errors=True)
        self.wake()

    def kill(self, key: Key) -> None:
        """Kill a pod's processes at once, without telling the API (a fault: the node is lost)."""
        pod = self.store.find("pods", *key)
        for kind in ("initContainers", "containers"):
            for spec in (pod["spec"].get(kind) or []) if pod else []:
                Container(spec, self.directory(pod) / spec["name"]).signal(signal.SIGKILL)  # type: ignore[arg-type]

    # -- what others may know ----------------------------------------------------------------------------------------
    def _fail(self, key: Key, reason: str, message: str) -> None:
        pod = self.store.find("pods", *key)
        if pod is not None:
            pod = copy.deepcopy(pod)
            pod["status"].update(phase="Failed", reason=reason, message=message)
            self._save(pod)

    def _save(self, pod: Object) -> Object:
        return self.store.update("pods", pod["metadata"]["namespace"], pod)

    def event(self, pod: Object, kind: str, reason: str, message: str) -> None:
        """Record an event on a pod."""
        meta = pod["metadata"]
        now = now_text()
        self.store.create(
            "events",
            meta["namespace"],
            {
                "kind": "Event",
                "apiVersion": "v1",
                "metadata": {"name": f"{meta['name']}.{uuid.uuid4().hex[:12]}"},
                "involvedObject": {
                    "kind": "Pod", "apiVersion": "v1", "name": meta["name"], "namespace": meta["namespace"],
                    "uid": meta["uid"],
                },
                "reason": reason,
                "message": message,
                "type": kind,
                "count": 1,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "source": {"component": "minicluster"},
            },
        )  # fmt: skip


class _PodRun:
    """One pod's run: init containers in order, side-cars beside them, then the main containers."""

    def __init__(self, kubelet: Kubelet, key: Key, pod: Object) -> None:
        self.kubelet = kubelet
        self.key = key
        self.pod = pod
        self.directory = kubelet.directory(pod)
        self.uid = kubelet.uids(key[0]) if kubelet.uids else None
        self.stop = kubelet.stopping(key)
        self.oomed: set[str] = set()

    def now(self) -> Object:
        """The pod as the store has it, to be changed and saved."""
        return copy.deepcopy(self.kubelet.store.get("pods", *self.key))

    async def whole(self) -> None:
        """Run it to its end."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o711)
        if not await self._prepared():
            return
        sidecars: list[Container] = []
        deadline = self._deadline()
        for spec in self.pod["spec"].get("initContainers") or []:
            container = self._container(spec)
            if spec.get("restartPolicy") == "Always":
                self._launch(container)
                sidecars.append(container)
                continue
            self._launch(container)
            end = await self._until_end([container], deadline)
            if end or (container.ended() or {}).get("code") != 0:
                await self._end(sidecars, "Failed", end)
                return
        mains = [self._container(spec) for spec in self.pod["spec"]["containers"]]
        for container in mains:
            self._launch(container)
        self._report("Running")
        end = await self._until_end(mains, deadline)
        codes = [(container.ended() or {"code": 137})["code"] for container in mains]
        # A container that was killed for memory failed, whatever exit code its shell made of it.
        good = not any(codes) and not any(container.name in self.oomed for container in mains)
        await self._end(sidecars, "Succeeded" if good and not end else "Failed", end)

    async def _prepared(self) -> bool:
        """Wait for images and configuration; ``False`` when the pod was deleted meanwhile."""
        tries = 0
        while True:
            problem = self._problem()
            if problem is None:
                break
            reason, message, name = problem
            if reason == "ErrImagePull" and tries % 2:
                reason, message = "ImagePullBackOff", f'Back-off pulling image "{message.split(chr(34))[1]}"'
            pod = self.now()
            self._set_statuses(pod, blocked={name: {"reason": reason, "message": message}})
            self.kubelet.store.update("pods", self.key[0], pod)
            if tries < 2:
                self.kubelet.event(pod, "Warning", "Failed", f"{reason}: {message}")
            tries += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stop.wait(), min(10, 1 + tries))
            if self.stop.is_set():
                return False
        self.made = make_volumes(self.pod, self.directory, self.kubelet.state / "hostpath", self.uid, self._values())
        return True

    def _problem(self) -> tuple[str, str, str] | None:
        """Why a container can't be started: reason, message, container."""
        values = self._values()
        for volume in self.pod["spec"].get("volumes") or []:
            name = (volume.get("secret") or {}).get("secretName")
            if name and name not in values["secrets"]:
                return "ContainerCreating", f'secret "{name}" not found', self.pod["spec"]["containers"][0]["name"]
        for spec in [*(self.pod["spec"].get("initContainers") or []), *self.pod["spec"]["containers"]]:
            image = self.kubelet.images.find(spec["image"])
            if image is None:
                text = f'failed to pull and unpack image "{spec["image"]}": it is not in the table of images'
                return "ErrImagePull", text, spec["name"]
            try:
                environment_of(spec, self.pod, image, Mounts({}), values)
            except ConfigError as error:
                return "CreateContainerConfigError", str(error), spec["name"]
        return None

    def _values(self) -> dict[str, dict[str, Mapping[str, str]]]:
        return {
            kind: {one["metadata"]["name"]: one.get("data") or {} for one in self.kubelet.store.list(kind, self.key[0])}
            for kind in ("secrets", "configmaps")
        }

    def _container(self, spec: Mapping[str, Any]) -> Container:
        return Container(spec, self.directory / spec["name"])

    def _launch(self, container: Container) -> None:
        spec = container.spec
        image = self.kubelet.images.find(spec["image"]) or Image({})
        mounts = Mounts(
            {
                mount["mountPath"]: self.made[mount["name"]] / mount.get("subPath", "").strip("/")
                for mount in spec.get("volumeMounts") or []
            }
        )
        for path in mounts.places.values():
            if not path.exists():
                path.mkdir(parents=True, mode=0o700)
                if self.uid is not None:
                    os.chown(path, self.uid, self.uid)
        env = environment_of(spec, self.now(), image, mounts, self._values())
        home = self.directory / "home"
        if not home.exists():
            home.mkdir(mode=0o700)
            if self.uid is not None:
                os.chown(home, self.uid, self.uid)
        env |= {"HOME": str(home), "TMPDIR": str(home), "HOSTNAME": self.key[1], "FFDL_MINICLUSTER": "1"}
        wants_gpus = int(amount(((spec.get("resources") or {}).get("limits") or {}).get(_GPU, 0)))
        devices = (self.pod["metadata"].get("annotations") or {}).get("minicluster/gpus", "")
        # The GPUs are simulated: a program that looks for a device must find none, and may read which it would have.
        env |= {"CUDA_VISIBLE_DEVICES": "", "FFDL_SIMULATED_GPUS": devices if wants_gpus else ""}
        argv = [mounts.text(part) for part in [*(spec.get("command") or []), *(spec.get("args") or [])]]
        cwd = mounts.path(spec["workingDir"]) if spec.get("workingDir") else home
        container.start(argv or ["/bin/sh"], env, cwd, self.uid)
        self._termination = mounts

    def _deadline(self) -> float | None:
        limit = self.pod["spec"].get("activeDeadlineSeconds")
        return asyncio.get_running_loop().time() + limit if limit else None

    async def _until_end(self, containers: list[Container], deadline: float | None) -> str | None:
        """Wait for containers to end; stop them when the pod is to end. Returns why, if it was not by themselves."""
        waits = [asyncio.ensure_future(self._watched(container)) for container in containers]
        stop = asyncio.ensure_future(self.stop.wait())
        try:
            while True:
                left = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())
                done, pending = await asyncio.wait({*waits, stop}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if all(one.done() for one in waits):
                    return None
                if stop in done or not done:
                    await self._stop_all(containers)
                    await asyncio.gather(*waits)
                    return "Deleted" if stop in done else "DeadlineExceeded"
                if pending:
                    self._report()
        finally:
            stop.cancel()

    async def _watched(self, container: Container) -> None:
        limit = ((container.spec.get("resources") or {}).get("limits") or {}).get("memory")
        end = await container.wait(int(amount(limit)) if limit else None)
        if end.get("reason") == "OOMKilled" or (container.directory / "oom").exists():
            self.oomed.add(container.name)
        if self.kubelet.store.find("pods", *self.key) is not None:
            self._report()

    async def _stop_all(self, containers: list[Container]) -> None:
        """SIGTERM, the grace, SIGKILL."""
        pod = self.kubelet.store.find("pods", *self.key) or {"metadata": {}, "spec": {}}
        grace = pod["metadata"].get("deletionGracePeriodSeconds")
        if grace is None:
            grace = pod["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE_S)
        for container in containers:
            container.signal(signal.SIGTERM if grace else signal.SIGKILL)
        deadline = asyncio.get_running_loop().time() + float(grace)
        while any(container.started() and not container.ended() for container in containers):
            newer = self.kubelet.store.find("pods", *self.key)
            if newer and (newer["metadata"].get("deletionGracePeriodSeconds") == 0):
                deadline = 0.0
            if asyncio.get_running_loop().time() > deadline:
                for container in containers:
                    container.signal(signal.SIGKILL)
                await asyncio.sleep(0.2)
            await asyncio.sleep(0.02)

    async def _end(self, sidecars: list[Container], phase: str, why: str | None) -> None:
        """Stop the side-cars, then write how the pod ended."""
        self._report()
        await self._stop_all(sidecars)
        pod = self.kubelet.store.find("pods", *self.key)
        if pod is None:
            return
        pod = self.now()
        self._set_statuses(pod)
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            return
        pod["status"]["phase"] = phase
        if why == "DeadlineExceeded":
            pod["status"].update(reason=why, message="Pod was active on the node longer than the specified deadline")
        set_condition(pod, "Ready", "False", "PodCompleted")
        self.kubelet.store.update("pods", self.key[0], pod)

    def _report(self, phase: str | None = None) -> None:
        pod = self.now()
        before = copy.deepcopy(pod["status"])
        self._set_statuses(pod)
        if phase and pod["status"].get("phase") == "Pending":
            pod["status"]["phase"] = phase
            for kind in ("Initialized", "ContainersReady", "Ready"):
                set_condition(pod, kind, "True")
        if pod["status"] != before:
            self.kubelet.store.update("pods", self.key[0], pod)

    def _set_statuses(self, pod: Object, blocked: Mapping[str, Any] | None = None) -> None:
        for kind, field in (("initContainers", "initContainerStatuses"), ("containers", "containerStatuses")):
            pod["status"][field] = [
                container_status(
                    spec, self._container(spec), self._message, (blocked or {}).get(spec["name"]), self.oomed
                )
                for spec in pod["spec"].get(kind) or []
            ]
        if blocked is None and pod["status"].get("phase") == "Pending":
            set_condition(pod, "Initialized", "False", "ContainersNotInitialized")

    def _message(self, spec: Mapping[str, Any]) -> str | None:
        """A container's termination message, from the file that it was told to write."""
        path = spec.get("terminationMessagePath")
        if not path:
            return None
        for mount in spec.get("volumeMounts") or []:
            base = mount["mountPath"].rstrip("/")
            if path.startswith(base + "/"):
                file = self.made[mount["name"]] / path[len(base) + 1 :]
                with contextlib.suppress(OSError):
                    return file.read_bytes()[:4096].decode("utf-8", "replace")
        return None


def _key(pod: Mapping[str, Any]) -> Key:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]
