"""Following a job to its end: each state as it comes, why it waits, and how it ended."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ffdl_ops.cli.exits import Refusal, TookTooLong
from ffdl_ops.cli.output import one_line, say, show_duration, show_time
from ffdl_ops.core.errors import FfdlError, TemporaryError, UserError
from ffdl_ops.core.jobs.states import TERMINAL, JobState

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.cli.session import Session

__all__ = ["Followed", "follow", "is_stranded", "settle", "stage_words", "summarise", "wait_for_end"]

_POLL_S = 0.5
_NO_RUN_S = 30.0
_OUTAGE_S = 120.0
_SETTLE_S = 60.0
_ENDED = (None, "success", "failed")
_GOING_ON = (None, "none", "scheduled", "queued", "running", "deferred", "restarting", "up_for_retry")
# Up to the next entry of the log, which begins with its time.
_REFUSED = re.compile(r"Refused: (.*?)(?=\n\d{4}-\d\d-\d\dT|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Followed:
    """The run that is followed.

    :param incarnation: the job's resume count from which on its end counts (a resumed job stands at its old end at first).
    """

    dag_id: str
    run_id: str
    job_id: str
    incarnation: int = 0


class _Story:
    """What of a job's story was told already."""

    def __init__(self, session: Session, run: Followed, *, err: bool) -> None:
        self._session = session
        self._run = run
        self._err = err
        self._told = 0
        self._wait = ""

    def tell(self, job: JobRecord) -> None:
        """Tell what is new: changes of state, and the reason for waiting when it changes."""
        ledger = self._session.ledger
        steps = [one for one in ledger.transitions(job.job_id) if one.resume_count >= self._run.incarnation]
        for step in steps[self._told :]:
            reason = f"  {one_line(step.reason)}" if step.reason else ""
            say(f"{show_time(step.at)}  {step.to_state:<12}{reason}", err=self._err)
        self._told = len(steps)
        if job.state is JobState.QUEUED:
            wait = next((one for one in reversed(ledger.waits(job.job_id)) if one.ended_at is None), None)
            if wait is not None and wait.message != self._wait:
                self._wait = wait.message
                say(f"{show_time(self._session.now())}  waits: {one_line(wait.message)}", err=self._err)


def follow(session: Session, run: Followed, *, timeout_s: float | None = None, err: bool = False) -> JobRecord:
    """Tell a job's story until it has ended.

    :param err: tell it on standard error (standard output is a program's).
    :returns: the job at its end.
    :raises Refusal: when `plan` refused it; with the words of `plan`.
    :raises TookTooLong: when it has not ended in time; it goes on.
    """
    story = _Story(session, run, err=err)
    return wait_for_end(session, run, timeout_s=timeout_s, seen=story.tell)


def wait_for_end(
    session: Session,
    run: Followed,
    *,
    timeout_s: float | None = None,
    seen: Callable[[JobRecord], None] = lambda job: None,
) -> JobRecord:
    """Wait until a job has ended. Errors as in `follow`; a short outage of the ledger or of Airflow is waited out.

    :param seen: called with the job each time it is looked at.
    """
    started = last_answer = time.monotonic()
    while True:
        try:
            job = _look(session, run, absent_s=time.monotonic() - started)
            if job is not None:
                seen(job)
                if job.state in TERMINAL and job.resume_count >= run.incarnation:
                    settle(session, job)
                    return job
            last_answer = time.monotonic()
        except TemporaryError:
            if time.monotonic() - last_answer > _OUTAGE_S:
                raise
        if timeout_s is not None and time.monotonic() - started > timeout_s:
            raise TookTooLong(
                f"Job {run.job_id} has not ended within {timeout_s:g} s; it goes on (`ffdl show {run.job_id}`)."
            )
        time.sleep(_POLL_S)


def settle(session: Session, job: JobRecord) -> None:
    """Wait until the DAG run of a job that has ended has ended, too: its last task still closes the MLflow run.

    It takes a second or two; when it does not come, or Airflow does not answer, the job's end stands all the same.
    """
    deadline = time.monotonic() + _SETTLE_S
    try:
        while session.airflow.run_state(job.dag_id, job.run_id) not in _ENDED and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    except TemporaryError:
        return


def is_stranded(session: Session, job: JobRecord) -> bool:
    """Whether a job's run is over although the job has not ended: `conclude` could not be done. A clear brings it to its end."""
    if session.airflow.run_state(job.dag_id, job.run_id) not in ("failed", "success"):
        return False
    states = session.airflow.task_states(job.dag_id, job.run_id)
    return all(state not in _GOING_ON for state in states.values())


def _look(session: Session, run: Followed, *, absent_s: float) -> JobRecord | None:
    """The job, or ``None`` while its `plan` has not stored it."""
    job = session.ledger.job(run.job_id)
    if job is not None:
        return job
    state = session.airflow.run_state(run.dag_id, run.run_id)
    if state in ("failed", "success"):
        job = session.ledger.job(run.job_id)
        if job is None:
            raise Refusal(_refusal(session, run))
    if state is None and absent_s > _NO_RUN_S:
        raise UserError(f"Airflow has no run {run.run_id} of {run.dag_id}.")
    return job


def _refusal(session: Session, run: Followed) -> str:
    """Why a run ended before a job was stored, in the words of its `plan`."""
    try:
        log = session.airflow.task_log(run.dag_id, run.run_id, "plan")
    except FfdlError:
        log = ""
    found = _REFUSED.search(log)
    if found:
        return f"Refused: {found[1].strip()}"
    return f"The run ended before a job was stored; its `plan` tells why: {session.airflow.run_url(run.dag_id, run.run_id)}"


def stage_words(seconds: Mapping[str, float]) -> str:
    """How long each stage took, in one line."""
    return ", ".join(f"{stage} {show_duration(taken)}" for stage, taken in seconds.items())


def summarise(session: Session, job: JobRecord, *, err: bool = False) -> None:
    """How a job ended, and where what it made is."""
    from ffdl_ops.cli.places import mlflow_url, results_uri

    took = show_duration((job.updated_at - job.created_at).total_seconds())
    say(f"{job.job_id} ({one_line(job.name)}) is {job.state} after {took}.", err=err)
    seconds = session.ledger.stage_seconds(job.job_id)
    if seconds:
        say(f"stages: {stage_words(seconds)}", err=err)
    if job.state is JobState.FAILED and job.failure:
        for name in ("class", "summary", "advice"):
            if job.failure.get(name):
                say(f"{name}: {one_line(job.failure[name])}", err=err)
    if job.state is JobState.COMPLETED:
        say(f"results: {results_uri(session, job)}", err=err)
    link = mlflow_url(session, job)
    if link:
        say(f"metrics: {link}", err=err)
