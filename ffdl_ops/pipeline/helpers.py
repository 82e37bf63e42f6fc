"""Helper pods of a stage: started or adopted, watched, read for their result, removed.

A helper is addressed by job, stage and number. One that runs is adopted, one that has ended is read once and replaced by
the next number if the stage runs again, so that a finished pod is never taken for a new one.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.cluster.helper import HELPER, helper_pod, helper_selector
from ffdl_ops.adapters.cluster.observe import PodView, pod_view
from ffdl_ops.core.errors import PermanentError, TemporaryError, UserError
from ffdl_ops.core.jobs.ids import namespace as namespace_of

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.pipeline.services import Services

__all__ = [
    "HelperEnd",
    "HelperStep",
    "await_helper",
    "helper_end",
    "result_of",
    "run_step",
    "start_helper",
    "stop_helpers",
]

_USER_CODES = frozenset({64, 65, 66})
_TEMPORARY_CODES = frozenset({69, 74})
_INLINE_WAIT_S = 8.0
_POLL_S = 0.1
# What the cluster may take to stop a helper and say so, besides the grace period.
_MARGIN_S = 60
_DEADLINE = "DeadlineExceeded"


@dataclass(frozen=True)
class HelperEnd:
    """How a helper ended.

    :param code: its exit code; ``None`` when it never ran.
    :param report: the JSON result that it left.
    :param overdue: whether it was stopped because it had had its time.
    """

    pod: str
    code: int | None
    report: dict[str, Any]
    message: str
    overdue: bool = False


def start_helper(
    svc: Services,
    job: JobRecord,
    stage: str,
    command: str,
    spec: dict[str, Any],
    *,
    data_secret: str | None = None,
    all_jobs: bool = False,
) -> str:
    """Start a stage's helper, or adopt the one that runs already.

    :param all_jobs: whether it has the directory of the tenant's jobs in place of the job's own.
    :returns: the pod's name.
    """
    namespace = namespace_of(job.tenant)
    pods = svc.cluster.pods(namespace, helper_selector(job.job_id, stage))
    number = 0
    for pod in pods:
        view = pod_view(pod, HELPER)
        if not view.ended and not view.terminating:
            return view.name
        number = max(number, int((pod.metadata.labels or {}).get("ffdl.dev/number", "0")))
    body = helper_pod(
        svc.platform,
        job_id=job.job_id,
        tenant=job.tenant,
        stage=stage,
        number=number + 1,
        command=command,
        spec=spec,
        data_secret=data_secret,
        all_jobs=all_jobs,
    )
    return svc.cluster.create_pod(body).metadata.name


def helper_end(svc: Services, namespace: str, name: str, *, age_s: float = 0.0) -> HelperEnd | None:
    """How a helper ended, or ``None`` while it goes on.

    :param age_s: how long it has been waited for. Past the start-up limit a helper that never ran has failed; one that the
        cluster has not stopped long after its own limit (its node does not answer) is given up.
    """
    pod = svc.cluster.pod(namespace, name)
    if pod is None:
        return HelperEnd(name, None, {}, f"helper pod {name} is gone")
    view = pod_view(pod, HELPER)
    if view.ended:
        overdue = view.pod_reason == _DEADLINE
        return HelperEnd(name, view.exit_code, _report(view), view.message or view.pod_message or "", overdue)
    limits = svc.platform.timeouts
    if age_s > limits.startup_seconds + limits.helper_seconds + limits.grace_seconds + _MARGIN_S:
        return HelperEnd(name, None, {}, f"it did not end in {age_s:.0f} s", overdue=True)
    if not view.running and age_s > limits.startup_seconds:
        why = view.waiting or view.unschedulable or "not started"
        return HelperEnd(name, None, {}, f"helper pod {name} did not start in {age_s:.0f} s: {why}")
    return None


def await_helper(svc: Services, namespace: str, name: str) -> HelperEnd | None:
    """Wait a moment for a helper in place: deferring costs more than most helpers take. ``None`` if it goes on."""
    deadline = time.monotonic() + _INLINE_WAIT_S
    while time.monotonic() < deadline:
        end = helper_end(svc, namespace, name)
        if end is not None:
            return end
        time.sleep(_POLL_S)
    return None


def result_of(svc: Services, job: JobRecord, end: HelperEnd) -> dict[str, Any]:
    """The result of a helper that ended well; its error otherwise. The pod is removed.

    :raises UserError: what the job names can't be had (missing data, refused credentials, unsafe archive).
    :raises TemporaryError: the store or the disk could not do it now.
    :raises PermanentError: it has had its time, or it has a defect.
    """
    svc.cluster.delete_pod(namespace_of(job.tenant), end.pod, grace_s=0)
    if end.overdue:
        raise PermanentError(_overdue_words(svc, end))
    if end.code == 0:
        return end.report
    text = str(end.report.get("error") or end.message or f"exit code {end.code}")
    if end.code in _USER_CODES:
        raise UserError(text)
    if end.code is None or end.code in _TEMPORARY_CODES or end.code > 128:
        raise TemporaryError(text)
    raise PermanentError(text)


def stop_helpers(svc: Services, job: JobRecord) -> None:
    """Remove every helper pod of the job."""
    namespace = namespace_of(job.tenant)
    for pod in svc.cluster.pods(namespace, helper_selector(job.job_id)):
        svc.cluster.delete_pod(namespace, pod.metadata.name, uid=pod.metadata.uid, grace_s=1)


class HelperStep(ABC):
    """A step of a job that a helper pod does."""

    @abstractmethod
    def needed(self, svc: Services, job: JobRecord) -> bool:
        """Whether it is still to be done."""

    @abstractmethod
    def start(self, svc: Services, job: JobRecord) -> str:
        """Start its helper, or adopt the one that runs: the pod's name."""

    @abstractmethod
    def finish(self, svc: Services, job: JobRecord, end: HelperEnd) -> dict[str, Any]:
        """Keep what it did.

        :raises UserError, TemporaryError, PermanentError: as :func:`result_of`.
        """


def run_step(svc: Services, job: JobRecord, step: HelperStep) -> dict[str, Any]:
    """Do a step in place, within a helper's time, if it is needed; what it has found."""
    if not step.needed(svc, job):
        return {}
    namespace = namespace_of(job.tenant)
    name = step.start(svc, job)
    started = time.monotonic()
    while (end := helper_end(svc, namespace, name, age_s=time.monotonic() - started)) is None:
        time.sleep(_POLL_S)
    return step.finish(svc, job, end)


def _overdue_words(svc: Services, end: HelperEnd) -> str:
    """What is said of a helper that was stopped by the clock: the limit, and whose it is."""
    limit_s = svc.platform.timeouts.helper_seconds
    last = f" Its last words: {end.message.strip()[-300:]}." if end.message.strip() else ""
    return (
        f"Helper pod {end.pod} was stopped: it had not ended within timeouts.helper_seconds = {limit_s} s.{last} If its work "
        "takes longer than that, raise timeouts.helper_seconds in config/platform.yaml and clear the run; else see why the store "
        "or the volume is so slow."
    )


def _report(view: PodView) -> dict[str, Any]:
    try:
        report = json.loads((view.message or "").strip().splitlines()[-1])
    except (ValueError, IndexError):
        return {}
    return report if isinstance(report, dict) else {}
