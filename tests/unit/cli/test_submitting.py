"""`ffdl submit`: what it sends, what it keeps to itself, and how it follows a job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ffdl_ops.core.jobs.ids import job_id
from ffdl_ops.core.jobs.states import JobState
from tests.unit.cli.test_validating_manifests import INLINE

EXAMPLE = ("submit", "--tenant", "vision", "--example", "digits-pytorch")


def goes_through(cli: Any, make: Any, *states: str, **end: Any) -> None:
    """The job that is triggered next goes through these states, one each time that it is read."""

    def script(dag_id: str, run_id: str) -> None:
        name = job_id(dag_id, run_id)
        jobs = [make(name, run_id=run_id, state=JobState(state), outcome=None) for state in states]
        cli.ledger.script[name] = [None, *jobs[:-1], make(name, run_id=run_id, state=JobState(states[-1]), **end)]

    cli.airflow.on_trigger = script


def test_it_triggers_the_tenants_dag_with_a_run_id_of_its_own(cli: Any) -> None:
    out = cli.ok(*EXAMPLE).stdout
    cli.ok(*EXAMPLE)
    (dag_id, run_id, conf), (_, second, _) = cli.airflow.triggered
    assert dag_id == "train__vision"
    assert run_id != second
    assert job_id(dag_id, run_id) in out
    assert f"http://airflow/dags/train__vision/runs/{run_id}" in out
    assert conf["submitted_by"] == "ann"
    assert yaml.safe_load(conf["manifest"])["example"] == "digits-pytorch"


def test_programs_get_one_document_with_the_ids(cli: Any) -> None:
    told = json.loads(cli.ok(*EXAMPLE, "--json").stdout)
    assert told["job_id"] == job_id("train__vision", told["run_id"])
    assert (told["dag_id"], told["tenant"]) == ("train__vision", "vision")


def test_what_is_sent_is_what_the_platform_reads(cli: Any) -> None:
    from ffdl_ops.core.jobs.form import manifest_from_form

    cli.ok(*EXAMPLE, "--learners", "2", "--set", "checkpoint.keep=5")
    manifest = manifest_from_form(cli.airflow.triggered[0][2])
    assert (manifest.learners, manifest.checkpoint.keep) == (2, 5)


def test_a_refused_job_is_not_triggered_and_its_code_not_stored(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    cli.refused(
        3, "submit", "--tenant", "vision", "--framework", "pytorch", "--command", "python3 train.py", "--code",
        "train.py", "--gpus", "-1",
    )  # fmt: skip
    assert cli.airflow.triggered == []
    assert cli.store.objects == {}


def test_code_is_stored_once_by_its_digest(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print(1)\n")
    args = ("submit", "--tenant", "vision", "--framework", "pytorch", "--command", "python3 train.py", "--code", "src")
    cli.ok(*args)
    cli.ok(*args)
    uris = [yaml.safe_load(conf["manifest"])["code"] for _, _, conf in cli.airflow.triggered]
    assert len(cli.store.puts) == 1
    assert uris == [f"s3://ffdl-vision/{cli.store.puts[0]}"] * 2


def test_code_that_is_not_there_is_named(cli: Any) -> None:
    said = cli.refused(
        65, "submit", "--tenant", "vision", "--framework", "pytorch", "--command", "x", "--code", "nowhere"
    )
    assert "nowhere" in said


def test_credentials_become_a_secret_and_leave_no_trace(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pitfall 24: secrets by reference only."""
    kept: list[tuple[str, dict[str, Any]]] = []

    def put(settings: Any, tenant: str, connection: dict[str, Any]) -> str:
        kept.append((tenant, connection))
        return "ffdl-data-abc"

    monkeypatch.setattr("ffdl_ops.adapters.cluster.secrets.put_connection_secret", put)
    (tmp_path / "own.yml").write_text(INLINE)
    output = cli.ok("submit", "own.yml", "--tenant", "vision").output
    tenant, connection = kept[0]
    assert tenant == "vision"
    assert connection["password"] == "hunter2hunter2"
    assert connection["user_name"] == "alice-key-id"
    assert connection["auth_url"] == "http://s3.example"
    everything = output + json.dumps(cli.airflow.triggered)
    assert "hunter2" not in everything
    assert "alice-key-id" not in everything
    sent = yaml.safe_load(cli.airflow.triggered[0][2]["manifest"])
    assert sent["data_stores"][0]["connection"] == {"secret": "ffdl-data-abc"}


@pytest.mark.parametrize(("state", "code"), [("COMPLETED", 0), ("FAILED", 1), ("HALTED", 4)])
def test_following_ends_with_the_jobs_outcome(cli: Any, job: Any, state: str, code: int) -> None:
    failure = {"class": "oom", "summary": "learner 1 ran out of memory", "advice": "ask for more memory"}
    goes_through(cli, job, "PENDING", "PROCESSING", state, failure=failure if state == "FAILED" else None)
    result = cli.run(*EXAMPLE, "--follow")
    assert result.exit_code == code
    assert f"is {state} after" in result.stdout
    assert ("ask for more memory" in result.stdout) == (state == "FAILED")
    assert ("s3://ffdl-vision/jobs/" in result.stdout) == (state == "COMPLETED")


def test_following_tells_each_state_once_and_why_it_waits(cli: Any, job: Any, story: Any, wait: Any) -> None:
    goes_through(cli, job, "QUEUED", "QUEUED", "PROCESSING", "COMPLETED")
    inner = cli.airflow.on_trigger

    def script(dag_id: str, run_id: str) -> None:
        inner(dag_id, run_id)
        name = job_id(dag_id, run_id)
        cli.ledger.rows[name] = {"transitions": story(name, "PENDING", "QUEUED"), "waits": [wait(name)]}

    cli.airflow.on_trigger = script
    out = cli.ok(*EXAMPLE, "--follow").stdout
    assert out.count("because QUEUED") == 1
    assert out.count("needs 2 V100, 1 is free") == 1


def test_following_for_a_program_leaves_standard_output_to_the_document(cli: Any, job: Any) -> None:
    goes_through(cli, job, "PENDING", "COMPLETED")
    result = cli.ok(*EXAMPLE, "--follow", "--json")
    assert json.loads(result.stdout)["state"] == "COMPLETED"
    assert "COMPLETED" in result.stderr


def test_a_job_that_plan_refuses_ends_with_the_words_of_plan(cli: Any) -> None:
    cli.airflow.states = ["running", "failed"]
    cli.airflow.log = (
        "2026-01-01T12:00:00Z Starting\n2026-01-01T12:00:01Z Refused: 2 problems:\n- gpus: too many\n- cpus: too many\n"
        "2026-01-01T12:00:02Z Task failed"
    )
    said = cli.refused(3, *EXAMPLE, "--follow")
    assert "gpus: too many" in said
    assert "cpus: too many" in said
    assert "Task failed" not in said


def test_following_gives_up_after_the_time_given_and_says_that_the_job_goes_on(cli: Any, job: Any) -> None:
    goes_through(cli, job, *["PROCESSING"] * 50_000)
    assert "goes on" in cli.refused(75, *EXAMPLE, "--follow", "--timeout", "0.05")


def test_a_short_outage_of_the_ledger_does_not_end_the_following(
    cli: Any, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ffdl_ops.adapters.ledger import LedgerUnavailable

    goes_through(cli, job, "PROCESSING", "COMPLETED")
    answer, outage = cli.ledger.job, iter([True, True])

    def job_or_outage(name: str) -> Any:
        if next(outage, False):
            raise LedgerUnavailable("the ledger is restarting")
        return answer(name)

    monkeypatch.setattr(cli.ledger, "job", job_or_outage)
    assert cli.run(*EXAMPLE, "--follow").exit_code == 0


def test_code_that_is_an_empty_word_is_not_left_out(cli: Any) -> None:
    """`--code "$DIR"` with nothing in the variable would train without the program."""
    said = cli.refused(2, "submit", "--tenant", "vision", "--framework", "pytorch", "--command", "x", "--code", "")
    assert "--code is empty" in said
    assert cli.airflow.triggered == []
