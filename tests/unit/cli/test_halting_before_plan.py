"""`ffdl halt` of a run whose `plan` has not stored its job: the ledger has nothing, the run is stopped all the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ffdl_ops.core.jobs.ids import job_id
from ffdl_ops.core.jobs.states import JobState

DAG, RUN = "train__vision", "submitted-just-now"
ID = job_id(DAG, RUN)


@pytest.fixture(autouse=True)
def submitted(cli: Any) -> None:
    cli.airflow.unplanned = {(DAG, "another"): "running", (DAG, RUN): "queued"}


@pytest.mark.parametrize("text", [RUN, ID, ID.removeprefix("job-")[:6]])
def test_it_is_found_by_its_own_id_and_by_its_jobs(cli: Any, text: str) -> None:
    told = cli.ok("halt", text).stdout
    assert RUN in told
    assert ID in told
    assert cli.airflow.failed == [RUN]
    [line] = cli.ledger.lines
    assert (line.actor, line.action, line.tenant, line.job_id) == ("ann", "halt", "vision", ID)


def test_programs_are_told_that_there_is_no_state(cli: Any) -> None:
    told = json.loads(cli.ok("halt", ID, "--json").stdout)
    assert told == {"job_id": ID, "tenant": "vision", "state": None, "dag_id": DAG, "run_id": RUN}


def test_waiting_ends_when_the_run_has(cli: Any) -> None:
    assert "is halted" in cli.ok("halt", RUN, "--wait", "--timeout", "5").stdout


def test_a_job_stored_while_its_run_was_marked_is_told_who_wants_its_end(cli: Any, job: Any) -> None:
    cli.ledger.script[ID] = [None, None, job(ID, state=JobState.PENDING)]
    cli.ok("halt", ID)
    assert cli.airflow.failed == [RUN]
    assert cli.ledger.halts == [(ID, "ann")]


def test_a_job_stored_while_airflow_was_asked_is_halted_as_any(cli: Any, job: Any) -> None:
    cli.ledger.script[ID] = [None, job(ID, state=JobState.PENDING)]
    cli.ok("halt", ID)
    assert cli.ledger.halts == [(ID, "ann")]


@pytest.mark.parametrize("text", ["no-such-run", "job-0123456789", "job-", " "])
def test_what_nobody_knows_is_no_job(cli: Any, text: str) -> None:
    assert "There is no job" in cli.refused(2, "halt", text)
    assert cli.airflow.failed == []


def test_a_run_that_ended_without_a_job_is_not_halted(cli: Any) -> None:
    cli.airflow.unplanned[DAG, RUN] = "failed"
    assert "ended without a job" in cli.refused(3, "halt", RUN)
    assert cli.airflow.failed == []


def test_one_run_id_in_two_tenants_dags_is_told_apart_by_the_jobs_id(cli: Any) -> None:
    cli.airflow.unplanned["train__speech", RUN] = "running"
    assert "train__speech, train__vision" in cli.refused(2, "halt", RUN)
    assert cli.airflow.failed == []
    cli.ok("halt", ID)


def test_a_dag_that_one_may_not_see_is_passed_over(cli: Any) -> None:
    cli.airflow.hidden = {"train__speech"}
    cli.ok("halt", ID)
    cli.airflow.hidden = {"train__speech", DAG}
    assert "There is no job" in cli.refused(2, "halt", RUN)
