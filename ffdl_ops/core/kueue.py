"""Kueue in this platform's words: what marks a gang's pods for it, and what its Workload says of the gang.

A gang is a group of plain pods. Kueue holds the pods back by a scheduling gate until the whole group is there and its quota is
reserved; it keeps a Workload object of the group's name, and tells in its conditions how things stand. Newer versions tell
a precise reason, older ones `Pending` and a sentence; both are read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

__all__ = [
    "GROUP", "GroupState", "GroupStanding", "PodMetadata", "group_name", "kueue_pod_metadata", "standing_of",
    "wait_from_workload",
]  # fmt: skip

GROUP = "kueue.x-k8s.io"
"""The API group of Kueue's objects, and the prefix of its labels."""

_MAX_NAME = 63

# Our wait causes (see `core.scheduling`) by the reason of the condition QuotaReserved=False.
_CAUSES = {
    "WaitingForQuota": "quota",
    "ExceedsMaxQuota": "quota",
    "Pending": "quota",
    "NoMatchingFlavor": "capacity",
    "WaitingForPreemptedWorkloads": "capacity",
    "TopologyPlacementFailed": "fragmentation",
    "PendingEvaluation": "order",
    "WaitingForPodsReady": "order",
    "Waiting": "order",
    "Misconfigured": "closed",
    "Inadmissible": "closed",
    "Suspended": "closed",
    "OnHold": "closed",
    "AdmissionGated": "closed",
}
# What only an administrator can change: waiting alone does not help.
_NEVER = frozenset({"ExceedsMaxQuota", "NoMatchingFlavor", "Misconfigured", "Inadmissible"})
# Our failure classes (see `core.failures`) by the reason of the condition Evicted=True.
_EVICTED = {
    "Preempted": "preempted",
    "FlavorMigration": "preempted",
    "ClusterQueueStopped": "preempted",
    "LocalQueueStopped": "preempted",
    "Deactivated": "preempted",
    "AdmissionCheck": "preempted",
    "PodsReadyTimeout": "startup",
    "NodeFailures": "node_lost",
}


class GroupState(StrEnum):
    """How a gang stands with Kueue."""

    WAITING = "waiting"
    """Its pods are held back."""
    ADMITTED = "admitted"
    """Its pods may be placed on nodes."""
    READY = "ready"
    """All its pods run (or have succeeded)."""
    EVICTED = "evicted"
    """Kueue has taken its quota back and deletes its pods."""
    FINISHED = "finished"
    """It holds nothing any more."""


@dataclass(frozen=True)
class PodMetadata:
    """What a pod carries so that Kueue takes care of it."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True)
class GroupStanding:
    """What Kueue says of a gang.

    :param cause: while it waits, one of our wait causes; once it is evicted, one of our failure classes.
    :param message: one sentence for a person.
    :param reason: Kueue's own word.
    :param never: whether it waits for something that only an administrator can change.
    :param since: when this became so, if Kueue says it.
    :param numbers: the same facts for programs.
    """

    state: GroupState
    cause: str | None = None
    message: str = ""
    reason: str = ""
    never: bool = False
    since: datetime | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)


def group_name(job_id: str, attempt: int) -> str:
    """The group, and the Workload, of one attempt: a pod that failed is never replaced within its group."""
    return f"{job_id}-a{attempt}"


def kueue_pod_metadata(queue: str, *, group: str | None = None, count: int = 1) -> PodMetadata:
    """The labels and annotations of one pod.

    :param queue: the LocalQueue of the pod's namespace.
    :param group: the group that it belongs to, the same on all its pods; ``None`` for a pod by itself.
    :param count: how many pods the group has; it is admitted when all are there.
    :raises ValueError: for a group that Kueue would refuse.
    """
    labels = {f"{GROUP}/queue-name": queue}
    if group is None:
        return PodMetadata(labels, {})
    if len(group) > _MAX_NAME or count < 1:
        raise ValueError(
            f"group {group!r} of {count} pods: the name has {_MAX_NAME} characters at most, and it has 1 pod"
        )
    labels[f"{GROUP}/pod-group-name"] = group
    # Not retriable: an attempt's group ends with its pods and frees its quota, even if some of them failed.
    annotations = {f"{GROUP}/pod-group-total-count": str(count), f"{GROUP}/retriable-in-group": "false"}
    return PodMetadata(labels, annotations)


def wait_from_workload(workload: Mapping[str, Any] | None) -> GroupStanding | None:
    """Why a gang waits; ``None`` when it does not (any more).

    :param workload: the group's Workload as the API gives it; ``None`` while Kueue has not made it.
    """
    standing = standing_of(workload)
    return standing if standing.state is GroupState.WAITING else None


def standing_of(workload: Mapping[str, Any] | None) -> GroupStanding:
    """How a gang stands.

    :param workload: as for :func:`wait_from_workload`.
    """
    if workload is None:
        return _waiting("order", "", "Kueue has not taken up the gang yet; it does when all its pods are there.", None)
    conditions = {one["type"]: one for one in (workload.get("status") or {}).get("conditions") or ()}
    finished = _true(conditions, "Finished")
    if finished:
        return _told(GroupState.FINISHED, finished)
    evicted = _true(conditions, "Evicted")
    reserved = conditions.get("QuotaReserved")
    # Evicted stays true while the gang waits for its next admission; ours ends here, its next attempt is another group.
    if evicted:
        return _evicted(evicted, _true(conditions, "Preempted"))
    if reserved is None:
        return _unseen(workload)
    if reserved.get("status") != "True":
        return _unreserved(workload, reserved)
    if not _true(conditions, "Admitted"):
        return _unchecked(workload, reserved)
    ready = _true(conditions, "PodsReady")
    return _told(GroupState.READY, ready) if ready else _told(GroupState.ADMITTED, conditions["Admitted"])


def _unseen(workload: Mapping[str, Any]) -> GroupStanding:
    """No condition yet: a queue that is served strictly in order looks at its head alone."""
    made = _time((workload.get("metadata") or {}).get("creationTimestamp"))
    return _waiting("order", "", f"Others in queue {_queue(workload)} go first; Kueue has not looked at it yet.", made)


def _unreserved(workload: Mapping[str, Any], condition: Mapping[str, Any]) -> GroupStanding:
    reason, text = str(condition.get("reason", "")), _sentence(condition)
    cause, never = _CAUSES.get(reason, "quota"), reason in _NEVER
    if reason == "Pending":
        cause, never = _from_words(text)
    message = f"Queue {_queue(workload)}: {text}"
    if never:
        message += " It never starts unless an administrator changes the queue, or the job asks for less."
    return _waiting(cause, reason, message, _time(condition.get("lastTransitionTime")), never, _numbers(workload))


def _from_words(text: str) -> tuple[str, bool]:
    """Cause, and whether waiting can't help, of an older version's sentence."""
    if "topology" in text:
        return "fragmentation", False
    if "preemption of" in text:
        return "capacity", False
    return "quota", "maximum capacity" in text


def _unchecked(workload: Mapping[str, Any], reserved: Mapping[str, Any]) -> GroupStanding:
    """The quota is reserved; what is checked beyond it (new nodes being started, say) is not through."""
    checks = (workload.get("status") or {}).get("admissionChecks") or ()
    named = [
        f"{one.get('name')} ({one.get('state')})" + (f": {one['message']}" if one.get("message") else "")
        for one in checks
        if one.get("state") != "Ready"
    ]
    what = "; ".join(named) or "its admission checks"
    message = f"Queue {_queue(workload)}: its quota is reserved; it waits for {what}."
    since = _time(reserved.get("lastTransitionTime"))
    return _waiting("capacity", "UnsatisfiedAdmissionChecks", message, since, False, _numbers(workload))


def _evicted(condition: Mapping[str, Any], preempted: Mapping[str, Any] | None) -> GroupStanding:
    reason = str(condition.get("reason", ""))
    # Kueue may qualify a reason: `DeactivatedDueToMaximumExecutionTimeExceeded`.
    base = next((one for one in _EVICTED if reason.startswith(one)), "")
    words = _sentence(condition)
    if preempted and _sentence(preempted) != words:
        words = f"{words} {_sentence(preempted)}"
    since = _time(condition.get("lastTransitionTime"))
    return GroupStanding(GroupState.EVICTED, _EVICTED.get(base, "preempted"), words, reason, since=since)


def _told(state: GroupState, condition: Mapping[str, Any]) -> GroupStanding:
    since = _time(condition.get("lastTransitionTime"))
    return GroupStanding(state, None, _sentence(condition), str(condition.get("reason", "")), since=since)


def _waiting(
    cause: str, reason: str, message: str, since: datetime | None, never: bool = False,
    numbers: Mapping[str, Any] | None = None,
) -> GroupStanding:  # fmt: skip
    return GroupStanding(GroupState.WAITING, cause, message, reason, never, since, numbers or {})


def _numbers(workload: Mapping[str, Any]) -> dict[str, Any]:
    status = workload.get("status") or {}
    requeue = status.get("requeueState") or {}
    known = {
        "queue": _queue(workload),
        "pods": sum(int(one.get("count") or 0) for one in (workload.get("spec") or {}).get("podSets") or ()),
        "cluster_queue": (status.get("admission") or {}).get("clusterQueue"),
        "requeued": requeue.get("count"),
        "requeue_at": requeue.get("requeueAt"),
    }
    return {key: value for key, value in known.items() if value is not None}


def _queue(workload: Mapping[str, Any]) -> str:
    return str((workload.get("spec") or {}).get("queueName") or "(none)")


def _true(conditions: Mapping[str, Mapping[str, Any]], kind: str) -> Mapping[str, Any] | None:
    found = conditions.get(kind)
    return found if found and found.get("status") == "True" else None


def _sentence(condition: Mapping[str, Any]) -> str:
    """A condition's message as one sentence; its reason when it has none."""
    text = " ".join(str(condition.get("message") or condition.get("reason") or "no reason given").split())
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None
