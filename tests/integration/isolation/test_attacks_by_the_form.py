"""What a tenant's person can write into the form or a manifest to reach another tenant: each is refused in words, and nothing
of the other tenant's is touched."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
import yaml

from ffdl_ops.adapters.airflow_api import AirflowApi, AirflowApiError
from ffdl_ops.adapters.cluster.secrets import put_connection_secret
from ffdl_ops.core.jobs.ids import dag_id, job_id, namespace
from tests.support.platform import Platform
from tests.support.rig import Rig, Run
from tests.support.victims import Victims

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

TEMPLATE = "{{ conn.ffdl_s3_speech.password }}{{ var.value.x }}{% raw %}"
OWN = {"name": "x", "framework": {"name": "pytorch", "command": "true"}}
STORE = {"id": "d", "type": "mount_cos"}
OF_NODE = {"type": "mount_volume", "training_data": {"container": "ffdl-vision/x"}}


def manifest(**fields: Any) -> dict[str, Any]:
    return {"manifest": yaml.safe_dump({**OWN, **fields})}


def data(container: str, **connection: str) -> dict[str, Any]:
    store: dict[str, Any] = {**STORE, "training_data": {"container": container}}
    if connection:
        store["connection"] = connection
    return manifest(data_stores=[store])


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "data of another bucket": ({"example": "probe", "data": "ffdl-speech/datasets/digits"}, "may use the buckets"),
    "data by a way up": ({"example": "probe", "data": "ffdl-vision/../ffdl-speech/datasets"}, "data"),
    "results into another bucket": ({"example": "probe", "results": "ffdl-speech/planted"}, "may use the buckets"),
    "code of another bucket": (manifest(code="s3://ffdl-speech/code/x.zip"), "tenant's own bucket"),
    "code by a way up": (manifest(code="s3://ffdl-vision/../ffdl-speech/code/x.zip"), "code"),
    "an image by a path": ({"example": "probe", "image": "../../etc/passwd"}, "image"),
    "an image with options": ({"example": "probe", "image": "ffdl/x:1 --privileged"}, "image"),
    "a GPU type as a template": ({"example": "probe", "gpus": 1, "gpu_type": TEMPLATE}, "gpu_type"),
    "data as a template": ({"example": "probe", "data": TEMPLATE}, "data"),
    "results as a template": ({"example": "probe", "results": TEMPLATE}, "results"),
    "code as a template": ({"example": "probe", "code": TEMPLATE}, "code"),
    "an image as a template": ({"example": "probe", "image": TEMPLATE}, "image"),
    "a framework as a template": ({"example": "probe", "framework": TEMPLATE}, "framework"),
    "cpus as a template": ({"example": "probe", "cpus": TEMPLATE}, "cpus"),
    "memory as a template": ({"example": "probe", "memory": TEMPLATE}, "memory"),
    "a deadline as a template": ({"example": "probe", "deadline": TEMPLATE}, "deadline"),
    "a manifest as a template": ({"manifest": TEMPLATE}, "no valid YAML"),
    "a field that the form has not": ({"example": "probe", "tenant": "speech"}, "tenant"),
    "another tenant": (manifest(tenant="speech"), "tenant"),
    "another namespace": (manifest(namespace="ffdl-speech"), "namespace"),
    "labels": (manifest(labels={"ffdl.dev/tenant": "speech"}), "labels"),
    "a pod's name": (manifest(pod_name="job-0000000000-a1-l0"), "pod_name"),
    "a job's id": (manifest(job_id="job-0000000000"), "job_id"),
    "an account": (manifest(service_account="ffdl-platform"), "service_account"),
    "a pod template": (manifest(pod_override={"spec": {"hostNetwork": True}}), "pod_override"),
    "volumes": (manifest(volumes=[{"hostPath": {"path": "/"}}]), "volumes"),
    "a directory of a node": (manifest(data_stores=[{**STORE, **OF_NODE}]), "mounted"),
    "the platform's keys by env": (manifest(env={"FFDL_S3_ACCESS_KEY_ID": "x"}), "set by the platform"),
    "another job's id by env": (manifest(env={"TRAINING_ID": "job-0000000000"}), "set by the platform"),
    "the launcher's linker by env": (manifest(env={"LD_PRELOAD": "/tmp/x.so"}), "launcher"),
    "the launcher's Python by env": (manifest(env={"PYTHONPATH": "/tmp"}), "launcher"),
    "the storage secret": (data("ffdl-speech/datasets", secret="ffdl-storage"), "secret"),
    "a secret by a path": (data("ffdl-speech/datasets", secret="../ffdl-speech/ffdl-storage"), "secret"),
    "a store's password in sight": (
        data("ffdl-vision/x", auth_url="http://127.0.0.1:1", user_name="k", password="not-so-secret"), "password",
    ),
}  # fmt: skip


def trigger(attacker: AirflowApi, form: dict[str, Any], run_id: str | None = None) -> Run | str:
    """The attacker's run; or Airflow's own refusal, in its words."""
    name = run_id or f"attack-{uuid.uuid4().hex[:10]}"
    try:
        attacker.trigger(dag_id("vision"), name, form)
    except AirflowApiError as error:
        assert error.status in (400, 422), error
        return str(error)
    return Run(dag_id("vision"), name, job_id(dag_id("vision"), name), "vision")


def refusal(rig: Rig, answer: Run | str) -> str:
    """The words of the refusal, once it has come."""
    if isinstance(answer, str):
        return answer
    rig.wait_task(answer, "plan", {"failed"}, within_s=600)
    log = rig.airflow.task_log(answer.dag_id, answer.run_id, "plan")
    _, marked, words = log.partition("Refused: ")
    assert marked, log[-3000:]
    return words[:3000]


def test_every_way_that_names_another_tenant_is_refused_and_touches_nothing(
    rig: Rig, attacker: AirflowApi, victims: Victims
) -> None:
    theirs = put_connection_secret(rig.settings, "speech", {"user_name": "theirs", "password": "theirs-alone"})
    attacks = {
        **REFUSED,
        "another tenant's secret": (data("ffdl-speech/datasets", secret=theirs), "has no data-store secret named"),
    }
    before = victims.everything()
    answers = {name: trigger(attacker, form) for name, (form, _) in attacks.items()}
    told = {name: refusal(rig, answer) for name, answer in answers.items()}
    silent = {name: words for name, words in told.items() if attacks[name][1] not in words}
    assert not silent
    for answer in answers.values():
        if isinstance(answer, Run):
            assert rig.wait_run(answer, within_s=600) == "failed"
            assert not rig.pods(answer)
    assert victims.everything() == before
    secret = rig.settings.store_config("speech").secret_key
    assert not [name for name, words in told.items() if secret in words or "theirs-alone" in words]


def test_what_is_accepted_is_taken_literally(rig: Rig, attacker: AirflowApi, victims: Victims) -> None:
    before = victims.everything()
    literal = "{{ conn.ffdl_s3_speech.password }}"
    form = {
        "example": "probe", "name": literal, "submitted_by": "speech-user",
        "command": f"echo 'said {literal} $(hostname) $(FFDL_RANK)'; cd ../../../..; ls; true",
    }  # fmt: skip
    run = trigger(attacker, form)
    assert isinstance(run, Run), run
    assert rig.wait_run(run, within_s=300) == "success"
    job = rig.job(run)
    assert job is not None
    assert (job.tenant, job.user, job.name) == ("vision", "vision-user", literal)
    log = rig.airflow.task_log(run.dag_id, run.run_id, "learners")
    assert f"said {literal} $(hostname) $(FFDL_RANK)" in log
    assert rig.settings.store_config("speech").secret_key not in log
    assert victims.everything() == before


def test_a_run_named_like_another_tenants_is_a_job_of_its_own(
    rig: Rig, attacker: AirflowApi, victim: Run, victims: Victims
) -> None:
    before = victims.everything()
    run = trigger(attacker, {"example": "probe"}, victim.run_id)
    assert isinstance(run, Run), run
    assert run.job_id != victim.job_id
    assert rig.wait_run(run, within_s=300) == "success"
    assert victims.everything() == before
    assert not rig.cluster.pods(namespace("speech"), f"ffdl.dev/job={run.job_id}")


@pytest.mark.parametrize("name", ["../train__speech/x", "x/../../y", "x\n", "a" * 300])
def test_a_run_id_that_is_a_way_somewhere_harms_nobody(
    name: str, rig: Rig, attacker: AirflowApi, victims: Victims
) -> None:
    before = victims.everything()
    answer = trigger(attacker, {"example": "none"}, name)
    assert isinstance(answer, str) or refusal(rig, answer)
    assert victims.everything() == before


def test_another_tenants_runs_can_be_neither_seen_nor_started_nor_stopped(
    platform: Platform, attacker: AirflowApi, victim: Run, victims: Victims
) -> None:
    before = victims.everything()
    theirs = (victim.dag_id, victim.run_id)
    attempts = {
        "see": lambda: attacker.run(*theirs),
        "read": lambda: attacker.task_log(*theirs, "learners"),
        "start": lambda: attacker.trigger(dag_id("speech"), "planted", {"example": "probe"}),
        "stop": lambda: attacker.mark_run_failed(*theirs),
        "clear": lambda: attacker.clear_run(*theirs),
        "clear a task": lambda: attacker.clear_tasks(*theirs, ["conclude"]),
    }
    for name, attempt in attempts.items():
        try:
            found = attempt()
        except AirflowApiError as error:
            assert error.status in (403, 404), (name, error)
        else:
            assert not found, name
    assert victims.everything() == before
