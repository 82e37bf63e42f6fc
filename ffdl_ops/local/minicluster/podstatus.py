"""A pod's status, from what its containers did. Pure: everything is passed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ffdl_ops.local.minicluster.containers import LOST, Run
from ffdl_ops.local.minicluster.podresources import is_sidecar
from ffdl_ops.local.minicluster.times import iso, now_iso

__all__ = ["Ending", "Observed", "Waiting", "build_status", "succeeded", "terminated_state", "with_condition"]

Status = dict[str, Any]


@dataclass(frozen=True)
class Waiting:
    """Why a container does not run (yet).

    :param reason: "ContainerCreating", "ErrImagePull", …
    :param message: more of it.
    """

    reason: str
    message: str = ""


@dataclass(frozen=True)
class Ending:
    """Why a pod is being stopped, when it did not end by itself.

    :param reason: the pod's reason ("Evicted", "DeadlineExceeded", …); empty when it was deleted.
    :param message: the pod's message.
    """

    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class Observed:
    """What is known of a pod's containers.

    :param runs: by container, its kept runs, the newest last.
    :param waiting: by container, why it waits.
    :param messages: by container and attempt, the termination message.
    :param ending: why the pod is stopped, if it is.
    :param finished: whether nothing of it runs and nothing will.
    """

    runs: Mapping[str, Sequence[Run]]
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
    messages: Mapping[tuple[str, int], str] = field(default_factory=dict)
    ending: Ending | None = None
    finished: bool = False


def with_condition(status: Mapping[str, Any], kind: str, value: str, reason: str = "", message: str = "") -> Status:
    """A status with one condition set; the transition time moves only when the condition's status does."""
    conditions = list(status.get("conditions") or ())
    fresh: dict[str, Any] = {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": now_iso()}
    if reason:
        fresh["reason"] = reason
    if message:
        fresh["message"] = message
    for index, old in enumerate(conditions):
        if old["type"] == kind:
            if old["status"] == value:
                fresh["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[index] = fresh
            break
    else:
        conditions.append(fresh)
    return {**status, "conditions": conditions}


def succeeded(run: Run | None) -> bool:
    """Whether a run ended well."""
    return run is not None and run.exit is not None and run.exit["code"] == 0


def terminated_state(run: Run, message: str = "") -> Status:
    """The ``terminated`` state of a run that has ended."""
    ending = run.exit or {}
    code = int(ending.get("code", 0))
    reason = "Completed" if code == 0 else "Error"
    if ending.get("lost"):
        reason, message = "ContainerStatusUnknown", LOST
    elif ending.get("error"):
        reason = "StartError"
        message = f"failed to create containerd task: failed to create shim task: {ending['error']}: unknown"
    elif run.oom:
        reason = "OOMKilled"
    state = {
        "exitCode": code, "reason": reason, "startedAt": iso(ending.get("started") or 0),
        "finishedAt": iso(ending.get("finished") or 0), "containerID": run.identifier,
    }  # fmt: skip
    if message:
        state["message"] = message
    return {"terminated": state}


def _message(seen: Observed, run: Run) -> str:
    return seen.messages.get((run.container, run.attempt), "")


def _container_status(container: Mapping[str, Any], seen: Observed, is_init: bool) -> Status:
    name = container["name"]
    runs = seen.runs.get(name) or ()
    run = runs[-1] if runs else None
    waiting = seen.waiting.get(name)
    last: Status = {}
    if len(runs) > 1:
        last = terminated_state(runs[-2], _message(seen, runs[-2]))
    if run is None or not (run.running or run.ended):
        reason = waiting or Waiting("PodInitializing" if not is_init and seen.runs else "ContainerCreating")
        state: Status = {"waiting": _waiting(reason)}
    elif run.running:
        state = {"running": {"startedAt": iso(run.started)}}
    elif waiting is not None:
        state, last = {"waiting": _waiting(waiting)}, terminated_state(run, _message(seen, run))
    else:
        state = terminated_state(run, _message(seen, run))
    running = "running" in state
    done = is_init and not is_sidecar(container) and succeeded(run)
    return {
        "name": name, "state": state, "lastState": last, "ready": running and (not is_init or is_sidecar(container)) or done,
        "restartCount": run.attempt if run else 0, "image": container["image"],
        "imageID": f"minicluster://{container['image']}" if run else "",
        "started": running, **({"containerID": run.identifier} if run and (run.running or run.ended) else {}),
    }  # fmt: skip


def _waiting(waiting: Waiting) -> Status:
    return {"reason": waiting.reason, **({"message": waiting.message} if waiting.message else {})}


def _phase(pod: Mapping[str, Any], seen: Observed) -> str:
    spec = pod["spec"]
    mains = [runs[-1] if (runs := seen.runs.get(one["name"])) else None for one in spec["containers"]]
    if seen.finished:
        if seen.ending is not None and seen.ending.reason:
            return "Failed"
        return "Succeeded" if all(succeeded(run) for run in mains) else "Failed"
    started = any(run is not None and (run.running or run.ended) for run in mains)
    return "Running" if started else "Pending"


def build_status(pod: Mapping[str, Any], seen: Observed) -> Status:
    """The pod's whole status."""
    spec, before = pod["spec"], dict(pod.get("status") or {})
    inits = [_container_status(one, seen, True) for one in spec.get("initContainers") or ()]
    mains = [_container_status(one, seen, False) for one in spec["containers"]]
    status: Status = {**before, "phase": _phase(pod, seen), "containerStatuses": mains}
    if inits:
        status["initContainerStatuses"] = inits
    if seen.ending is not None and seen.ending.reason and seen.finished:
        status |= {"reason": seen.ending.reason, "message": seen.ending.message}
    return _conditions(pod, status, seen)


def _conditions(pod: Mapping[str, Any], status: Status, seen: Observed) -> Status:
    inits = pod["spec"].get("initContainers") or ()
    done = {one["name"]: one["ready"] for one in status.get("initContainerStatuses") or ()}
    pending = [one["name"] for one in inits if not done.get(one["name"])]
    phase = status["phase"]
    finished = phase in ("Succeeded", "Failed")
    any_started = any(run.running or run.ended for runs in seen.runs.values() for run in runs)
    started = "True" if any_started and not finished else "False"
    status = with_condition(status, "PodReadyToStartContainers", started)
    if (
        pending
        and not (finished and phase == "Succeeded")
        and any("waiting" in one["state"] for one in status["containerStatuses"])
    ):
        names = " ".join(pending)
        text = f"containers with incomplete status: [{names}]"
        status = with_condition(status, "Initialized", "False", "ContainersNotInitialized", text)
    else:
        reason = "PodCompleted" if phase == "Succeeded" else ""
        status = with_condition(status, "Initialized", "True", reason)
    unready = [one["name"] for one in status["containerStatuses"] if not one["ready"]]
    if not unready and not finished:
        return with_condition(with_condition(status, "ContainersReady", "True"), "Ready", "True")
    reason, text = "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    if finished:
        reason, text = ("PodCompleted", "") if phase == "Succeeded" else ("PodFailed", "")
    status = with_condition(status, "Ready", "False", reason, text)
    return with_condition(status, "ContainersReady", "False", reason, text)
