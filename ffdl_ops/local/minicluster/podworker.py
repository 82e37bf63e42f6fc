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
from ffdl_ops.local.minicluster.containers import Run
from ffdl_ops.local.minicluster.podresources import TERMINAL, is_sidecar
from ffdl_ops.local.minicluster.podstatus import Ending, Observed, build_status, succeeded
from ffdl_ops.local.minicluster.starting import Starter, field_path_of
from ffdl_ops.local.minicluster.store import Object
from ffdl_ops.local.minicluster.termination import termination_message
from ffdl_ops.local.minicluster.times import now_iso, parse_time
from ffdl_ops.local.minicluster.volumes import MountFailed

if TYPE_CHECKING:
    from ffdl_ops.local.minicluster.kubelet import Kubelet

__all__ = ["PodWorker"]

_LOG = logging.getLogger(__name__)
_RETRY_S = 2.0
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
        self._retry_mount_at = 0.0
        self._mounted: dict[str, Path] | None = None
        self._starter = Starter(kubelet, self, self._event, self._at)
        self._messages: dict[tuple[str, int], str] = {}
        self._told: set[tuple[str, int]] = set()
        self._terminated_since: float | None = None
        self._deadline: tuple[str, float] | None = None

    # -- waking --------------------------------------------------------------------------------------------------
    @property
    def waits_for_objects(self) -> bool:
        """Whether a secret or config map that appears may let it go on."""
        return bool(self._starter.waiting) or self._mounted is None

    def retry(self) -> None:
        """Try at once what waits for something missing."""
        self._retry_mount_at = 0.0
        self._starter.retry()
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
            self._kill_all()  # also what was just starting; a lost node's kubelet says nothing of it
            return
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
        ended = [run for kept in runs.values() for run in kept if run.ended]
        messages = {(run.container, run.attempt): self._message(pod, run) for run in ended}
        seen = Observed(runs, self._starter.waiting, messages, ending, finished)
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
        if self._kill_all():
            self._at(time.time() + 0.2)
            return
        self.close()
        self._runtime.forget(self.uid)
        self._kubelet.parts.volumes.remove(self.uid)
        self._kubelet.parts.devices.release(self.uid)
        self._store.drop_fact(f"stop/{self.uid}")
        self._kubelet.forget(self.uid)

    def _kill_all(self) -> bool:
        """Kill what runs; whether something has not ended yet."""
        left = [run for run in self._runtime.of(self.uid) if not run.ended]
        for run in left:
            self._runtime.signal(run, signal.SIGKILL)
        return bool(left)

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
        if time.time() < self._retry_mount_at:
            self._at(self._retry_mount_at)
            return False
        parts = self._kubelet.parts
        try:
            self._mounted = parts.volumes.set_up(pod, self._starter.directories(pod))
        except MountFailed as error:
            self._event(pod, "FailedMount", str(error), kind="Warning")
            self._retry_mount_at = time.time() + _RETRY_S
            self._at(self._retry_mount_at)
            return False
        return True

    def _advance_inits(self, pod: Object) -> str:
        """ "ok" when the main containers may run, "wait", or "failed" for good.

        Once they have begun, a side-car that has ended is started again but holds nothing up.
        """
        begun = any(self._runtime.last(self.uid, one["name"]) for one in pod["spec"]["containers"])
        for container in pod["spec"].get("initContainers") or ():
            run = self._runtime.last(self.uid, container["name"])
            if is_sidecar(container):
                if run is None or run.ended:
                    self._starter.start(pod, container, run, self._mounted or {})
                if not (begun or (run is not None and run.running)):
                    return "wait"
                continue
            if succeeded(run):
                continue
            if run is not None and run.ended and pod["spec"].get("restartPolicy") == "Never":
                return "failed"
            if run is None or run.ended:
                self._starter.start(pod, container, run, self._mounted or {})
            return "wait"
        return "ok"

    def _advance_main(self, pod: Object, container: Mapping[str, Any]) -> bool:
        """Start a main container if it is due; whether it is over for good."""
        if self._over(pod, container["name"]):
            return True
        run = self._runtime.last(self.uid, container["name"])
        if run is None or run.ended:
            self._starter.start(pod, container, run, self._mounted or {})
        return False

    def _over(self, pod: Object, name: str) -> bool:
        """Whether a main container has ended and will not be started again."""
        run, policy = self._runtime.last(self.uid, name), pod["spec"].get("restartPolicy", "Always")
        return run is not None and run.ended and (policy == "Never" or (policy == "OnFailure" and succeeded(run)))

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
                self._event(pod, "Killing", f"Stopping container {name}", field_path=field_path_of(pod, name))
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
        # A short program may have started and ended between two looks: it has been started all the same.
        if run.pid and not marker.exists():
            marker.touch()
            self._event(pod, "Started", f"Started container {name}", field_path=field_path_of(pod, name))

    def _message(self, pod: Object, run: Run) -> str:
        mark = (run.container, run.attempt)
        if mark not in self._messages:
            self._messages[mark] = termination_message(pod, run, self._kubelet.parts.volumes)
        return self._messages[mark]

    def _event(self, pod: Object, reason: str, message: str, *, kind: str = "Normal", field_path: str = "") -> None:
        node = pod["spec"].get("nodeName", "")
        self._kubelet.parts.recorder.record(pod, reason, message, kind=kind, host=node, field_path=field_path)
