"""What every stage does around its own work: find the job, keep the time, record how it ended.

A stage that fails for good writes the failure into the ledger before Airflow learns of it; a stage that is stopped from
outside writes nothing. That difference is how `conclude` tells a failed job from one that a person has halted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from ffdl_ops.core.errors import FfdlError, TemporaryError
from ffdl_ops.core.jobs.ids import job_id as job_id_of
from ffdl_ops.core.jobs.states import TERMINAL
from ffdl_ops.pipeline.links import MlflowRunLink, WaitLink
from ffdl_ops.pipeline.services import Services, now, services

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ffdl_ops.adapters.ledger import JobRecord

__all__ = ["StageMixin", "StageOperator", "job_id_in"]


def job_id_in(context: Context) -> str:
    """The id of the job that this DAG run is."""
    run = context["dag_run"]
    return job_id_of(run.dag_id, run.run_id)


class StageMixin:
    """The frame of a stage, for any operator class.

    A subclass implements :meth:`work`, and :meth:`woken` when it defers.

    :cvar stage: the stage's name in the ledger and in the durations.
    :cvar teardown: whether the stage cleans up: it runs whatever happened, for a run without a job as well.
    """

    stage: str
    teardown = False
    tenant: str
    operator_extra_links: Collection[MlflowRunLink | WaitLink]

    @abstractmethod
    def work(self, context: Context, svc: Services, job: JobRecord) -> Any:
        """Do the stage's work, or defer."""

    def woken(self, context: Context, svc: Services, job: JobRecord, event: dict[str, Any]) -> Any:
        """Go on after a trigger has fired; only a stage that defers is ever asked to."""
        raise FfdlError(f"Stage {self.stage} does not defer, and was woken all the same ({event}).")

    def execute(self, context: Context) -> Any:
        """Run the stage (called by Airflow)."""
        return self._framed(context, self.work)

    def resume_stage(self, context: Context, event: dict[str, Any]) -> Any:
        """Go on with the stage after its trigger (called by Airflow)."""
        return self._framed(context, lambda ctx, svc, job: self.woken(ctx, svc, job, event))

    def on_kill(self) -> None:
        """End at once with SIGTERM's exit status: a stage that was stopped has not succeeded, and may be tried again."""
        raise SystemExit(143)

    def _framed(self, context: Context, function: Callable[[Context, Services, JobRecord], Any]) -> Any:
        svc = services()
        job_id = job_id_in(context)
        job: JobRecord | None = None
        try:
            job = self._job(context, svc, job_id)
            if job is None:
                return None
            svc.ledger.stage_started(job_id, self.stage, now(), context["ti"].try_number)
            self._push_links(context, job)
            result = function(context, svc, job)
        except (AirflowException, AirflowFailException):
            raise
        except Exception as error:
            self._failed(context, svc, job_id, error)
        svc.ledger.stage_ended(job_id, self.stage, now(), "success")
        return result

    def _job(self, context: Context, svc: Services, job_id: str) -> JobRecord | None:
        """The job's record, re-opened when this run was cleared after the job's end.

        :returns: ``None`` for a teardown of a job that never came to be: there is nothing to clean.
        """
        job = svc.ledger.job(job_id)
        if job is None:
            if self.teardown:
                self.log.info("No job was stored for this run; there is nothing to do.")  # type: ignore[attr-defined]
                return None
            raise FfdlError(f"There is no job {job_id} for this run; clear the whole run so that `plan` stores it.")
        if job.state in TERMINAL:
            from ffdl_ops.pipeline.reopening import reopen

            job = reopen(svc, job, self.stage, context["ti"])
        return job

    def _failed(self, context: Context, svc: Services, job_id: str, error: Exception) -> NoReturn:
        """Tell the ledger and Airflow how the stage failed: tried again, or for good."""
        ti = context["ti"]
        message = str(error) if isinstance(error, FfdlError) else f"{type(error).__name__}: {error}"
        own_words = isinstance(error, FfdlError) and not isinstance(error, TemporaryError)
        if not own_words and ti.try_number <= (ti.max_tries or 0):
            self.log.warning("%s (tried again)", message, exc_info=not isinstance(error, FfdlError))  # type: ignore[attr-defined]
            raise AirflowException(message) from None
        self.log.error("%s", self._told(error, message), exc_info=not isinstance(error, FfdlError))  # type: ignore[attr-defined]
        job = svc.ledger.job(job_id)
        if job is not None:
            # What fails because the job is being halted is no failure of it: `conclude` finds none and says HALTED.
            if job.halt_requested_by is None:
                self._record_failure(svc, job_id, error, message)
            svc.ledger.stage_ended(job_id, self.stage, now(), "failed")
        raise AirflowFailException(message) from None

    def _told(self, error: Exception, message: str) -> str:
        """A failure for good, as the task's log says it."""
        return message

    def _record_failure(self, svc: Services, job_id: str, error: Exception, message: str) -> None:
        """Keep the failure with the job; a job that has one keeps its first."""
        from ffdl_ops.core.errors import UserError

        kind = "user_error" if isinstance(error, UserError) else "platform"
        failure = getattr(error, "failure", None) or {"class": kind, "stage": self.stage, "summary": message}
        svc.ledger.record_outcome(job_id, "failed", failure, now())

    def _push_links(self, context: Context, job: JobRecord) -> None:
        """Offer the stage's links while it still runs or waits; Airflow itself does so only at its end."""
        for link in self.operator_extra_links:
            url = link.url_of(job)
            if url:
                context["ti"].xcom_push(key=link.xcom_key, value=url)


class StageOperator(StageMixin, BaseOperator):
    """A stage that is nothing but a stage.

    :param tenant: whose DAG it is in.
    """

    operator_extra_links: Collection[MlflowRunLink | WaitLink] = (MlflowRunLink(),)

    def __init__(self, *, tenant: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tenant = tenant
