"""Preflight: one learner runs for a moment on the granted lease, so that an import or shape error costs one GPU's minute.

It writes into directories of its own, keeps nothing, and ends by itself: when the program ends, when its time is up, or
when its progress shows enough steps.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.cluster.gang import LEARNER, learner_pod, learner_template
from ffdl_ops.adapters.cluster.helper import helper_selector
from ffdl_ops.adapters.cluster.observe import PodView, evidence_of, pod_view
from ffdl_ops.adapters.cluster.specs import JOB_DIR
from ffdl_ops.core.failures.classify import classify
from ffdl_ops.core.jobs.ids import namespace as namespace_of
from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.pipeline.services import Services, now
from ffdl_ops.pipeline.staging import data_dir_of, data_secret_of, stage_spec

if TYPE_CHECKING:
    from ffdl_ops.adapters.cluster.gang import GangSpec
    from ffdl_ops.adapters.ledger import JobRecord, LeaseRecord

__all__ = ["PreflightEnd", "look", "start", "stop", "wanted"]

STAGE = "preflight"
_AUTO_ABOVE = 2
_GONE_S = 30


@dataclass(frozen=True)
class PreflightEnd:
    """How the preflight ended.

    :param failure: the failure, as the ledger keeps one; ``None`` when the program may go on.
    """

    detail: str
    failure: dict[str, Any] | None = None


def wanted(job: JobRecord) -> bool:
    """Whether the job has a preflight: as its manifest says, else when its gang has more than two learners."""
    manifest = load_manifest(job.manifest)
    enabled = manifest.preflight.enabled
    return manifest.learners_max > _AUTO_ABOVE if enabled is None else enabled


def start(svc: Services, job: JobRecord, lease: LeaseRecord) -> str:
    """Start the one learner, or adopt the one that runs.

    :returns: the pod's name.
    """
    namespace = namespace_of(job.tenant)
    number = 1
    for pod in svc.cluster.pods(namespace, helper_selector(job.job_id, STAGE)):
        view = pod_view(pod)
        if not view.ended and not view.terminating:
            return view.name
        number = max(number, 1 + int((pod.metadata.labels or {}).get("ffdl.dev/number", "0")))
    spec = _spec(svc, job, lease, number)
    pod = learner_pod(learner_template(spec, svc.platform), spec, 0, lease.placements[0].node)
    pod.metadata.name = f"{job.job_id}-{STAGE}-{number}"
    labels = pod.metadata.labels
    labels.pop("ffdl.dev/attempt", None)
    labels |= {
        "app.kubernetes.io/component": STAGE,
        "ffdl.dev/stage": STAGE,
        "ffdl.dev/number": str(number),
    }
    # No side-car: nothing that a preflight writes is kept.
    pod.spec.init_containers = [one for one in pod.spec.init_containers if one.restart_policy != "Always"]
    learner = next(one for one in pod.spec.containers if one.name == LEARNER)
    for entry in learner.env:
        if entry.name == "CHECKPOINT_DIR":
            entry.value = f"{JOB_DIR}/state/{STAGE}-{number}/checkpoints"
    return svc.cluster.create_pod(pod).metadata.name


def look(svc: Services, job: JobRecord, name: str) -> PreflightEnd | None:
    """See how the preflight goes; ``None`` while it does."""
    pod = svc.cluster.pod(namespace_of(job.tenant), name)
    if pod is None:
        return PreflightEnd("the preflight pod is gone; going on without it")
    view = pod_view(pod)
    if view.ended or view.failed_init:
        if view.succeeded:
            return PreflightEnd("the program ran to its end")
        return _failed(view)
    settings = load_manifest(job.manifest).preflight
    if view.started is None:
        age_s = (now() - view.created).total_seconds() if view.created else 0.0
        if age_s > svc.platform.timeouts.startup_seconds:
            return _failed(view)
        return None
    if settings.steps is not None and _steps(svc, view) >= settings.steps:
        return PreflightEnd(f"the program has made {settings.steps} steps")
    if (now() - view.started).total_seconds() >= settings.seconds:
        return PreflightEnd(f"the program has run for {settings.seconds:g} s")
    return None


def stop(svc: Services, job: JobRecord) -> bool:
    """Stop the preflight's pod and wait until its GPUs are free.

    :returns: whether it is confirmed gone.
    """
    namespace, selector = namespace_of(job.tenant), helper_selector(job.job_id, STAGE)
    for pod in svc.cluster.pods(namespace, selector):
        svc.cluster.delete_pod(namespace, pod.metadata.name, uid=pod.metadata.uid, grace_s=1)
    deadline = time.monotonic() + _GONE_S
    while svc.cluster.pods(namespace, selector):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _spec(svc: Services, job: JobRecord, lease: LeaseRecord, number: int) -> GangSpec:
    from ffdl_ops.adapters.cluster.gang import GangSpec

    manifest = load_manifest(job.manifest)
    spec = GangSpec(
        job_id=job.job_id,
        tenant=job.tenant,
        manifest=manifest,
        attempt=0,
        learners=1,
        base_port=19_000 + lease.epoch % 900,
        stage_spec=stage_spec(svc, job, attempt=0, learners=1),
        data_dir=data_dir_of(job),
        data_secret=data_secret_of(manifest),
    )
    place = f"{JOB_DIR}/state/{STAGE}-{number}"
    own = {
        "RESULT_DIR": f"{place}/results",
        "LOG_DIR": f"{JOB_DIR}/logs/{STAGE}-{number}",
        # Its own: the gang's first attempt must not meet at the address that the preflight left.
        "JOB_STATE_DIR": place,
        "FFDL_ATTEMPT": "1",
    }
    return replace(spec, overrides=own)


def _steps(svc: Services, view: PodView) -> int:
    """The newest step that the program's progress shows; 0 when it shows none."""
    from ffdl_ops.adapters.tracking.metrics import MetricExtractor

    text = svc.cluster.pod_log(view.namespace, view.name, tail=200)
    extractor = MetricExtractor(None)
    points = [point for line in text.splitlines() for point in extractor.feed(line)]
    return max((point.step for point in points), default=0)


def _failed(view: PodView) -> PreflightEnd:
    failure = classify((evidence_of(view),))
    facts = {
        "class": failure.cls.value,
        "rank": 0,
        "summary": f"preflight: {failure.summary}",
        "advice": failure.advice,
        "stage": STAGE,
    }
    return PreflightEnd(failure.summary, facts)
