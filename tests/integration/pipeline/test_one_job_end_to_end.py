"""One job through every stage, on the real platform."""

from __future__ import annotations

import json

import pytest

from ffdl_ops.adapters.storage.store import ObjectStore
from tests.support.rig import Rig, eventually
from tests.support.tracking import mlflow_client

pytestmark = pytest.mark.slow

DATA = "ffdl-vision/datasets/digits"


def keys(rig: Rig, prefix: str) -> list[str]:
    store = ObjectStore(rig.settings.store_config("vision"))
    return [item.key for item in store.list("ffdl-vision", prefix)]


def test_a_job_trains_and_leaves_model_checkpoints_logs_and_metrics(rig: Rig) -> None:
    run = rig.submit(example="digits-pytorch", learners=2, data=DATA)
    job = rig.wait_job(run, {"COMPLETED", "FAILED", "HALTED"}, within_s=240)
    assert job.state == "COMPLETED", rig.story(run)
    assert rig.wait_run(run) == "success"
    prefix = f"jobs/{run.job_id}"
    assert any(key.endswith("model.pt") for key in keys(rig, f"{prefix}/results/"))
    assert any(key.endswith("MANIFEST.json") for key in keys(rig, f"{prefix}/checkpoints/"))
    logs = keys(rig, f"{prefix}/logs/attempt-1/")
    assert {f"{prefix}/logs/attempt-1/learner-{n}.log" for n in (1, 2)} <= set(logs)
    shown = rig.airflow.task_log(run.dag_id, run.run_id, "learners")
    assert "[learner 1]" in shown
    assert "[learner 2]" in shown
    mlflow_run = mlflow_client(rig.settings).get_run(str(job.mlflow_run_id))
    assert mlflow_run.info.status == "FINISHED"
    assert mlflow_run.data.metrics["test_accuracy"] >= 95.0
    assert rig.ledger.lease(run.job_id) is None
    assert rig.pods(run) == []


def test_while_a_job_trains_it_uses_no_worker_slot(rig: Rig) -> None:
    run = rig.probe(flags="--steps 60 --seconds-per-step 0.5")
    rig.wait_job(run, {"PROCESSING"})
    rig.wait_task(run, "learners", {"deferred"})
    rig.wait_task(run, "monitor", {"deferred"})
    states = rig.airflow.task_states(run.dag_id, run.run_id)
    assert "running" not in states.values()
    assert "queued" not in states.values()
    rig.airflow.mark_run_failed(run.dag_id, run.run_id)
    rig.wait_run(run)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"gpus": -1}, ("gpus", "-1")),
        ({"gpu_type": "H900", "gpus": 1}, ("gpu_type", "H900")),
        ({"data": "no-such-bucket/x"}, ("data", "no-such-bucket")),
        ({"learners": 9, "gpus": 1, "gpu_type": "V100"}, ("learners", "9", "8")),
    ],
)
def test_a_wrong_form_fails_in_plan_with_one_readable_message(
    rig: Rig, form: dict[str, object], words: tuple[str, ...]
) -> None:
    from ffdl_ops.adapters.airflow_api import AirflowApiError

    try:
        run = rig.submit(**{"example": "probe", **form})
    except AirflowApiError as refused:  # Airflow itself refuses what the form's own schema excludes
        assert all(word in str(refused) for word in words)
        return
    assert rig.wait_run(run) == "failed"
    assert rig.task(run, "plan") == "failed"
    log = rig.airflow.task_log(run.dag_id, run.run_id, "plan")
    assert all(word in log for word in words), log
    assert rig.pods(run) == []


@pytest.mark.parametrize(
    "value", [10**30, [{"a": -(10**30)}], json.loads("[" * 230 + "]" * 230)], ids=["number", "within", "deep"]
)
def test_a_value_that_no_task_can_be_given_is_refused_in_plan_by_its_name(rig: Rig, value: object) -> None:
    """Every stage of such a run died before its first line, and was tried again and again."""
    run = rig.submit(example="probe", lerners=value)
    assert rig.wait_run(run) == "failed"
    tasks = {one["task_id"]: one for one in rig.airflow.task_instances(run.dag_id, run.run_id)}
    log = rig.airflow.task_log(run.dag_id, run.run_id, "plan")
    assert "Refused: the form has no field 'lerners'; did you mean 'learners'?" in log
    assert {tasks[stage]["try_number"] for stage in ("plan", "release", "conclude")} == {1}
    assert rig.job(run) is None


def test_a_user_error_fails_the_job_with_class_and_evidence_and_stores_its_logs(rig: Rig) -> None:
    """Pitfall 44: logs are stored on failure too."""
    run = rig.probe(flags="--exit-code 3 --exit-at-step 2")
    job = rig.wait_job(run, {"FAILED", "COMPLETED", "HALTED"})
    assert job.state == "FAILED", rig.story(run)
    assert (job.failure or {})["class"] == "user_error"
    assert keys(rig, f"jobs/{run.job_id}/logs/attempt-1/learner-1.log")
    assert rig.wait_run(run) == "failed"
    assert rig.pods(run) == []
    assert rig.ledger.lease(run.job_id) is None


def test_a_gang_that_loses_a_learner_restarts_as_one_from_its_checkpoint(rig: Rig) -> None:
    run = rig.probe(flags="--steps 40 --seconds-per-step 0.5", learners=2)
    rig.wait_job(run, {"PROCESSING"})
    eventually("a checkpoint", lambda: keys(rig, f"jobs/{run.job_id}/checkpoints/"))
    victim = rig.ledger.open_attempt(run.job_id)
    assert victim is not None
    rig.cluster.delete_pod("ffdl-vision", f"{run.job_id}-a1-l1", grace_s=0)
    job = rig.wait_job(run, {"COMPLETED", "FAILED", "HALTED"}, within_s=180)
    assert job.state == "COMPLETED", rig.story(run)
    attempts = rig.ledger.attempts(run.job_id)
    assert len(attempts) == 2
    assert attempts[1].restored_generation is not None
