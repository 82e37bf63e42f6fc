"""What a tenant's own program finds when it looks for the platform and for another tenant, whose learner runs beside it."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ffdl_ops.adapters.storage.code import upload_code
from ffdl_ops.adapters.storage.errors import AccessRefused, DataMissing
from ffdl_ops.adapters.storage.store import ObjectStore
from tests.support.platform import Platform
from tests.support.rig import Rig, Run, eventually
from tests.support.victims import Victims

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(os.geteuid() != 0, reason="tenants have a uid of their own only where minicluster runs as root"),
]

SPY = Path(__file__).with_name("spy.py")


@dataclass(frozen=True)
class Loot:
    """What the spy has brought.

    :param told: its report.
    :param text: all that it could read, in one.
    """

    told: dict[str, Any]
    text: str
    beside: Run
    before: dict[str, Any]


def places(platform: Platform) -> dict[str, Any]:
    """Where an attacker would look, who knows how the platform is laid out."""
    home, settings = platform.home, platform.settings
    cluster = home / "minicluster"
    files = [
        home, home / "secrets.json", home / "endpoints.json", home / "s3" / "keys.json", home / "s3" / "buckets",
        home / "s3" / "buckets" / "ffdl-speech", home / "s3" / "buckets" / "ffdl-vision", home / "mlflow" / "login.ini",
        home / "logs", home / "logs" / "airflow", home / "airflow", home / "run", home / "postgres", cluster,
        cluster / "kubeconfig", cluster / "server", cluster / "server" / "objects.sqlite", cluster / "hostpath",
        *(path for path in cluster.glob("hostpath/**/ffdl-speech")), Path("/etc/shadow"), Path("/root"),
    ]  # fmt: skip
    airflow, mlflow, s3 = settings.airflow_url, settings.mlflow_uri, settings.endpoints["s3"]["endpoint"]
    port = platform.stack.ports["minicluster"]
    services = {
        "Airflow's DAGs": (f"{airflow}/api/v2/dags", {}),
        "Airflow's runs": (f"{airflow}/api/v2/dags/train__speech/dagRuns", {}),
        "Airflow's connections": (f"{airflow}/api/v2/connections", {"Authorization": "Bearer x"}),
        "the tasks' own API": (f"{airflow}/execution/connections/ffdl_s3_speech", {"Authorization": "Bearer x"}),
        "MLflow": (f"{mlflow}/api/2.0/mlflow/experiments/search?max_results=10", {}),
        "S3": (f"{s3}/ffdl-speech", {}),
        "the cluster's secrets": (f"https://127.0.0.1:{port}/api/v1/secrets", {}),
        "the cluster's pods": (f"https://127.0.0.1:{port}/api/v1/namespaces/ffdl-speech/pods", {"Authorization": "Bearer x"}),
        "the cluster in clear": (f"http://127.0.0.1:{port}/api/v1/namespaces/ffdl-speech/secrets", {}),
        "the cluster's faults": (f"https://127.0.0.1:{port}/admin/kill", {}),
    }  # fmt: skip
    [socket] = (home / "postgres").rglob(".s.PGSQL.*[0-9]") if (home / "postgres").exists() else [home]
    return {"files": [str(path) for path in files], "services": services, "postgres": str(socket)}


@pytest.fixture(scope="module")
def loot(platform: Platform, rig: Rig, victim: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loot]:
    """The spy's, sent by vision while a learner of speech runs."""
    known = Victims(rig)
    beside = rig.probe("speech", "--steps 900 --seconds-per-step 1")
    rig.wait_job(beside, {"PROCESSING"}, within_s=300)
    before = known.everything()
    program = tmp_path_factory.mktemp("spy") / "spy.py"
    source = SPY.read_text()
    empty = 'PLACES = {"files": [], "services": {}, "postgres": ""}'
    assert empty in source
    program.write_text(source.replace(empty, f"PLACES = {places(platform)!r}"))
    store = ObjectStore(platform.settings.store_config("vision"))
    code = upload_code(store, "ffdl-vision", program)
    run = rig.submit("vision", framework="pytorch", code=code, command="python3 spy.py", name="spy")
    keys: list[str] = []
    try:
        assert rig.wait_run(run, within_s=400) == "success", rig.story(run)
        keys = [one.key for one in store.list("ffdl-vision") if run.job_id in one.key]
        [found] = [key for key in keys if key.endswith("loot.json")]
        told = store.get_json("ffdl-vision", found)
        gathered = {name: base64.b64decode(one).decode("utf-8", "replace") for name, one in told["gathered"].items()}
        yield Loot(told, "\n".join(f"{name}\n{one}" for name, one in gathered.items()), beside, before)
    finally:
        store.delete_many("ffdl-vision", [*keys, code.removeprefix("s3://ffdl-vision/")])  # it holds vision's own key
        rig.airflow.mark_run_failed(beside.dag_id, beside.run_id)
        rig.wait_run(beside, within_s=300)


def test_it_could_look(loot: Loot) -> None:
    """Else the other tests would show nothing."""
    assert loot.told["processes"]["others"] > 10
    assert "own environment" in loot.told["gathered"]
    assert loot.told["services"]["Airflow's DAGs"] in (401, 403)


def test_each_tenants_pods_have_a_uid_of_their_own(loot: Loot, rig: Rig) -> None:
    import psutil

    beside = {
        process.uids().real
        for process in psutil.process_iter()
        if any("--steps 900" in word for word in _words(process))
    }
    assert loot.told["uid"] >= 20_000
    assert set(loot.told["groups"]) <= {loot.told["uid"]}
    assert {uid for uid in beside if uid >= 20_000}
    assert loot.told["uid"] not in beside


def _words(process: Any) -> list[str]:
    import psutil

    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_it_opens_no_file_of_the_platform_or_the_other_tenant(loot: Loot) -> None:
    assert loot.told["opened"] == []


def test_it_learns_no_secret_but_its_own_tenants(loot: Loot, platform: Platform) -> None:
    known = json.loads((platform.home / "secrets.json").read_text())
    own = set(known["s3"].pop("vision").values())
    hidden = {word for word in _texts(known) if len(word) >= 12} - own
    assert len(hidden) >= 12
    assert not [word[:3] for word in hidden if word in loot.text]
    token = (platform.home / "minicluster" / "kubeconfig").read_text().partition("token: ")[2].split()[0]
    assert len(token) > 12
    assert token not in loot.text


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif value:
        yield str(value)


def test_it_reaches_into_no_process_of_another_user(loot: Loot) -> None:
    found = loot.told["processes"]
    assert {what: found[what] for what in ("environ", "cwd", "fd", "signalled", "traced")} == {
        "environ": [], "cwd": [], "fd": [], "signalled": [], "traced": [],
    }  # fmt: skip


def test_no_service_lets_it_in(loot: Loot) -> None:
    services = dict(loot.told["services"])
    postgres = {name: services.pop(name) for name in list(services) if name.startswith("postgres")}
    assert len(postgres) == 4
    assert "in" not in postgres.values()
    assert all(status in (400, 401, 403, 404, 405) for status in services.values()), services
    assert "ffdl-speech-" not in loot.text


def test_its_own_key_opens_nothing_of_the_other_tenants(platform: Platform, loot: Loot, victims: Victims) -> None:
    """A learner may find its tenant's key in a helper's environment; that key is worth nothing elsewhere."""
    store = ObjectStore(platform.settings.store_config("vision"))
    for attempt in (
        lambda: list(store.list("ffdl-speech")),
        lambda: store.put_bytes("ffdl-speech", "planted", b"x"),
        lambda: store.get_bytes("ffdl-speech", "datasets/digits/train.npz"),
    ):
        with pytest.raises((AccessRefused, DataMissing)):
            attempt()


def test_the_other_tenant_has_lost_and_got_nothing(rig: Rig, loot: Loot, victims: Victims) -> None:
    eventually("the other's job still trains", lambda: rig.job(loot.beside).state == "PROCESSING", within_s=5)
    after = victims.everything()
    for what in ("secrets", "services", "config maps", "queue"):
        assert after[what] == loot.before[what], what
    assert [name for name, _ in after["pods"]] == [name for name, _ in loot.before["pods"]]
    kept = {key for key, *_ in after["objects"]}
    assert {key for key, *_ in loot.before["objects"] if loot.beside.job_id not in key} <= kept
    strange = {key for key in kept - {key for key, *_ in loot.before["objects"]} if loot.beside.job_id not in key}
    assert not strange
