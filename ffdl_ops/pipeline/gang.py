"""A gang's life on the cluster: started whole, watched as one, stopped whole, judged once.

Each function may be called twice, by a task or by a trigger, before or after a crash of either: what an attempt's end was
is written once in the ledger, and a pod is addressed by its UID.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.cluster.client import ClusterRefused
from ffdl_ops.adapters.cluster.gang import (
    GangSpec,
    gang_selector,
    gang_service,
    learner_pod,
    learner_template,
)
from ffdl_ops.adapters.cluster.observe import PodView, node_view, pod_view
from ffdl_ops.core.failures.budgets import GiveUp, restart_or_fail
from ffdl_ops.core.failures.classes import FailureClass
from ffdl_ops.core.failures.classify import Failure, classify
from ffdl_ops.core.failures.reasons import ADVICE
from ffdl_ops.core.jobs.ids import namespace as namespace_of
from ffdl_ops.core.jobs.ids import pod_name
from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.core.jobs.states import JobState
from ffdl_ops.pipeline.admission import places_are_free
from ffdl_ops.pipeline.judge import Expected, GangState, Verdict, judge
from ffdl_ops.pipeline.services import Services, now
from ffdl_ops.pipeline.staging import data_dir_of, data_secret_of, stage_spec

if TYPE_CHECKING:
    from datetime import datetime

    from kubernetes import client as k8s

    from ffdl_ops.adapters.ledger import AttemptRecord, JobRecord, LeaseRecord

__all__ = [
    "GangEnd", "after_failure", "finish", "launch", "look", "newest_saved_at", "preempted", "spec_of", "stop_learners",
    "training_done",
]  # fmt: skip

_BASE_PORT = 20_000
_PORTS_PER_GANG = 64
_PORT_RANGES = 200
_SUCCESS_GRACE_S = 5
_GONE_MARGIN_S = 30


@dataclass(frozen=True)
class GangEnd:
    """What follows from an attempt's end.

    :param kind: "succeeded"; "restart" (on the same lease); "readmit" (a new lease first); "failed" (for good).
    :param failure: the failure, unless it succeeded.
    :param delay_s: seconds to wait before the next attempt.
    """

    kind: str
    failure: Mapping[str, Any] | None = None
    delay_s: float = 0.0


def training_done(svc: Services, job: JobRecord) -> bool:
    """Whether the job's newest attempt trained to its end."""
    attempts = svc.ledger.attempts(job.job_id)
    return bool(attempts) and attempts[-1].outcome == "succeeded"


def spec_of(svc: Services, job: JobRecord, attempt: AttemptRecord) -> GangSpec:
    """The specification of one attempt's pods."""
    manifest = load_manifest(job.manifest)
    return GangSpec(
        job_id=job.job_id,
        tenant=job.tenant,
        manifest=manifest,
        attempt=attempt.number,
        learners=attempt.learners,
        base_port=attempt.base_port,
        stage_spec=stage_spec(svc, job, attempt=attempt.number, learners=attempt.learners),
        data_dir=data_dir_of(job),
        restored=attempt.restored_generation,
        data_secret=data_secret_of(manifest),
    )


def launch(
    svc: Services,
    job: JobRecord,
    lease: LeaseRecord,
    build: Callable[[k8s.V1Pod], k8s.V1Pod],
) -> AttemptRecord:
    """Create the gang's pods under a lease: all of them, or none.

    :param build: turns the gang's template into the pod that the operator would launch (labels of the run, hooks).
    :raises QuotaExceeded: when the cluster's own quota leaves no room; what was created is removed.
    """
    cluster = svc.cluster
    attempt = _begin(svc, job, lease)
    spec = spec_of(svc, job, attempt)
    nodes = {placement.rank: placement.node for placement in lease.placements}
    template = build(learner_template(spec, svc.platform))
    svc.advance(job.job_id, JobState.DEPLOYING, f"attempt {attempt.number}")
    cluster.create_service(gang_service(spec))
    created: dict[int, tuple[str, str, str | None]] = {}
    try:
        for rank in range(attempt.learners):
            pod = cluster.create_pod(learner_pod(template, spec, rank, nodes.get(rank)))
            created[rank] = (pod.metadata.name, pod.metadata.uid, nodes.get(rank))
    except ClusterRefused as refusal:
        stop_learners(svc, job, grace_s=0)
        # No class: what the cluster refused to start has used up none of the job's retries.
        svc.ledger.end_attempt(job.job_id, attempt.number, "refused", {"summary": str(refusal)}, now())
        raise
    svc.ledger.record_pods(job.job_id, attempt.number, created)
    return svc.ledger.open_attempt(job.job_id) or attempt


def _begin(svc: Services, job: JobRecord, lease: LeaseRecord) -> AttemptRecord:
    """The attempt under this lease; one that an earlier lease has left open is ended first."""
    stale = svc.ledger.open_attempt(job.job_id)
    if stale is not None and stale.lease_epoch != lease.epoch:
        stop_learners(svc, job)
        svc.ledger.end_attempt(job.job_id, stale.number, "lost", {"summary": "its lease was lost"}, now())
    return svc.ledger.begin_attempt(
        job.job_id,
        lease.epoch,
        len(lease.placements),
        _BASE_PORT + (lease.epoch % _PORT_RANGES) * _PORTS_PER_GANG,
        _newest_generation(svc, job),
        now(),
    )


def look(svc: Services, job: JobRecord, attempt: AttemptRecord) -> tuple[Verdict, list[PodView]]:
    """Look at an attempt's pods and judge them; moves the job to PROCESSING once all its learners run."""
    namespace = namespace_of(job.tenant)
    views = [pod_view(pod) for pod in svc.cluster.pods(namespace, gang_selector(job.job_id, attempt.number))]
    expected = {rank: Expected(pod["pod"], pod["uid"], pod["node"]) for rank, pod in attempt.pods.items()} or {
        rank: Expected(pod_name(job.job_id, attempt.number, rank), "", None) for rank in range(attempt.learners)
    }
    verdict = judge(views, expected, started_at=attempt.started_at, now=now(), timeouts=svc.platform.timeouts)
    # A short program may have ended before anybody looked: it has run all the same.
    if verdict.state in (GangState.RUNNING, GangState.SUCCEEDED) and job.state != JobState.PROCESSING:
        svc.advance(job.job_id, JobState.PROCESSING, verdict.detail)
    return verdict, views


def stop_learners(svc: Services, job: JobRecord, *, grace_s: int | None = None, wait: bool = True) -> bool:
    """Stop every learner of the job and wait until the cluster has none left.

    :param grace_s: seconds between SIGTERM and SIGKILL; ``None`` is the pods' own.
    :returns: whether all are confirmed gone; only then may the lease be released.
    """
    namespace = namespace_of(job.tenant)
    limit_s = (svc.platform.timeouts.grace_seconds if grace_s is None else grace_s) + _GONE_MARGIN_S
    deadline = time.monotonic() + limit_s
    asked: set[str] = set()
    while True:
        living = svc.cluster.pods(namespace, gang_selector(job.job_id))
        for pod in living:
            if pod.metadata.uid not in asked:
                svc.cluster.delete_pod(namespace, pod.metadata.name, uid=pod.metadata.uid, grace_s=grace_s)
                asked.add(pod.metadata.uid)
        if not living:
            return True
        if not wait or time.monotonic() > deadline:
            return False
        time.sleep(0.1)


def finish(svc: Services, job: JobRecord, attempt: AttemptRecord, verdict: Verdict) -> GangEnd:
    """Bring an attempt to its end: stop what is left of it, write its outcome, free its lease if nothing needs it.

    :returns: what follows. Called again, it answers the same from the ledger.
    """
    if verdict.state is GangState.SUCCEEDED:
        stop_learners(svc, job, grace_s=_SUCCESS_GRACE_S)
        svc.ledger.end_attempt(job.job_id, attempt.number, "succeeded", None, now())
        _release(svc, job, attempt, "training is done")
        return GangEnd("succeeded")
    failure = classify(verdict.evidence)
    facts = {
        "class": failure.cls.value,
        "rank": failure.rank,
        "summary": failure.summary,
        "advice": failure.advice,
        "detail": verdict.detail,
        "evidence": [_plain(item) for item in failure.evidence],
        "attempt": attempt.number,
    }
    stop_learners(svc, job)
    svc.ledger.end_attempt(job.job_id, attempt.number, "failed", facts, now())
    return after_failure(svc, job)


def preempted(svc: Services, job: JobRecord, attempt: AttemptRecord, words: str) -> GangEnd:
    """Stop an attempt whose lease is wanted for another job: the learners save within their grace.

    :param words: for whom, and why.
    """
    facts: dict[str, Any] = {
        "class": FailureClass.PREEMPTED.value,
        "rank": None,
        "summary": words,
        "advice": ADVICE[FailureClass.PREEMPTED],
        "evidence": [],
        "attempt": attempt.number,
    }
    stop_learners(svc, job)
    svc.ledger.end_attempt(job.job_id, attempt.number, "failed", facts, now())
    return after_failure(svc, job)


def after_failure(svc: Services, job: JobRecord) -> GangEnd:
    """What follows from the newest attempt's failure, by its class's budget; read from the ledger alone.

    Called again (the trigger died before it could tell), it answers the same.
    """
    attempt = svc.ledger.attempts(job.job_id)[-1]
    facts = dict(attempt.failure or {})
    failure = Failure(
        cls=FailureClass(facts["class"]),
        rank=facts.get("rank"),
        summary=str(facts.get("summary", "")),
        advice=str(facts.get("advice", "")),
        evidence=tuple(facts.get("evidence", ())),
    )
    past = {FailureClass(name): count for name, count in svc.ledger.failure_counts(job.job_id).items()}
    past[failure.cls] = past.get(failure.cls, 1) - 1
    decision = restart_or_fail(failure, past, load_manifest(job.manifest).retry)
    gone = stop_learners(svc, job)
    if isinstance(decision, GiveUp):
        svc.ledger.record_outcome(job.job_id, "failed", {**facts, "gave_up": decision.reason}, now())
        _release(svc, job, attempt, f"failed: {failure.cls.value}", gone=gone)
        return GangEnd("failed", {**facts, "gave_up": decision.reason})
    if decision.keep_lease and svc.ledger.holds(job.job_id, attempt.lease_epoch):
        return GangEnd("restart", facts, decision.delay_s)
    if failure.cls is FailureClass.STARTUP:
        _exclude_node(svc, job, failure)
    _release(svc, job, attempt, f"restarts elsewhere: {failure.cls.value}", gone=gone)
    return GangEnd("readmit", facts, decision.delay_s)


def _exclude_node(svc: Services, job: JobRecord, failure: Failure) -> None:
    """Don't place the job again on the node that did not take its learner, as long as there are others for it."""
    node = next((item.get("node") for item in failure.evidence if item.get("rank") == failure.rank), None)
    if node is None or node in job.excluded_nodes:
        return
    manifest = load_manifest(job.manifest)
    excluded = {*job.excluded_nodes, node}
    views = [node_view(one) for one in svc.cluster.nodes()]
    left = [one for one in views if one.usable and one.gpus >= manifest.gpus and one.name not in excluded]
    if any(manifest.gpu_type in (None, one.gpu_type) or not manifest.gpus for one in left):
        svc.ledger.set_facts(job.job_id, excluded_nodes=sorted(excluded))


def _release(svc: Services, job: JobRecord, attempt: AttemptRecord, reason: str, *, gone: bool = True) -> None:
    """Free the attempt's lease, unless a pod of it may still hold a GPU: `release` does it then."""
    if gone and svc.ledger.release_lease(job.job_id, attempt.lease_epoch, reason, now()):
        places_are_free(svc)


def newest_saved_at(svc: Services, job: JobRecord) -> datetime | None:
    """When the job's newest complete checkpoint was made; ``None`` when it has none."""
    from ffdl_ops.adapters.storage.checkpoints import newest_complete

    newest = newest_complete(svc.store(job.tenant), svc.tenant(job.tenant).bucket, job.job_id)
    return newest.created if newest else None


def _newest_generation(svc: Services, job: JobRecord) -> int | None:
    """The generation that the attempt's learners will restore, for the record and their environment."""
    from ffdl_ops.adapters.storage.checkpoints import newest_complete

    newest = newest_complete(svc.store(job.tenant), svc.tenant(job.tenant).bucket, job.job_id)
    return newest.number if newest else None


def _plain(item: Any) -> dict[str, Any]:
    return item if isinstance(item, dict) else asdict(item)
