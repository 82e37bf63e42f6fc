"""Housekeeping: what jobs hold is brought to what lives, and every correction is told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ffdl_ops.core.jobs.ids import namespace as namespace_of
from ffdl_ops.core.jobs.states import TERMINAL
from ffdl_ops.core.scheduling.reconcile import Correction, HeldLease, LivingPod, Standing, What, corrections
from ffdl_ops.pipeline.admission import places_are_free
from ffdl_ops.pipeline.services import Services, now

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord

__all__ = ["ACTOR", "PATIENCE", "reconcile"]

ACTOR = "housekeeping"
PATIENCE = timedelta(seconds=120)
"""Longer than a stage takes to be tried again, and than learners may take to stop."""
_LEARNERS = "ffdl.dev/job,ffdl.dev/attempt"
_ENDED_RUNS = frozenset({"success", "failed"})


def reconcile(svc: Services, patience: timedelta = PATIENCE) -> list[str]:
    """Put right what the stages could not, then let those start who fit now.

    :param patience: how long things may be as they are: the stages may be about to do it themselves.
    :returns: what was corrected, a line each; each is in the audit, too.
    """
    moment = now()
    patience = max(patience, timedelta(seconds=svc.platform.timeouts.grace_seconds))
    leases = [HeldLease(one.job_id, one.epoch, one.granted_at, one.preempted_at) for one in svc.ledger.live_leases()]
    pods = list(_living(svc))
    queued = [one.request.job_id for one in svc.ledger.queue()]
    concerned = {one.job_id for one in leases} | {one.job_id for one in pods} | set(queued)
    jobs = {job_id: job for job_id in concerned if (job := svc.ledger.job(job_id)) is not None}
    standings = {job_id: _standing(svc, job, moment, patience) for job_id, job in jobs.items()}
    done = []
    for one in corrections(leases, pods, queued, standings, moment, patience):
        if _correct(svc, one, pods):
            tenant = jobs[one.job_id].tenant if one.job_id in jobs else None
            svc.ledger.audit(ACTOR, one.what.value, moment, one.words, tenant=tenant, job_id=one.job_id)
            done.append(f"{one.job_id}: {one.words}; {_DONE[one.what]}")
    places_are_free(svc)
    return done


_DONE = {What.STOP: "its pods were stopped", What.RELEASE: "it was given back", What.DEQUEUE: "it was taken out"}


def _living(svc: Services) -> Iterator[LivingPod]:
    for tenant in svc.settings.tenants:
        for pod in svc.cluster.pods(namespace_of(tenant.name), _LEARNERS):
            labels = pod.metadata.labels or {}
            created = pod.metadata.creation_timestamp
            yield LivingPod(labels["ffdl.dev/job"], f"{pod.metadata.namespace}/{pod.metadata.name}", created)


def _standing(svc: Services, job: JobRecord, moment: datetime, patience: timedelta) -> Standing:
    if job.state in TERMINAL:
        return Standing(True, job.updated_at)
    if moment - job.updated_at < patience:
        return Standing(False, job.updated_at)
    # Airflow is asked only for those that have not moved for a while.
    return Standing(svc.airflow.run_state(job.dag_id, job.run_id) in (*_ENDED_RUNS, None), job.updated_at)


def _correct(svc: Services, one: Correction, pods: list[LivingPod]) -> bool:
    """Do it; whether there was anything left to do."""
    if one.what is What.RELEASE and one.epoch is not None:
        return svc.ledger.release_lease(one.job_id, one.epoch, one.words, now())
    if one.what is What.DEQUEUE:
        return svc.ledger.dequeue(one.job_id, now(), one.words)
    for pod in pods:
        if pod.job_id == one.job_id:
            namespace, _, name = pod.name.partition("/")
            svc.cluster.delete_pod(namespace, name)
    return True
