"""A job without the side-car, or without being followed, comes to the same end as any other."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ffdl_ops.adapters.storage.store import ObjectStore
from tests.support.rig import Rig, Run, eventually
from tests.support.tracking import mlflow_client

pytestmark = pytest.mark.slow


def submit(rig: Rig, flags: str, **manifest: Any) -> Run:
    """The probe, by a manifest."""
    text = yaml.safe_dump(
        {"name": "x", "example": "probe", "framework": {"command": f"python3 probe.py {flags}"}, **manifest}
    )
    return rig.submit(manifest=text)


def log_of(rig: Rig, run: Run, attempt: int) -> str:
    store = ObjectStore(rig.settings.store_config("vision"))
    return store.get_bytes("ffdl-vision", f"jobs/{run.job_id}/logs/attempt-{attempt}/learner-1.log").decode()


def test_without_a_sidecar_nothing_is_uploaded_and_a_restart_begins_anew(rig: Rig) -> None:
    run = submit(
        rig, "--steps 6 --seconds-per-step 1 --crash-at-step 4", checkpoint={"enabled": False}, retry={"user_error": 1}
    )
    rig.wait_job(run, {"PROCESSING"})
    [pod] = eventually(
        "the pod", lambda: rig.cluster.pods("ffdl-vision", f"ffdl.dev/job={run.job_id},ffdl.dev/attempt")
    )
    assert [one.name for one in pod.spec.init_containers] == ["prepare"]
    # Each attempt crashes, since it knows nothing of the one before; with its checkpoint the second would have been resumed.
    job = rig.wait_job(run, {"FAILED", "COMPLETED", "HALTED"}, within_s=180)
    assert job.state == "FAILED", rig.story(run)
    assert [one.restored_generation for one in rig.ledger.attempts(run.job_id)] == [None, None]
    assert "step=1 " in log_of(rig, run, 2) and "resumed" not in log_of(rig, run, 2)
    store = ObjectStore(rig.settings.store_config("vision"))
    assert list(store.list("ffdl-vision", f"jobs/{run.job_id}/checkpoints/")) == []
    assert rig.wait_run(run) == "failed" and rig.task(run, "checkpoint") == "success"
    assert rig.pods(run) == [] and rig.ledger.lease(run.job_id) is None


def test_a_job_that_is_not_followed_has_all_its_metrics_and_output_in_the_end(rig: Rig) -> None:
    run = submit(rig, "--steps 40 --seconds-per-step 0.2", monitor={"enabled": False})
    rig.wait_job(run, {"PROCESSING"})
    rig.wait_task(run, "monitor", {"success"})
    job = rig.job(run)
    assert job is not None
    client = mlflow_client(rig.settings)
    rig.wait_task(run, "learners", {"deferred"})
    shown = "step="
    eventually("it has trained a few steps", lambda: shown in rig.cluster.pod_log("ffdl-vision", rig.pods(run)[0]))
    assert shown not in rig.airflow.task_log(run.dag_id, run.run_id, "learners")
    assert "loss" not in client.get_run(str(job.mlflow_run_id)).data.metrics
    job = rig.wait_job(run, {"FAILED", "COMPLETED", "HALTED"}, within_s=180)
    assert job.state == "COMPLETED" and rig.wait_run(run) == "success", rig.story(run)
    assert shown in rig.airflow.task_log(run.dag_id, run.run_id, "learners")
    points = client.get_metric_history(str(job.mlflow_run_id), "loss")
    assert [point.step for point in points] == list(range(1, 41))
    tags = client.get_run(str(job.mlflow_run_id)).data.tags
    assert any("attempt" in name for name in tags), tags
