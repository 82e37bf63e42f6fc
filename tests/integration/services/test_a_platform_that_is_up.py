"""What a person and a program find on a platform that `ffdl up` has started."""

from __future__ import annotations

import json
import stat
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ffdl_ops.adapters.airflow_api import AirflowApi, AirflowApiError
from ffdl_ops.adapters.ledger import Ledger
from ffdl_ops.adapters.storage.store import ObjectStore
from ffdl_ops.adapters.tracking.rest import MlflowApi, TrackingRefused
from ffdl_ops.core.errors import FfdlError
from tests.support.platform import Platform

pytestmark = pytest.mark.slow


def as_user(platform: Platform, name: str) -> AirflowApi:
    settings = platform.settings
    return AirflowApi(settings.airflow_url, name, settings.endpoints["users"][name])


def experiments(platform: Platform, tenant: str) -> list[str]:
    """The experiments that a tenant's people see in MLflow."""
    settings = platform.settings
    login = (f"{tenant}-user", json.loads((platform.home / "secrets.json").read_text())["users"][f"{tenant}-user"])
    answer = MlflowApi(settings.mlflow_uri, login=login).post("experiments/search", {"max_results": 100})
    return [one["name"] for one in answer["experiments"]]


def run_chain(api: AirflowApi, run_id: str) -> list[dict[str, str]]:
    api.trigger("chain", run_id, {})
    deadline = time.monotonic() + 60
    while api.run_state("chain", run_id) not in ("success", "failed"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert api.run_state("chain", run_id) == "success"
    return sorted(api.task_instances("chain", run_id), key=lambda task: str(task["task_id"]))


def test_every_service_is_up_and_says_so(small_platform: Platform) -> None:
    done = small_platform.ffdl("status", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(done.stdout)
    assert {row["service"] for row in rows} >= {"postgres", "s3", "mlflow", "minicluster", "airflow-scheduler"}
    assert {row["state"] for row in rows} == {"up"}


def test_a_second_up_reuses_what_runs(small_platform: Platform) -> None:
    stack = small_platform.stack
    before = {row.service: row.pid for row in stack.status()}
    assert stack.up() == []
    assert {row.service: row.pid for row in stack.status()} == before


def test_a_component_that_was_killed_is_started_again_and_only_it(small_platform: Platform) -> None:
    stack = small_platform.stack
    before = {row.service: row.pid for row in stack.status()}
    leader = stack.process("airflow-scheduler").find()
    assert leader is not None
    children = leader.children(recursive=True)
    leader.kill()
    leader.wait(10)
    assert next(row for row in stack.status() if row.service == "airflow-scheduler").state == "down"
    assert stack.up() == ["airflow-scheduler"]
    after = {row.service: row.pid for row in stack.status()}
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"airflow-scheduler"}
    assert not [child for child in children if child.is_running() and child.status() != "zombie"]
    assert {row.state for row in stack.status()} == {"up"}


def test_a_tenants_people_see_and_trigger_their_own_dag_alone(small_platform: Platform) -> None:
    stack = small_platform.stack
    stack.wait_for_dag("chain")
    stack.wait_for_dag("speech_only")
    person = as_user(small_platform, "vision-user")
    assert person.has_dag("chain")
    person.trigger("chain", "by-a-person", {})
    with pytest.raises(AirflowApiError) as refused:
        person.trigger("speech_only", "by-a-stranger", {})
    assert refused.value.status == 403


def test_an_imported_stage_starts_in_a_fraction_of_a_second(small_platform: Platform) -> None:
    """The scheduler's workers have imported what tasks need: a task that does nothing takes no second."""
    small_platform.stack.wait_for_dag("chain")
    api = AirflowApi.from_settings(small_platform.settings)
    run_chain(api, f"first-{time.time()}")
    tasks = run_chain(api, f"second-{time.time()}")
    took = sorted(
        (datetime.fromisoformat(task["end_date"]) - datetime.fromisoformat(task["start_date"])).total_seconds()
        for task in tasks
    )
    assert took[len(took) // 2] < 0.8


def test_a_tenants_key_opens_its_own_buckets_alone(small_platform: Platform) -> None:
    settings = small_platform.settings
    vision, speech = (ObjectStore(settings.store_config(name)) for name in ("vision", "speech"))
    vision.put_bytes("ffdl-vision", "a/b", b"mine")
    assert vision.get_bytes("ffdl-vision", "a/b") == b"mine"
    with pytest.raises(FfdlError):
        speech.get_bytes("ffdl-vision", "a/b")
    with pytest.raises(FfdlError):
        speech.put_bytes("ffdl-vision", "a/b", b"theirs")
    assert vision.get_bytes("ffdl-vision", "a/b") == b"mine"


def test_passwords_and_keys_are_readable_by_their_owner_alone(small_platform: Platform) -> None:
    for name in ("secrets.json", "endpoints.json", "s3/keys.json"):
        assert stat.S_IMODE((small_platform.home / name).stat().st_mode) == 0o600
    logs = [path for path in (small_platform.home / "logs").rglob("*") if path.is_file()]
    words = small_platform.settings.endpoints["users"].values()
    assert logs
    assert not [path for path in logs for word in words if word in path.read_text(errors="replace")]


def test_after_down_and_up_everything_is_still_there_and_a_backup_comes_back(
    small_platform: Platform, tmp_path: Path
) -> None:
    settings = small_platform.settings
    ledger = Ledger(settings.ledger_url)
    ledger.audit("ann", "test", datetime.now(UTC), "before the backup")
    saved = small_platform.ffdl("backup", str(tmp_path))
    assert saved.returncode == 0, saved.stderr
    ledger.audit("ann", "test", datetime.now(UTC), "after the backup")
    ledger.close()
    store = ObjectStore(settings.store_config("vision"))
    store.put_bytes("ffdl-vision", "kept", b"1")
    api = AirflowApi.from_settings(settings)
    small_platform.stack.wait_for_dag("chain")
    api.trigger("chain", "kept", {})
    stack = small_platform.stack
    living = [process for name in stack.names for process in stack.process(name).family()]
    assert "postgres" in stack.down()
    assert not [process for process in living if process.is_running() and process.status() != "zombie"]
    assert {row.state for row in stack.status()} == {"down"}
    restored = small_platform.ffdl("restore", str(tmp_path), "--replace")
    assert restored.returncode == 0, restored.stderr
    assert {row.state for row in stack.status()} == {"down"}
    assert "postgres" in stack.up()
    words = [line.words for line in ledger.audit_lines() if line.action == "test"]
    ledger.close()
    assert words == ["before the backup"]
    assert store.get_bytes("ffdl-vision", "kept") == b"1"
    assert api.run_state("chain", "kept") is not None


def test_a_changed_configuration_restarts_what_it_concerns(small_platform: Platform) -> None:
    path = small_platform.home / "config" / "tenants.yaml"
    before = path.read_text()
    added = "\n  - name: audio\n    title: Sounds\n    gpu_quota: {K80: 1}\n    bucket: ffdl-audio\n"
    path.write_text(before.rstrip() + "\n" + added)
    try:
        stack = small_platform.stack
        pids = {row.service: row.pid for row in stack.status()}
        assert stack.up() == []
        after = {row.service: row.pid for row in stack.status()}
        assert after["airflow-scheduler"] != pids["airflow-scheduler"]
        assert after["mlflow"] == pids["mlflow"]
        store = ObjectStore(small_platform.settings.store_config("audio"))
        store.put_bytes("ffdl-audio", "x", b"1")
        with pytest.raises(AirflowApiError) as refused:
            as_user(small_platform, "audio-user").trigger("chain", "by-a-new-stranger", {})
        assert refused.value.status == 403
        assert experiments(small_platform, "audio") == ["ffdl/audio"]
        path.write_text(before)
        small_platform.stack.up()
        with pytest.raises(FfdlError):
            store.get_bytes("ffdl-audio", "x")
        assert (small_platform.home / "s3" / "buckets" / "ffdl-audio" / "x").read_bytes() == b"1"
        with pytest.raises(TrackingRefused) as unknown:
            experiments(small_platform, "audio")
        assert unknown.value.code == "UNAUTHENTICATED"
        assert experiments(small_platform, "vision") == ["ffdl/vision"]
    finally:
        path.write_text(before)
        small_platform.stack.up()  # what runs is as the configuration says again, for the tests that follow
