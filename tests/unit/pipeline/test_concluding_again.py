"""`conclude` brings every job to an end, once: what fails on the way, or cuts it off, never brings a job back to life."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from ffdl_ops.core.jobs.states import JobState
from ffdl_ops.pipeline import concluding
from ffdl_ops.pipeline.operators.ending import ConcludeOperator

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def services(job: Any, *stages: Any) -> Any:
    ledger = SimpleNamespace(
        job=lambda job_id: job,
        stages=lambda job_id: list(stages),
        record_outcome=lambda *given: True,
        stages_stopped=lambda *given: 0,
        attempts=lambda job_id: [SimpleNamespace(outcome="succeeded")],
    )
    advanced: list[JobState] = []
    return SimpleNamespace(ledger=ledger, advance=lambda job_id, to, reason: advanced.append(to), advanced=advanced)


def job(state: JobState = JobState.HALTED, **changes: Any) -> Any:
    known = {"job_id": "job-1", "state": state, "resume_count": 0, "outcome": None, "failure": None}
    return SimpleNamespace(**known | {"mlflow_run_id": None} | changes)


def stage(name: str = "conclude", ended_at: Any = None, resume_count: int = 0) -> Any:
    return SimpleNamespace(stage=name, ended_at=ended_at, resume_count=resume_count)


def test_a_conclude_that_was_cut_off_after_the_end_was_written_completes_it_and_resumes_nothing() -> None:
    ended = job()
    svc = services(ended, stage("release", NOW), stage())
    operator = ConcludeOperator(task_id="conclude", tenant="t")
    assert operator._job({}, svc, "job-1") is ended  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("state", "stages"),
    [
        (JobState.HALTED, [stage(ended_at=NOW)]),  # it had come to its own end: this is a clear
        (JobState.HALTED, []),
        (JobState.STORING, [stage()]),  # nothing is written yet
        (JobState.HALTED, [stage(resume_count=-1)]),  # of an earlier incarnation
    ],
)
def test_any_other_conclude_begins_as_every_stage_does(state: JobState, stages: list[Any]) -> None:
    assert not concluding.was_interrupted(services(job(state), *stages), job(state))


def test_whatever_can_not_be_finished_the_job_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any) -> Any:
        raise RuntimeError("a bug\nwith details")

    monkeypatch.setattr(concluding, "release_all", broken)
    svc = services(job(JobState.STORING))
    end = concluding.conclude(svc, job(JobState.STORING))
    assert end.state is JobState.FAILED and end.reason.endswith("RuntimeError: a bug")
    assert svc.advanced == [JobState.FAILED]


def test_a_run_in_mlflow_that_can_not_be_closed_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("release_all", "run_step"):
        monkeypatch.setattr(concluding, name, lambda *given: None)
    svc = services(job(JobState.STORING, mlflow_run_id="run", tenant="t"))
    svc.tenant = lambda name: {}[name]
    assert concluding.conclude(svc, svc.ledger.job("job-1")).state is JobState.COMPLETED
