"""The secrets of the Compose deployment: made once, kept, each readable by no more than has to."""

from __future__ import annotations

import json
import shlex
import stat
from pathlib import Path
from types import ModuleType

import pytest

BUCKETS = {"team-a": "team-a-data", "team-b": "team-b-data"}


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def environment(path: Path) -> dict[str, str]:
    """An environment file as a shell reads it: quotes go, nothing is replaced."""
    pairs = (shlex.split(line)[0].partition("=") for line in path.read_text().splitlines())
    return {name: value for name, _, value in pairs}


def test_running_it_again_changes_nothing(make_secrets: ModuleType, tmp_path: Path) -> None:
    make_secrets.make(tmp_path, BUCKETS)
    before = contents(tmp_path)
    make_secrets.make(tmp_path, BUCKETS)
    assert contents(tmp_path) == before


def test_a_tenant_that_is_added_changes_no_other_secret(make_secrets: ModuleType, tmp_path: Path) -> None:
    make_secrets.make(tmp_path, {"team-a": "team-a-data"})
    before = environment(tmp_path / "airflow.env")
    make_secrets.make(tmp_path, BUCKETS)
    after = environment(tmp_path / "airflow.env")
    assert set(after) - set(before) == {"AIRFLOW_CONN_FFDL_S3_TEAM_B"}
    assert {name: after[name] for name in before} == before


def test_two_installations_share_no_secret(make_secrets: ModuleType, tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_secrets.make(tmp_path / name, BUCKETS)
    one, two = (set(json.loads((tmp_path / name / "box.json").read_text()).values()) for name in ("one", "two"))
    assert not one & two
    assert min(len(text) for text in one) >= 24


def test_the_folder_and_what_only_compose_reads_are_private(make_secrets: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "compose"
    make_secrets.make(folder, BUCKETS)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    private = [*folder.glob("*.env"), folder / "box.json"]
    assert len(private) == 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}


def test_a_tenant_may_touch_its_own_bucket_alone(make_secrets: ModuleType, tmp_path: Path) -> None:
    make_secrets.make(tmp_path, BUCKETS)
    identities = json.loads((tmp_path / "s3_identities.json").read_text())["identities"]
    of_tenants = {one["name"]: one["actions"] for one in identities if one["name"] in BUCKETS}
    assert set(of_tenants) == set(BUCKETS)
    for tenant, actions in of_tenants.items():
        assert {action.partition(":")[2] for action in actions} == {BUCKETS[tenant]}
        assert "Admin" not in {action.partition(":")[0] for action in actions}


@pytest.mark.parametrize("tenant", BUCKETS)
def test_a_tenants_connection_has_the_keys_of_its_identity(
    make_secrets: ModuleType, tmp_path: Path, tenant: str
) -> None:
    make_secrets.make(tmp_path, BUCKETS)
    name = f"AIRFLOW_CONN_FFDL_S3_{tenant.replace('-', '_').upper()}"
    connection = json.loads(environment(tmp_path / "airflow.env")[name])
    identities = json.loads((tmp_path / "s3_identities.json").read_text())["identities"]
    keys = next(one["credentials"][0] for one in identities if one["name"] == tenant)
    assert (connection["login"], connection["password"]) == (keys["accessKey"], keys["secretKey"])
    assert connection["extra"]["endpoint_url"] == make_secrets.S3_ENDPOINT


def test_airflows_tasks_do_not_get_the_platforms_keys_to_the_store(make_secrets: ModuleType, tmp_path: Path) -> None:
    make_secrets.make(tmp_path, BUCKETS)
    admin = environment(tmp_path / "setup.env")["FFDL_S3_SECRET_ACCESS_KEY"]
    assert admin not in (tmp_path / "airflow.env").read_text()


def test_airflows_key_is_one_that_its_cipher_takes(make_secrets: ModuleType, tmp_path: Path) -> None:
    from cryptography.fernet import Fernet

    make_secrets.make(tmp_path, BUCKETS)
    cipher = Fernet(environment(tmp_path / "airflow.env")["AIRFLOW__CORE__FERNET_KEY"])
    assert cipher.decrypt(cipher.encrypt(b"x")) == b"x"


def test_the_shipped_tenants_get_their_secrets(
    make_secrets: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["make_secrets.py", str(tmp_path)])
    assert make_secrets.main() == 0
    identities = json.loads((tmp_path / "s3_identities.json").read_text())["identities"]
    assert {"vision", "speech"} <= {one["name"] for one in identities}
