"""How a learner ended, as facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["LearnerEvidence"]


@dataclass(frozen=True)
class LearnerEvidence:
    """One learner at the moment its gang's attempt ended; it may still have been running.

    :param rank: counts from 0.
    :param pod: its name.
    :param node: where it ran, if it was placed.
    :param phase: the pod's phase.
    :param pod_reason: the pod's own reason, or why the cluster disrupted it ("Evicted", "NodeLost", …).
    :param pod_message: the words that go with it.
    :param container_reason: why its container ended ("Error", "OOMKilled", "Init:prepare") or can't start
        ("ImagePullBackOff", "Unschedulable").
    :param exit_code: of the learner's container, or of the init container that ended the pod.
    :param signal: that ended it, if the cluster says so.
    :param oom: whether a container of the pod was killed for memory, whatever its exit code.
    :param exit_report: what the launcher wrote about the end.
    :param deleted: whether the pod was gone though nothing of this platform had deleted it.
    :param memory_limit: as the pod has it, like "2Gi".
    """

    rank: int
    pod: str
    node: str | None
    phase: str
    pod_reason: str | None
    pod_message: str | None
    container_reason: str | None
    exit_code: int | None
    signal: int | None
    oom: bool
    exit_report: Mapping[str, Any] | None
    deleted: bool
    memory_limit: str | None
