"""Pods and nodes as plain facts, so that the layers above never touch a Kubernetes object.

A pod is judged by what it says itself: its phase, its reason, its containers' states. A pod that failed before any
container ran has no container statuses at all (`OutOfmemory`, `UnexpectedAdmissionError`), and one whose child was
killed for memory may still say `Succeeded`; both are facts that this module keeps and the core classifies.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ffdl_ops.core.failures.evidence import LearnerEvidence
from ffdl_ops.core.jobs.units import parse_cpu, parse_memory
from ffdl_ops.core.scheduling.model import NodeView

if TYPE_CHECKING:
    from kubernetes import client as k8s

__all__ = ["PodView", "evidence_of", "gone_evidence", "node_view", "pod_view"]

GPU_RESOURCE = "nvidia.com/gpu"
GPU_TYPE_LABEL = "ffdl.dev/gpu-type"
RACK_LABEL = "ffdl.dev/rack"
_IMAGE_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


@dataclass(frozen=True)
class PodView:
    """One pod at one moment.

    :param main: name of the container whose end is the pod's end (a side-car may outlive it for a moment).
    :param started: when that container started running, if it did.
    :param exit_code: that container's exit code, once it has ended.
    :param container_reason: its termination reason ("Error", "OOMKilled", …).
    :param waiting: why a container can't start (image, configuration), if one can't.
    :param unschedulable: the scheduler's own words while no node takes the pod.
    :param failed_init: name and exit code of an init container that ended the pod, if one did.
    :param message: the ended container's termination message.
    """

    name: str
    namespace: str
    uid: str
    rank: int
    attempt: int
    phase: str
    node: str | None
    created: datetime | None
    main: str
    running: bool
    started: datetime | None
    exit_code: int | None
    signal: int | None
    container_reason: str | None
    finished: datetime | None
    message: str | None
    oom: bool
    pod_reason: str | None
    pod_message: str | None
    waiting: str | None
    waiting_is_image: bool
    unschedulable: str | None
    failed_init: tuple[str, int] | None
    terminating: bool
    memory_limit: str | None
    disrupted: str | None = None

    @property
    def ended(self) -> bool:
        """Whether the main container, or the whole pod, has come to its end."""
        return self.phase in ("Succeeded", "Failed") or self.exit_code is not None

    @property
    def succeeded(self) -> bool:
        """Whether it ended well: exit code 0, and nothing in it was killed for memory."""
        return self.exit_code == 0 and not self.oom and self.phase != "Failed"


def pod_view(pod: k8s.V1Pod, main: str = "learner") -> PodView:
    """What a pod says of itself.

    :param main: the container whose end counts.
    """
    status, metadata = pod.status, pod.metadata
    labels = metadata.labels or {}
    containers = list(status.container_statuses or [])
    inits = list(status.init_container_statuses or [])
    state = next((entry.state for entry in containers if entry.name == main), None)
    ended = state.terminated if state else None
    running = state.running if state else None
    waiting, is_image = _stuck(containers + inits)
    sidecars = {entry.name for entry in pod.spec.init_containers or [] if entry.restart_policy == "Always"}
    failed_init = next(
        (
            (entry.name, int(entry.state.terminated.exit_code))
            for entry in inits
            if entry.name not in sidecars
            and entry.state
            and entry.state.terminated
            and entry.state.terminated.exit_code
        ),
        None,
    )
    message = ended.message if ended else None
    if failed_init and message is None:
        message = next(entry.state.terminated.message for entry in inits if entry.name == failed_init[0])
    unschedulable = disrupted = None
    for condition in status.conditions or []:
        if condition.type == "PodScheduled" and condition.status == "False":
            unschedulable = condition.message or condition.reason
        if condition.type == "DisruptionTarget" and condition.status == "True":
            disrupted = condition.reason
    limit = next(
        (
            (entry.resources.limits or {}).get("memory")
            for entry in pod.spec.containers
            if entry.name == main and entry.resources
        ),
        None,
    )
    return PodView(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        rank=int(labels.get("ffdl.dev/rank", "0")),
        attempt=int(labels.get("ffdl.dev/attempt", "0")),
        phase=status.phase or "Pending",
        node=pod.spec.node_name,
        created=metadata.creation_timestamp,
        main=main,
        running=running is not None,
        started=running.started_at if running else (ended.started_at if ended else None),
        exit_code=int(ended.exit_code) if ended else None,
        signal=int(ended.signal) if ended and ended.signal else None,
        container_reason=ended.reason if ended else None,
        finished=ended.finished_at if ended else None,
        message=message,
        oom=any(
            entry.state and entry.state.terminated and entry.state.terminated.reason == "OOMKilled"
            for entry in containers
        ),
        pod_reason=status.reason,
        pod_message=status.message,
        waiting=waiting,
        waiting_is_image=is_image,
        unschedulable=unschedulable,
        failed_init=failed_init,
        terminating=metadata.deletion_timestamp is not None,
        memory_limit=limit,
        disrupted=disrupted,
    )


def _stuck(statuses: list[k8s.V1ContainerStatus]) -> tuple[str | None, bool]:
    """Why a container of the pod can't start, and whether its image is the reason."""
    for entry in statuses:
        blocked = entry.state.waiting if entry.state else None
        if blocked and blocked.reason in _IMAGE_REASONS | _CONFIG_REASONS:
            text = f"{blocked.reason}: {blocked.message or entry.image}"
            return text, blocked.reason in _IMAGE_REASONS
    return None, False


def evidence_of(view: PodView) -> LearnerEvidence:
    """A learner's end as evidence for the classification."""
    reason, exit_code = view.container_reason, view.exit_code
    message = view.pod_message
    if view.failed_init:
        reason, exit_code = f"Init:{view.failed_init[0]}", view.failed_init[1]
        message = _helper_error(view.message) or message
    elif exit_code is None and view.waiting:
        reason, message = view.waiting.split(":", 1)[0], view.waiting
    elif exit_code is None and view.unschedulable:
        reason, message = "Unschedulable", view.unschedulable
    return LearnerEvidence(
        rank=view.rank,
        pod=view.name,
        node=view.node,
        phase=view.phase,
        pod_reason=view.pod_reason or view.disrupted,
        pod_message=message,
        container_reason=reason,
        exit_code=exit_code,
        signal=view.signal,
        oom=view.oom,
        exit_report=_json(view.message),
        deleted=False,
        memory_limit=view.memory_limit,
    )


def gone_evidence(rank: int, name: str, node: str | None) -> LearnerEvidence:
    """The evidence of a pod that vanished although nobody here deleted it."""
    return LearnerEvidence(
        rank=rank,
        pod=name,
        node=node,
        phase="Unknown",
        pod_reason=None,
        pod_message="The pod is gone from the cluster and nothing of this platform deleted it.",
        container_reason=None,
        exit_code=None,
        signal=None,
        oom=False,
        exit_report=None,
        deleted=True,
        memory_limit=None,
    )


def _json(text: str | None) -> Mapping[str, Any] | None:
    """A termination message that is a JSON object, or ``None``."""
    try:
        value = json.loads(text or "")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _helper_error(text: str | None) -> str | None:
    """The error that a staging helper left in its termination message."""
    report = _json(text)
    return str(report["error"]) if report and report.get("error") else text


def node_view(node: k8s.V1Node, rack_label: str = RACK_LABEL) -> NodeView:
    """A node as the scheduler sees it: what it can give in all, not what is free.

    :param rack_label: the label that says in which rack it stands.
    """
    labels = dict(node.metadata.labels or {})
    allocatable = node.status.allocatable or node.status.capacity or {}
    ready = any(entry.type == "Ready" and entry.status == "True" for entry in node.status.conditions or [])
    tainted = any(
        taint.effect in ("NoSchedule", "NoExecute") and taint.key != GPU_RESOURCE for taint in node.spec.taints or []
    )
    gpus = int(allocatable.get(GPU_RESOURCE, "0"))
    return NodeView(
        name=node.metadata.name,
        gpu_type=labels.get(GPU_TYPE_LABEL) if gpus else None,
        gpus=gpus,
        cpu_millis=parse_cpu(allocatable.get("cpu", "0")),
        memory_bytes=parse_memory(allocatable.get("memory", "0")),
        ready=ready,
        schedulable=not node.spec.unschedulable and not tainted,
        labels=labels,
        rack=labels.get(rack_label, ""),
    )
