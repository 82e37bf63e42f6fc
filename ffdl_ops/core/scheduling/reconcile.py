"""What jobs hold, compared with what lives: leases that nobody gave back, pods that hold GPUs without a lease.

A GPU is free when its pod is confirmed gone, not before; and held only as long as a job is there that uses it. The stages see to
both; this finds what they could not, since a part of the platform was lost at the wrong moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

__all__ = ["Correction", "HeldLease", "LivingPod", "Standing", "What", "corrections"]


class What(StrEnum):
    """What is to be done."""

    STOP = "stop"
    """Delete the job's pods; nothing is given back before they are gone."""
    RELEASE = "release"
    """Give the lease back."""
    DEQUEUE = "dequeue"
    """Take the job out of the queue."""


@dataclass(frozen=True)
class HeldLease:
    """A live lease.

    :param preempted_at: when its job was told to stop, if it was.
    """

    job_id: str
    epoch: int
    granted_at: datetime
    preempted_at: datetime | None = None


@dataclass(frozen=True)
class LivingPod:
    """A learner that the cluster still has."""

    job_id: str
    name: str
    created: datetime


@dataclass(frozen=True)
class Standing:
    """How a job stands.

    :param over: whether it has ended, or its run has (nobody will do anything for it any more).
    :param since: since when it stands so.
    """

    over: bool
    since: datetime


@dataclass(frozen=True)
class Correction:
    """One thing to be put right.

    :param epoch: of the lease, when it is about one.
    """

    what: What
    job_id: str
    words: str
    epoch: int | None = None


def corrections(
    leases: Iterable[HeldLease],
    pods: Iterable[LivingPod],
    queued: Iterable[str],
    jobs: Mapping[str, Standing],
    now: datetime,
    patience: timedelta,
) -> list[Correction]:
    """What is to be put right.

    :param queued: ids of the jobs that wait.
    :param jobs: how jobs stand; one that is not in it is not known any more.
    :param patience: how long things may be as they are: the stages may be about to do it themselves.
    """
    held = {lease.job_id: lease for lease in leases}
    living: dict[str, list[LivingPod]] = {}
    for pod in pods:
        living.setdefault(pod.job_id, []).append(pod)
    found: list[Correction] = []
    for job_id, mine in sorted(living.items()):
        old = [pod for pod in mine if now - pod.created >= patience]
        names = ", ".join(sorted(pod.name for pod in old))
        if old and job_id not in held:
            found.append(Correction(What.STOP, job_id, f"{names} hold GPUs without a lease"))
        elif old and _over(jobs.get(job_id), now, patience):
            found.append(Correction(What.STOP, job_id, f"{names} live on though the job has ended"))
    for job_id, lease in sorted(held.items()):
        if job_id in living:
            if lease.preempted_at is not None and now - lease.preempted_at >= patience:
                words = "it was told to stop and nobody stopped it"
                found.append(Correction(What.STOP, job_id, words, lease.epoch))
        elif now - lease.granted_at >= patience and _over(jobs.get(job_id), now, patience):
            words = f"lease {lease.epoch} was held though the job has ended and nothing of it lives"
            found.append(Correction(What.RELEASE, job_id, words, lease.epoch))
    for job_id in sorted(queued):
        if _over(jobs.get(job_id), now, patience):
            found.append(Correction(What.DEQUEUE, job_id, "it waited though the job has ended"))
    return found


def _over(job: Standing | None, now: datetime, patience: timedelta) -> bool:
    return job is None or (job.over and now - job.since >= patience)
