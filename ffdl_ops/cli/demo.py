"""One example from end to end: real data into the tenant's bucket, the run triggered and followed, and what came of it."""

from __future__ import annotations

import time
import uuid
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ffdl_ops.cli.exits import exit_of_state
from ffdl_ops.cli.follow import Followed, settle, stage_words, wait_for_end
from ffdl_ops.cli.output import one_line, say, show_duration
from ffdl_ops.cli.session import Session
from ffdl_ops.core.errors import FfdlError, TemporaryError, UserError
from ffdl_ops.core.jobs.ids import dag_id, job_id
from ffdl_ops.core.jobs.states import JobState

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.local.services.stack import Stack

__all__ = ["run_example"]

_LOOK_AT_SERVICES_S = 5.0
_ACCURACY = "test_accuracy"
_ENDED = {"success": "", "failed": "failed", "skipped": "skipped", "upstream_failed": "not run", "removed": "removed"}
# What the scheduler passes by without running anything is no stage.
_NO_STAGES = frozenset({"begin"})


def run_example(stack: Stack, example: str, learners: int, tenant: str) -> int:
    """Train an example and tell its story.

    :returns: the exit code that the job's end stands for, 0 when it has completed.
    """
    from ffdl_ops.core.jobs.examples import EXAMPLES
    from ffdl_ops.local.services.seed import seed_digits

    if example not in EXAMPLES:
        raise UserError(f"There is no example {example!r}; there are {', '.join(EXAMPLES)}.")
    session = Session()
    session.tenant(tenant)
    data = seed_digits(session.settings, tenant)
    say(f"Data: s3://{data}")
    target, run_id = dag_id(tenant), f"run-{uuid.uuid4().hex[:8]}"
    stack.wait_for_dag(target)
    form: dict[str, Any] = {"example": example, "learners": learners, "data": data}
    session.airflow.trigger(target, run_id, form)
    followed = Followed(target, run_id, job_id(target, run_id))
    say(f"Job {followed.job_id}: {example}, learners: {learners}, tenant {tenant}")
    say(f"Triggered {session.airflow.run_url(target, run_id)}\n")
    story = _Story(session, followed, stack)
    job = wait_for_end(session, followed, seen=story.tell)
    settle(session, job)
    story.tell(job)
    _summarise(session, session.ledger.job(job.job_id) or job)
    return int(exit_of_state(job.state))


class _Story:
    """Tells each stage as it ends, why the job waits, and stops when a service has gone."""

    def __init__(self, session: Session, run: Followed, stack: Stack) -> None:
        self._session = session
        self._run = run
        self._stack = stack
        self._told: set[tuple[str, int]] = set()
        self._wait = ""
        self._looked = time.monotonic()

    def tell(self, job: JobRecord) -> None:
        """Tell what is new."""
        for task in self._ended_tasks():
            key = (str(task["task_id"]), int(task.get("try_number") or 0))
            if key not in self._told:
                self._told.add(key)
                say(f"  {key[0]:<14} {_took(task):>10}  {_ENDED[task['state']]}".rstrip())
        if job.state is JobState.QUEUED:
            wait = next((one for one in reversed(self._session.ledger.waits(job.job_id)) if one.ended_at is None), None)
            if wait is not None and wait.message != self._wait:
                self._wait = wait.message
                say(f"  waits: {one_line(wait.message)}")
        if time.monotonic() - self._looked > _LOOK_AT_SERVICES_S:
            self._looked = time.monotonic()
            self._stack.check_alive()

    def _ended_tasks(self) -> list[dict[str, Any]]:
        try:
            tasks = self._session.airflow.task_instances(self._run.dag_id, self._run.run_id)
        except TemporaryError:
            return []
        ended = [task for task in tasks if task.get("state") in _ENDED and task["task_id"] not in _NO_STAGES]
        return sorted(ended, key=lambda task: str(task.get("end_date") or ""))


def _took(task: dict[str, Any]) -> str:
    start, end = task.get("start_date"), task.get("end_date")
    if not start or not end:
        return "-"
    return show_duration((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def _summarise(session: Session, job: JobRecord) -> None:
    from ffdl_ops.cli.places import job_prefix, logs_prefix, mlflow_url, results_uri, run_url

    say(f"\nJob {job.job_id} is {job.state} after {show_duration((job.updated_at - job.created_at).total_seconds())}.")
    seconds = session.ledger.stage_seconds(job.job_id)
    say(f"stages:       {stage_words(seconds)}")
    for name in ("class", "summary", "advice"):
        if job.failure and job.failure.get(name):
            say(f"{name + ':':<13} {one_line(job.failure[name])}")
    accuracy = _accuracy(session, job)
    if accuracy is not None:
        say(f"accuracy:     {accuracy:.2f} % on the test images")
    if job.state is JobState.COMPLETED:
        say(f"model:        {results_uri(session, job)}   (`ffdl download {job.job_id} model`)")
    bucket = session.settings.tenants[job.tenant].bucket
    say(f"checkpoints:  s3://{bucket}/{job_prefix(job.job_id)}checkpoints/")
    say(f"logs:         s3://{bucket}/{logs_prefix(job.job_id)}   (`ffdl logs {job.job_id}`)")
    say(f"run:          {run_url(session, job)}")
    say(f"metrics:      {mlflow_url(session, job) or '-'}")


def _accuracy(session: Session, job: JobRecord) -> float | None:
    """The model's accuracy on the test images, in percent, as it was logged last."""
    if not job.mlflow_run_id:
        return None
    try:
        point = session.tracker.run(job.mlflow_run_id).latest.get(_ACCURACY)
    except FfdlError:
        return None
    return None if point is None else float(point.value)
