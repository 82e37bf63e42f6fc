"""Which buckets a key opens on the embedded S3 server."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path

import pytest

from ffdl_ops.core.tenancy.tenants import Tenants
from ffdl_ops.local.services.s3 import PLATFORM, lay_out
from ffdl_ops.local.services.secrets import load_secrets


def tenants(shared: bool) -> Tenants:
    data = ["public-data"] if shared else []
    one = {"name": "vision", "gpu_quota": {"V100": 1}, "bucket": "ffdl-vision", "data_buckets": data}
    return Tenants.load({"tenants": [one, {"name": "speech", "gpu_quota": {"V100": 1}, "bucket": "ffdl-speech"}]})


def ask(home: Path, access_key: object) -> tuple[int, dict[str, str]]:
    question = json.dumps({"user": access_key, "client_ip": "127.0.0.1"})
    done = subprocess.run([home / "s3" / "ask-keys"], input=question, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout or "{}")


def buckets(home: Path, access_key: str) -> set[str]:
    return {path.name for path in Path(ask(home, access_key)[1]["_root"]).iterdir()}


def test_a_tenants_key_opens_its_own_and_its_shared_buckets(tmp_path: Path) -> None:
    home = tmp_path / "with space"
    keys = load_secrets(home, tenants(shared=True))["s3"]
    lay_out(home, tenants(shared=True), keys)
    code, backend = ask(home, keys["vision"]["access_key"])
    assert code == 0
    assert backend["_secret_access_key"] == keys["vision"]["secret_key"]
    assert buckets(home, keys["vision"]["access_key"]) == {"ffdl-vision", "public-data"}
    assert buckets(home, keys["speech"]["access_key"]) == {"ffdl-speech"}
    assert buckets(home, keys[PLATFORM]["access_key"]) >= {"ffdl-vision", "ffdl-speech", "public-data"}


def test_what_is_no_longer_shared_is_closed_and_kept(tmp_path: Path) -> None:
    keys = load_secrets(tmp_path, tenants(shared=True))["s3"]
    lay_out(tmp_path, tenants(shared=True), keys)
    (tmp_path / "s3" / "buckets" / "public-data" / "object").write_text("kept")
    lay_out(tmp_path, tenants(shared=False), keys)
    assert buckets(tmp_path, keys["vision"]["access_key"]) == {"ffdl-vision"}
    assert (tmp_path / "s3" / "buckets" / "public-data" / "object").read_text() == "kept"


def test_what_a_key_has_made_itself_outlives_every_start(tmp_path: Path) -> None:
    keys = load_secrets(tmp_path, tenants(shared=False))["s3"]
    lay_out(tmp_path, tenants(shared=False), keys)
    for name in ("own", "public-data"):
        (tmp_path / "s3" / "access" / "vision" / name).mkdir()
        (tmp_path / "s3" / "access" / "vision" / name / "object").write_text(name)
    lay_out(tmp_path, tenants(shared=True), keys)
    lay_out(tmp_path, tenants(shared=True), keys)
    seen = {path.name: path for path in (tmp_path / "s3" / "access" / "vision").iterdir()}
    assert set(seen) == {"ffdl-vision", "public-data", "own", "public-data.own1"}
    assert (seen["own"] / "object").read_text() == "own"
    assert (seen["public-data.own1"] / "object").read_text() == "public-data"
    assert not list(seen["public-data"].iterdir())
    assert buckets(tmp_path, keys["speech"]["access_key"]) == {"ffdl-speech"}


def test_the_key_of_a_tenant_that_is_gone_opens_nothing_and_its_objects_stay(tmp_path: Path) -> None:
    keys = load_secrets(tmp_path, tenants(shared=False))["s3"]
    lay_out(tmp_path, tenants(shared=False), keys)
    (tmp_path / "s3" / "buckets" / "ffdl-speech" / "object").write_text("kept")
    left = Tenants.load({"tenants": [{"name": "vision", "gpu_quota": {"V100": 1}, "bucket": "ffdl-vision"}]})
    lay_out(tmp_path, left, keys)
    assert ask(tmp_path, keys["speech"]["access_key"]) == (1, {})
    assert not list((tmp_path / "s3" / "access" / "speech").iterdir())
    assert (tmp_path / "s3" / "buckets" / "ffdl-speech" / "object").read_text() == "kept"


@pytest.mark.parametrize("key", ["unknown", "", None, 7, "../vision"])
def test_an_unknown_key_opens_nothing(tmp_path: Path, key: object) -> None:
    lay_out(tmp_path, tenants(shared=False), load_secrets(tmp_path, tenants(shared=False))["s3"])
    assert ask(tmp_path, key) == (1, {})


def test_secrets_are_made_once_and_are_their_owners_alone(tmp_path: Path) -> None:
    first = load_secrets(tmp_path, tenants(shared=False))
    assert load_secrets(tmp_path, tenants(shared=False)) == first
    assert stat.S_IMODE((tmp_path / "secrets.json").stat().st_mode) == 0o600
    assert len({pair["access_key"] for pair in first["s3"].values()}) == 3
    assert set(first["users"]) == {"admin", "vision-user", "speech-user"}
