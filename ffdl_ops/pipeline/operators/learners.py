"""`learners`: one task for one gang."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.exceptions import TaskDeferred

from ffdl_ops.adapters.cluster.client import ClusterRefused, QuotaExceeded
from ffdl_ops.core.errors import FfdlError, TemporaryError
from ffdl_ops.core.jobs.ids import namespace as namespace_of
from ffdl_ops.core.jobs.states import JobState
from ffdl_ops.pipeline import admission, gang
from ffdl_ops.pipeline.links import MlflowRunLink, WaitLink
from ffdl_ops.pipeline.services import Services, now
from ffdl_ops.pipeline.stage import StageMixin
from ffdl_ops.pipeline.triggers.admission import AdmissionTrigger
from ffdl_ops.pipeline.triggers.gang import GangTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context
    from kubernetes import client as k8s

    from ffdl_ops.adapters.ledger import AttemptRecord, JobRecord

__all__ = ["JobFailed", "LearnerGangOperator"]

_QUOTA_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 30.0
_LOOK_S = 1.0


class JobFailed(FfdlError):
    """The gang has failed for good.

    :param failure: class, evidence and advice, as the ledger keeps them.
    """

    def __init__(self, failure: dict[str, Any]) -> None:
        self.failure = failure
        parts = [f"{failure.get('class', 'unknown')}: {failure.get('summary', '')}"]
        parts += [str(failure[key]) for key in ("advice", "gave_up") if failure.get(key)]
        super().__init__(" ".join(part.rstrip(".") + "." for part in parts))


class LearnerGangOperator(StageMixin, KubernetesPodOperator):
    """Runs a job's learners as one gang: started whole, watched by one trigger, restarted as one from the checkpoint.

    From :class:`KubernetesPodOperator` it takes the building of the pod (labels of the run, mutation hook) and the
    hook. It does not take the single pod: the gang's pods have names of their own, are matched by UID, and outlive the
    loss of any worker, scheduler or triggerer; a new try adopts them.

    It trusts nothing upstream: without a lease (cleared alone, preempted, node lost) it asks for one and waits.

    What it does not do: stop the gang when its task is killed. A task is killed by a clear as well, which must not stop
    the training; `release` stops the gang when the run ends.

    :param tenant: whose DAG it is in.
    """

    stage = "learners"
    ui_color = "#d5f2d5"
    # A tenant's text must never be rendered as a template, so nothing of this operator is.
    template_fields = ()
    operator_extra_links = (MlflowRunLink(), WaitLink())

    def __init__(self, *, tenant: str, **kwargs: Any) -> None:
        super().__init__(
            namespace=namespace_of(tenant),
            base_container_name="learner",
            random_name_suffix=False,
            deferrable=True,
            get_logs=False,
            log_pod_spec_on_failure=False,
            termination_message_policy="FallbackToLogsOnError",
            do_xcom_push=False,
            automount_service_account_token=False,
            **kwargs,
        )
        self.tenant = tenant

    def work(self, context: Context, svc: Services, job: JobRecord) -> dict[str, Any] | None:
        """Adopt the gang that lives, or start one."""
        attempt = svc.ledger.open_attempt(job.job_id)
        if attempt is None:
            return self._after(context, svc, job, self._known_end(svc, job))
        if attempt.pods:
            self.log.info("Attempt %d lives; watching it again.", attempt.number)
            self._watch(svc, job, attempt)
        self._start(context, svc, job)

    def woken(self, context: Context, svc: Services, job: JobRecord, event: dict[str, Any]) -> dict[str, Any] | None:
        """Go on: with the lease that was granted, or after the attempt's end."""
        kind = event.get("kind")
        if kind == "granted":
            self._start(context, svc, job)
        if kind == "lost":
            return self.work(context, svc, job)
        if kind == "ended":
            raise FfdlError(f"Job {job.job_id} was ended while its learners waited for admission.")
        return self._after(
            context, svc, job, gang.GangEnd(str(kind), event.get("failure"), event.get("delay_s") or 0.0)
        )

    def _known_end(self, svc: Services, job: JobRecord) -> gang.GangEnd | None:
        """What the newest attempt of this incarnation came to, if there was one (a trigger may have died untold)."""
        attempts = svc.ledger.attempts(job.job_id)
        if not attempts or attempts[-1].resume_count != job.resume_count:
            return None
        if attempts[-1].outcome == "succeeded":
            return gang.GangEnd("succeeded")
        return gang.after_failure(svc, job) if attempts[-1].outcome == "failed" else None

    def _after(
        self, context: Context, svc: Services, job: JobRecord, end: gang.GangEnd | None
    ) -> dict[str, Any] | None:
        """Go on after an attempt's end; ``None`` is the first start."""
        if end is not None and end.kind == "succeeded":
            self.log.info("All learners of %s have succeeded.", job.job_id)
            return {"job_id": job.job_id}
        if end is not None and end.kind == "failed":
            raise JobFailed(dict(end.failure or {}))
        if end is not None:
            failure = end.failure or {}
            self.log.warning(
                "Attempt %s ended (%s: %s); the whole gang starts again from its newest checkpoint.",
                failure.get("attempt"),
                failure.get("class"),
                failure.get("summary"),
            )
            self._pause(svc, job, min(end.delay_s, _LONGEST_PAUSE_S))
        self._start(context, svc, job)

    @staticmethod
    def _pause(svc: Services, job: JobRecord, seconds: float) -> None:
        """Wait before the next attempt, unless what the job holds meanwhile is wanted for another one."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not _is_told_to_stop(svc, job):
            time.sleep(min(_LOOK_S, left))

    def _start(self, context: Context, svc: Services, job: JobRecord) -> NoReturn:
        """Start the gang under its lease; wait for one first if there is none."""
        if _is_told_to_stop(svc, job) and not gang.stop_learners(svc, job):
            raise TemporaryError("Learners are still there; what they hold is given back once they are gone.")
        lease, wait = admission.ask(svc, job)
        if lease is None:
            if wait is not None:
                self.log.info("%s", admission.waiting_words(wait))
            self._wait_for_lease(svc, job)
        self.config_file = svc.settings.kubeconfig
        try:
            attempt = gang.launch(svc, job, lease, lambda template: self._pod_from(template, context))
        except QuotaExceeded as refusal:
            self._wait_for_quota(svc, job, lease.epoch, refusal)
        except ClusterRefused:
            svc.ledger.release_lease(job.job_id, lease.epoch, "the cluster refused the gang", now())
            admission.places_are_free(svc)
            raise
        self.log.info("Attempt %d: %d learners created.", attempt.number, attempt.learners)
        self._watch(svc, job, attempt)

    def _pod_from(self, template: k8s.V1Pod, context: Context) -> k8s.V1Pod:
        """The template as :class:`KubernetesPodOperator` would launch it: with the run's labels and the hook applied."""
        self.full_pod_spec = template
        self.name = template.metadata.name
        return self.build_pod_request_obj(context)

    def _watch(self, svc: Services, job: JobRecord, attempt: AttemptRecord) -> NoReturn:
        trigger = GangTrigger(job.job_id, attempt.number, svc.platform.poll.gang_seconds)
        raise TaskDeferred(trigger=trigger, method_name="resume_stage")

    def _wait_for_quota(self, svc: Services, job: JobRecord, epoch: int, refusal: QuotaExceeded) -> NoReturn:
        """The namespace's own quota is full although the ledger had room: give the lease back and queue again."""
        self.log.warning("%s The job goes back into the queue.", refusal)
        svc.ledger.release_lease(job.job_id, epoch, "the namespace's quota is full", now())
        admission.places_are_free(svc)
        svc.advance(job.job_id, JobState.QUEUED, str(refusal)[:500])
        self._wait_for_lease(svc, job, not_before=time.time() + _QUOTA_PAUSE_S)

    def _wait_for_lease(self, svc: Services, job: JobRecord, *, not_before: float = 0.0) -> NoReturn:
        trigger = AdmissionTrigger(job.job_id, svc.platform.poll.admission_seconds, not_before)
        raise TaskDeferred(trigger=trigger, method_name="resume_stage")


def _is_told_to_stop(svc: Services, job: JobRecord) -> bool:
    """Whether the job's lease is wanted for another job, and no attempt runs that would see so by itself."""
    lease = svc.ledger.lease(job.job_id)
    return lease is not None and lease.preempted_at is not None and svc.ledger.open_attempt(job.job_id) is None
