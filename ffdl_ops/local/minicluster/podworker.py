"""One pod's life on its node: each call of `PodWorker.sync` looks at what there is and does what is due.

Nothing of what it decides is kept in memory only, except why a container waits: a server that was killed goes on from the
objects and the runtime's files.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ffdl_ops.local.minicluster.admission import Rejected, admit
from ffdl_ops.local.minicluster.containers import ProcessSpec, Run
from ffdl_ops.local.minicluster.environment import ConfigError, declared_environment, process_spec
from ffdl_ops.local.minicluster.images import Image
from ffdl_ops.local.minicluster.podresources import TERMINAL, is_sidecar
from ffdl_ops.local.minicluster.podstatus import Ending, Observed, Waiting, build_status, succeeded
from ffdl_ops.local.minicluster.store import Object
from ffdl_ops.local.minicluster.termination import termination_message
from ffdl_ops.local.minicluster.times import now_iso, parse_time
from ffdl_ops.local.minicluster.translate import expand, translator
from ffdl_ops.local.minicluster.volumes import TERMINATION_LOG, MountFailed, PodDirectories

if TYPE_CHECKING:
    from ffdl_ops.local.minicluster.kubelet import Kubelet

__all__ = ["PodWorker"]

_LOG = logging.getLogger(__name__)
_RETRY_S = 2.0
_BACKOFF_S, _BACKOFF_MAX_S = 10.0, 300.0
_DEADLINE = "Pod was active on the node longer than the specified deadline"


class PodWorker:
    """Follows one pod.

    :param kubelet: whose worker.
    :param namespace: the pod's.
    :param name: the pod's.
    :param uid: the pod's; another pod of the same name is not this one.
    """

    def __init__(self, kubelet: Kubelet, namespace: str, name: str, uid: str) -> None:
        self._kubelet, self.namespace, self.name, self.uid = kubelet, namespace, name, uid
        self._store, self._runtime = kubelet.store, kubelet.runtime
        self._due = False
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: dict[str, Waiting] = {}
        self._retry_at: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._mounted: dict[str, Path] | None = None
        self._messages: dict[tuple[str, int], str] = {}
        self._told: set[tuple[str, int]] = set()
        self._terminated_since: float | None = None
        self._deadline: tuple[str, float] | None = None

    # -- waking --------------------------------------------------------------------------------------------------
    @property
    def waits_for_objects(self) -> bool:
        """Whether a secret or config map that appears may let it go on."""
        return bool(self._waiting) or self._mounted is None

    def retry(self) -> None:
        """Try at once what waits for something missing."""
        self._retry_at = {
            name: at
            for name, at in self._retry_at.items()
            if name != "" and self._waiting.get(name, Waiting("")).reason != "CreateContainerConfigError"
        }
        self.wake()

    def wake(self) -> None:
        """Look at the pod soon."""
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._run)

    def close(self) -> None:
        """Look no more."""
        self._due = True
        if self._timer is not None:
            self._timer.cancel()

    def _run(self) -> None:
        self._due = False
        try:
            self.sync()
        except Exception:
            _LOG.exception("pod %s/%s", self.namespace, self.name)
            self._at(time.time() + 1)

    def _at(self, moment: float) -> None:
        """Look again at a moment (seconds since the epoch), or earlier."""
        loop = asyncio.get_running_loop()
        when = loop.time() + max(0.0, moment - time.time())
        if self._timer is not None and not self._timer.cancelled() and loop.time() < self._timer.when() <= when:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(when, self.wake)

    def pod(self) -> Object | None:
        """The pod, if it is still there."""
        found = self._store.peek("pods", self.namespace, self.name)
        return found if found is not None and found["metadata"]["uid"] == self.uid else None

    # -- stopping ------------------------------------------------------------------------------------------------
    def stop(self, reason: str, message: str, grace_s: float) -> None:
        """End the pod as failed.

        :param reason: the pod's reason.
        :param message: the pod's message.
        :param grace_s: seconds between SIGTERM and SIGKILL.
        """
        pod = self.pod()
        if pod is None or pod["status"].get("phase") in TERMINAL or self._stop_record() is not None:
            return
        record = {"reason": reason, "message": message, "deadline": time.time() + grace_s}
        self._store.set_fact(f"stop/{self.uid}", json.dumps(record))
        self.wake()

    def _stop_record(self) -> dict[str, Any] | None:
        kept = self._store.fact(f"stop/{self.uid}")
        return json.loads(kept) if kept else None

    def _ending(self, pod: Object) -> tuple[Ending, float] | None:
        """Why the pod must stop and when it is killed, if it must."""
        record = self._stop_record()
        if record is not None:
            return Ending(record["reason"], record["message"]), record["deadline"]
        limit, started = pod["spec"].get("activeDeadlineSeconds"), pod["status"].get("startTime")
        if limit and started:
            deadline = parse_time(started) + limit
            if time.time() >= deadline:
                self.stop("DeadlineExceeded", _DEADLINE, float(pod["spec"].get("terminationGracePeriodSeconds", 30)))
                return self._ending(pod)
            self._at(deadline)
        if deleted := pod["metadata"].get("deletionTimestamp"):
            return Ending(), self._deletion_deadline(pod, deleted)
        return None

    def _deletion_deadline(self, pod: Object, deleted: str) -> float:
        """When a deleted pod is killed: its whole grace period after the delete was seen, though the stamp has whole seconds."""
        if self._deadline is None or self._deadline[0] != deleted:
            stamped = parse_time(deleted)
            whole = time.time() + int(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            self._deadline = (deleted, whole if 0 <= whole - stamped <= 1.5 else stamped)
        return self._deadline[1]

    # -- the loop's body -----------------------------------------------------------------------------------------
    def sync(self) -> None:
        """Do what is due."""
        pod = self.pod()
        if pod is None:
            self._clean_up()
            return
        if pod["spec"].get("nodeName") in self._kubelet.lost:
            return  # a lost node's kubelet says and does nothing
        if pod["status"].get("phase") in TERMINAL:
            self._kubelet.parts.devices.release(self.uid)
            if pod["metadata"].get("deletionTimestamp"):
                self._finalize(pod)
            return
        if not pod["status"].get("startTime"):
            admitted = self._admit(pod)
            if admitted is None:
                return
            pod = admitted
        ending = self._ending(pod)
        if ending is not None:
            finished = self._stop_containers(pod, ending[1])
        else:
            finished = self._start_containers(pod)
        self._publish(pod, ending[0] if ending else None, finished)

    def _admit(self, pod: Object) -> Object | None:
        try:
            admit(pod, self._store, self._kubelet.parts.devices, self._kubelet.refusals)
        except Rejected as refused:
            status = {**pod["status"], "phase": "Failed", "reason": refused.reason, "message": refused.message,
                      "startTime": now_iso()}  # fmt: skip
            self._store.update("pods", {**pod, "status": status})
            self._event(pod, refused.reason, refused.message, kind="Warning")
            return None
        address = self._kubelet.address()
        status = {
            **pod["status"], "startTime": now_iso(), "hostIP": "127.0.0.1", "hostIPs": [{"ip": "127.0.0.1"}],
            "podIP": address, "podIPs": [{"ip": address}],
        }  # fmt: skip
        return self._store.update("pods", {**pod, "status": status})

    def _publish(self, pod: Object, ending: Ending | None, finished: bool) -> None:
        runs = self._runtime.runs.get(self.uid, {})
        for name, kept in runs.items():
            self._tell_of(pod, name, kept[-1])
        messages = {name: self._message(pod, kept[-1]) for name, kept in runs.items() if kept[-1].ended}
        seen = Observed(runs, self._waiting, messages, ending, finished)
        fresh = self.pod() or pod
        status = build_status(fresh, seen)
        if status != fresh["status"]:
            self._store.update("pods", {**fresh, "status": status})

    def _finalize(self, pod: Object) -> None:
        if pod["metadata"].get("finalizers"):
            return
        if all(run.ended for run in self._runtime.of(self.uid)):
            self._store.delete("pods", self.namespace, self.name)

    def _clean_up(self) -> None:
        """The object is gone (deleted by force, or finalized): end what is left, then remove its files."""
        left = [run for run in self._runtime.of(self.uid) if not run.ended]
        for run in left:
            self._runtime.signal(run, signal.SIGKILL)
        if left:
            self._at(time.time() + 0.2)
            return
        self.close()
        self._runtime.forget(self.uid)
        self._kubelet.parts.volumes.remove(self.uid)
        self._kubelet.parts.devices.release(self.uid)
        self._store.drop_fact(f"stop/{self.uid}")
        self._kubelet.forget(self.uid)

    # -- starting ------------------------------------------------------------------------------------------------
    def _start_containers(self, pod: Object) -> bool:
        """Start what is due; whether the pod has ended by itself."""
        if not self._set_up(pod):
            return False
        spec = pod["spec"]
        if all(self._over(pod, container["name"]) for container in spec["containers"]):
            return self._stop_sidecars(pod)
        outcome = self._advance_inits(pod)
        if outcome == "wait":
            return False
        if outcome == "ok":
            over = [self._advance_main(pod, container) for container in spec["containers"]]
            if not all(over):
                return False
        return self._stop_sidecars(pod)

    def _set_up(self, pod: Object) -> bool:
        if self._mounted is not None:
            return True
        if time.time() < self._retry_at.get("", 0):
            self._at(self._retry_at[""])
            return False
        parts = self._kubelet.parts
        try:
            self._mounted = parts.volumes.set_up(pod, self._directories(pod))
        except MountFailed as error:
            self._event(pod, "FailedMount", str(error), kind="Warning")
            self._retry_at[""] = time.time() + _RETRY_S
            self._at(self._retry_at[""])
            return False
        return True

    def _directories(self, pod: Object) -> PodDirectories:
        parts = self._kubelet.parts
        return parts.volumes.directories(pod, parts.isolation.uid_of(self._store, self.namespace))

    def _advance_inits(self, pod: Object) -> str:
        """ "ok" when the main containers may run, "wait", or "failed" for good."""
        for container in pod["spec"].get("initContainers") or ():
            run = self._runtime.last(self.uid, container["name"])
            if is_sidecar(container):
                if run is None or run.ended:
                    self._start(pod, container, run)
                    return "wait"
                if not run.running:
                    return "wait"
                continue
            if succeeded(run):
                continue
            if run is not None and run.ended and pod["spec"].get("restartPolicy") == "Never":
                return "failed"
            if run is None or run.ended:
                self._start(pod, container, run)
            return "wait"
        return "ok"

    def _advance_main(self, pod: Object, container: Mapping[str, Any]) -> bool:
        """Start a main container if it is due; whether it is over for good."""
        if self._over(pod, container["name"]):
            return True
        run = self._runtime.last(self.uid, container["name"])
        if run is None or run.ended:
            self._start(pod, container, run)
        return False

    def _over(self, pod: Object, name: str) -> bool:
        """Whether a main container has ended and will not be started again."""
        run, policy = self._runtime.last(self.uid, name), pod["spec"].get("restartPolicy", "Always")
        return run is not None and run.ended and (policy == "Never" or (policy == "OnFailure" and succeeded(run)))

    def _start(self, pod: Object, container: Mapping[str, Any], before: Run | None) -> None:
        name, now = container["name"], time.time()
        if before is not None and before.ended and not self._backed_off(pod, container, before):
            return
        if now < self._retry_at.get(name, 0):
            self._at(self._retry_at[name])
            if self._waiting.get(name, Waiting("")).reason == "ErrImagePull":
                text = f'Back-off pulling image "{container["image"]}"'
                self._waiting[name] = Waiting("ImagePullBackOff", f"{text}: {self._waiting[name].message}")
                self._event(pod, "BackOff", text, field_path=_path(pod, name))
            return
        image = self._kubelet.parts.images.find(container["image"])
        if image is None:
            self._pull_failed(pod, container)
            return
        try:
            spec, termination = self._process(pod, container, image)
        except (ConfigError, MountFailed) as error:
            self._waiting[name] = Waiting("CreateContainerConfigError", str(error))
            self._event(pod, "Failed", f"Error: {error}", kind="Warning", field_path=_path(pod, name))
            self._retry_at[name] = now + _RETRY_S
            self._at(self._retry_at[name])
            return
        self._waiting.pop(name, None)
        self._retry_at.pop(name, None)
        text = f'Container image "{container["image"]}" already present on machine'
        self._event(pod, "Pulled", text, field_path=_path(pod, name))
        run = self._runtime.start(self.uid, name, spec)
        (run.directory / "termination-path").write_text(termination)
        self._event(pod, "Created", f"Created container: {name}", field_path=_path(pod, name))

    def _process(self, pod: Object, container: Mapping[str, Any], image: Image) -> tuple[ProcessSpec, str]:
        """What to run, and the real path of the termination message."""
        parts, directories = self._kubelet.parts, self._directories(pod)
        allocatable = self._kubelet.allocatable(pod["spec"].get("nodeName", ""))
        declared = declared_environment(pod, container, self._store, allocatable)
        mounts = parts.volumes.mounts(container, self._mounted or {}, directories, lambda text: expand(text, declared))
        extra = parts.devices.environment(pod, container["name"])
        path = container.get("terminationMessagePath") or TERMINATION_LOG
        spec = process_spec(pod, container, image, declared, mounts, directories, extra)
        return spec, translator(mounts)(path)

    def _pull_failed(self, pod: Object, container: Mapping[str, Any]) -> None:
        name, image = container["name"], container["image"]
        if container.get("imagePullPolicy") == "Never":
            text = f'Container image "{image}" is not present with pull policy of Never'
            self._waiting[name] = Waiting("ErrImageNeverPull", text)
            self._retry_at[name] = time.time() + _BACKOFF_MAX_S
            self._event(pod, "ErrImageNeverPull", text, kind="Warning", field_path=_path(pod, name))
            return
        text = f'failed to pull and unpack image "{image}": no pattern of the image table matches it: not found'
        self._event(pod, "Pulling", f'Pulling image "{image}"', field_path=_path(pod, name))
        self._event(
            pod, "Failed", f'Failed to pull image "{image}": {text}', kind="Warning", field_path=_path(pod, name)
        )
        self._event(pod, "Failed", "Error: ErrImagePull", kind="Warning", field_path=_path(pod, name))
        self._waiting[name] = Waiting("ErrImagePull", text)
        self._failures[name] = self._failures.get(name, 0) + 1
        self._retry_at[name] = time.time() + _backoff(self._failures[name])
        self._at(time.time() + 0.5)

    def _backed_off(self, pod: Object, container: Mapping[str, Any], before: Run) -> bool:
        """Whether a container that has ended may start again; the first time at once."""
        name = container["name"]
        if before.attempt == 0 or (before.exit or {}).get("code") == 0 and is_sidecar(container):
            return True
        delay = _backoff(before.attempt)
        again = float((before.exit or {}).get("finished", 0)) + delay
        if time.time() >= again:
            return True
        text = f"back-off {int(delay)}s restarting failed container={name} pod={self.name}_{self.namespace}({self.uid})"
        if name not in self._waiting:
            self._event(pod, "BackOff", f"Back-off restarting failed container {name} in pod "
                        f"{self.name}_{self.namespace}({self.uid})", kind="Warning", field_path=_path(pod, name))  # fmt: skip
        self._waiting[name] = Waiting("CrashLoopBackOff", text)
        self._at(again)
        return False

    # -- stopping containers -------------------------------------------------------------------------------------
    def _stop_containers(self, pod: Object, deadline: float) -> bool:
        """Stop the main containers, then the side-cars, all killed at the deadline; whether all are gone."""
        spec = pod["spec"]
        mains = [one["name"] for one in spec["containers"]]
        inits = [one for one in spec.get("initContainers") or () if not is_sidecar(one)]
        left = self._terminate(pod, [*mains, *(one["name"] for one in inits)], deadline)
        if left:
            return False
        return not self._terminate(pod, self._sidecars(pod), deadline)

    def _sidecars(self, pod: Object) -> list[str]:
        return [one["name"] for one in reversed(pod["spec"].get("initContainers") or ()) if is_sidecar(one)]

    def _stop_sidecars(self, pod: Object) -> bool:
        """The main containers are over: tell the side-cars; whether they are gone."""
        names = self._sidecars(pod)
        if self._terminated_since is None:
            self._terminated_since = time.time()
        grace = float(pod["spec"].get("terminationGracePeriodSeconds", 30))
        return not self._terminate(pod, names, self._terminated_since + grace)

    def _terminate(self, pod: Object, names: list[str], deadline: float) -> bool:
        """Signal what runs of some containers; whether something still runs."""
        left = False
        for name in names:
            run = self._runtime.last(self.uid, name)
            if run is None or run.ended:
                continue
            left = True
            mark = (name, run.attempt)
            if run.running and mark not in self._told and not (run.directory / "terminating").exists():
                (run.directory / "terminating").touch()
                self._event(pod, "Killing", f"Stopping container {name}", field_path=_path(pod, name))
                self._runtime.signal(run, signal.SIGTERM)
            self._told.add(mark) if run.running else None
            if run.running and time.time() >= deadline:
                self._runtime.signal(run, signal.SIGKILL)
                self._at(time.time() + 0.5)
            else:
                self._at(max(deadline, time.time() + 0.01))
        return left

    # -- telling -------------------------------------------------------------------------------------------------
    def _tell_of(self, pod: Object, name: str, run: Run) -> None:
        marker = run.directory / "told"
        if run.running and not marker.exists():
            marker.touch()
            self._event(pod, "Started", f"Started container {name}", field_path=_path(pod, name))

    def _message(self, pod: Object, run: Run) -> str:
        mark = (run.container, run.attempt)
        if mark not in self._messages:
            self._messages[mark] = termination_message(pod, run, self._kubelet.parts.volumes)
        return self._messages[mark]

    def _event(self, pod: Object, reason: str, message: str, *, kind: str = "Normal", field_path: str = "") -> None:
        node = pod["spec"].get("nodeName", "")
        self._kubelet.parts.recorder.record(pod, reason, message, kind=kind, host=node, field_path=field_path)


def _backoff(failures: int) -> float:
    return min(_BACKOFF_MAX_S, _BACKOFF_S * 2 ** min(failures - 1, 8))


def _path(pod: Mapping[str, Any], name: str) -> str:
    inits = {one["name"] for one in pod["spec"].get("initContainers") or ()}
    return f"spec.{'initContainers' if name in inits else 'containers'}{{{name}}}"
