"""`ffdl halt`, `ffdl resume`, `ffdl delete`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from ffdl_ops.adapters.ledger import CheckpointRecord
from ffdl_ops.core.jobs.states import JobState

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
ID = "job-aaaa000001"
RUN = f"run-of-{ID}"


def running(job: Any, state: str = "PROCESSING", **changes: Any) -> Any:
    return job(ID, state=JobState(state), outcome=None, **changes)


def test_halting_tells_the_ledger_who_asked_before_it_fails_the_run(cli: Any, job: Any, monkeypatch: Any) -> None:
    cli.ledger.add(running(job))
    order: list[str] = []
    monkeypatch.setattr(cli.ledger, "request_halt", lambda name, who, now: order.append(f"ledger {who}"))
    monkeypatch.setattr(cli.airflow, "mark_run_failed", lambda dag, run: order.append(f"airflow {run}"))
    assert "is being halted" in cli.ok("halt", ID).stdout
    assert order == ["ledger ann", f"airflow {RUN}"]


@pytest.mark.parametrize(("state", "code"), [("HALTED", 0), ("COMPLETED", 0), ("FAILED", 1)])
def test_waiting_for_the_halt_ends_with_what_became_of_the_job(cli: Any, job: Any, state: str, code: int) -> None:
    cli.ledger.script[ID] = [running(job), running(job), running(job, "STORING"), job(ID, state=JobState(state))]
    result = cli.run("halt", ID, "--wait")
    assert result.exit_code == code
    assert f"is {state}" in result.stdout


def test_halting_twice_is_fine_and_touches_nothing(cli: Any, job: Any) -> None:
    cli.ledger.add(job(ID, state=JobState.HALTED))
    cli.ok("halt", ID)
    assert cli.airflow.failed == []


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED"])
def test_a_job_that_has_ended_can_not_be_halted(cli: Any, job: Any, state: str) -> None:
    cli.ledger.add(job(ID, state=JobState(state)))
    assert state in cli.refused(3, "halt", ID)
    assert (cli.airflow.failed, cli.ledger.halts) == ([], [])


def test_a_halt_that_takes_too_long_says_so(cli: Any, job: Any) -> None:
    cli.ledger.add(running(job))
    cli.refused(75, "halt", ID, "--wait", "--timeout", "0.05")


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "HALTED"])
def test_resuming_clears_the_run(cli: Any, job: Any, state: str) -> None:
    cli.ledger.add(job(ID, state=JobState(state)))
    cli.ok("resume", ID)
    assert cli.airflow.cleared == [RUN]
    assert [(one.actor, one.action, one.job_id) for one in cli.ledger.lines] == [("ann", "resume", ID)]


def test_a_job_that_goes_on_can_not_be_resumed(cli: Any, job: Any) -> None:
    cli.ledger.add(running(job))
    assert "PROCESSING" in cli.refused(3, "resume", ID)
    assert cli.airflow.cleared == []


def test_a_job_whose_run_is_over_without_its_end_can_be_resumed(cli: Any, job: Any) -> None:
    cli.ledger.add(running(job, "STORING"))
    cli.airflow.states = ["failed"]
    cli.airflow.tasks = {"learners": "success", "conclude": "failed"}
    cli.ok("resume", ID)
    assert cli.airflow.cleared == [RUN]


def test_a_job_that_is_still_being_halted_can_not_be_resumed(cli: Any, job: Any) -> None:
    cli.ledger.add(running(job, "STORING"))
    cli.airflow.states = ["failed"]
    cli.airflow.tasks = {"learners": "failed", "conclude": "scheduled"}
    cli.refused(3, "resume", ID)
    assert cli.airflow.cleared == []


def test_following_a_resume_waits_for_the_new_end_not_the_old_one(cli: Any, job: Any) -> None:
    old = job(ID, state=JobState.HALTED)
    cli.ledger.script[ID] = [old, old, old, running(job, "RESUMED", resume_count=1), job(ID, resume_count=1)]
    result = cli.run("resume", ID, "--follow", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["state"] == "COMPLETED"
    assert cli.ledger.script[ID] == []


@pytest.mark.parametrize("command", [("halt", ID, "--wait"), ("resume", ID)])
def test_a_job_has_ended_only_when_its_run_has(cli: Any, job: Any, command: tuple[str, ...]) -> None:
    """The run's last task still closes the MLflow run after the job's state is final."""
    cli.ledger.add(job(ID, state=JobState.HALTED))
    if command[0] == "halt":
        cli.ledger.script[ID] = [running(job), job(ID, state=JobState.HALTED)]
    cli.airflow.states = ["running", "running", "failed"]
    cli.ok(*command)
    assert cli.airflow.states == []


@pytest.fixture
def mlflow_deletes(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []

    class Api:
        def __init__(self, uri: str, *, login: tuple[str, str] | None = None) -> None: ...

        def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
            calls.append({"path": path, **body})
            return {}

    monkeypatch.setattr("ffdl_ops.adapters.tracking.rest.MlflowApi", Api)
    return calls


@pytest.fixture
def stored(cli: Any) -> None:
    for key in (f"jobs/{ID}/results/m", f"jobs/{ID}/logs/l", f"jobs/{ID}9/results/m", "code/a.zip", "datasets/d"):
        cli.store.put("ffdl-vision", key)
    cli.store.put("ffdl-vision", f"out/{ID}/m")
    cli.store.put("ffdl-vision", f"out/{ID}9/m")


@pytest.mark.usefixtures("stored")
def test_deleting_removes_what_the_job_left_and_nothing_else(cli: Any, job: Any, mlflow_deletes: list[Any]) -> None:
    """Pitfall 44: everything that a job owns goes with it."""
    stores = [{"id": "d", "type": "mount_cos", "training_results": {"container": "ffdl-vision/out"}}]
    cli.ledger.add(job(ID, manifest={"name": "d", "example": "digits-pytorch", "data_stores": stores}))
    told = json.loads(cli.ok("delete", ID, "--json").stdout)
    assert told == {"job_id": ID, "objects": 3, "mlflow_run": True}
    left = {key for _, key in cli.store.objects}
    assert left == {f"jobs/{ID}9/results/m", "code/a.zip", "datasets/d", f"out/{ID}9/m"}
    assert mlflow_deletes == [{"path": "runs/delete", "run_id": "run1"}]


@pytest.mark.usefixtures("stored", "mlflow_deletes")
def test_the_record_of_a_deleted_job_stays_and_says_so_and_it_can_not_be_resumed(cli: Any, job: Any) -> None:
    cli.ledger.add(job(ID))
    cli.ledger.rows[ID] = {"checkpoints": [CheckpointRecord(3, 1, 40, 2048, 2, True, True, START)]}
    assert json.loads(cli.ok("show", ID, "--json").stdout)["checkpoints"]
    cli.ok("delete", ID)
    assert not json.loads(cli.ok("show", ID, "--json").stdout)["checkpoints"]
    assert json.loads(cli.ok("show", ID, "--json").stdout)["deleted_at"] == "2026-01-01T12:02:00Z"
    assert "deleted" in cli.refused(3, "resume", ID)
    assert cli.airflow.cleared == []
    assert json.loads(cli.ok("delete", ID, "--json").stdout)["objects"] == 0


@pytest.mark.usefixtures("stored")
def test_a_living_job_is_not_deleted(cli: Any, job: Any, mlflow_deletes: list[Any]) -> None:
    cli.ledger.add(running(job))
    before = dict(cli.store.objects)
    assert "--force" in cli.refused(3, "delete", ID)
    assert (cli.store.objects, mlflow_deletes, cli.airflow.failed) == (before, [], [])


@pytest.mark.usefixtures("stored", "mlflow_deletes")
def test_forced_it_is_halted_first_and_deleted_when_it_has_ended(cli: Any, job: Any) -> None:
    cli.ledger.script[ID] = [running(job), running(job), running(job, "STORING"), job(ID, state=JobState.HALTED)]
    cli.ok("delete", ID, "--force")
    assert cli.airflow.failed == [RUN]
    assert cli.ledger.halts == [(ID, "ann")]
    assert not [key for _, key in cli.store.objects if key.startswith(f"jobs/{ID}/")]


@pytest.mark.usefixtures("stored")
def test_a_run_that_is_gone_from_mlflow_already_does_not_stop_the_deletion(
    cli: Any, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ffdl_ops.adapters.tracking.rest import MlflowApi, TrackingRefused

    def refuse(self: Any, path: str, body: Any) -> Any:
        raise TrackingRefused("no such run", code="RESOURCE_DOES_NOT_EXIST")

    monkeypatch.setattr(MlflowApi, "post", refuse)
    cli.ledger.add(job(ID))
    assert json.loads(cli.ok("delete", ID, "--json").stdout)["mlflow_run"] is False
