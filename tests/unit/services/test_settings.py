"""Where settings come from, and which of two sources wins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ffdl_ops.adapters.settings import Settings
from ffdl_ops.core.errors import UserError

TENANTS = "tenants:\n  - {name: vision, gpu_quota: {V100: 1}, bucket: ffdl-vision}\n"
ENDPOINTS = {
    "airflow": {"url": "http://a", "username": "admin", "password": "p"},
    "mlflow": {"url": "http://m", "username": "writer", "password": "w"},
    "s3": {"endpoint": "http://s", "tenants": {"vision": {"access_key": "k", "secret_key": "s3cret"}}},
    "ledger_url": "postgresql://l",
    "kubeconfig": "/k",
}
VARIABLES = (
    "FFDL_HOME", "FFDL_CONFIG_DIR", "FFDL_LEDGER_URL", "MLFLOW_TRACKING_URI", "KUBECONFIG", "FFDL_AIRFLOW_URL",
    "AIRFLOW_CONN_FFDL_S3_VISION",
)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "tenants.yaml").write_text(TENANTS)
    monkeypatch.setenv("FFDL_HOME", str(tmp_path))
    monkeypatch.setenv("FFDL_CONFIG_DIR", str(tmp_path / "config"))
    return tmp_path


def test_the_embedded_platforms_endpoints_are_read(home: Path) -> None:
    (home / "endpoints.json").write_text(json.dumps(ENDPOINTS))
    settings = Settings.load()
    assert (settings.ledger_url, settings.mlflow_uri, settings.kubeconfig) == ("postgresql://l", "http://m", "/k")
    assert settings.airflow_login == ("admin", "p")
    assert settings.mlflow_login == ("writer", "w")
    assert settings.store_config("vision").access_key == "k"


def test_our_own_variables_win_over_endpoints(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "endpoints.json").write_text(json.dumps(ENDPOINTS))
    monkeypatch.setenv("FFDL_LEDGER_URL", "postgresql://other")
    extra = {"endpoint_url": "http://other", "region_name": "eu-west-1"}
    connection = {"conn_type": "aws", "login": "L", "password": "P", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_FFDL_S3_VISION", json.dumps(connection))
    settings = Settings.load()
    assert settings.ledger_url == "postgresql://other"
    store = settings.store_config("vision")
    assert (store.endpoint_url, store.access_key, store.region) == ("http://other", "L", "eu-west-1")


def test_a_persons_kubeconfig_is_not_mixed_up_with_the_embedded_cluster(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/home/person/production")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://production")
    assert Settings.load().kubeconfig == "/home/person/production"
    assert Settings.load().mlflow_uri == "http://production"
    assert Settings.load().mlflow_login is None
    (home / "endpoints.json").write_text(json.dumps(ENDPOINTS))
    assert Settings.load().kubeconfig == "/k"
    assert Settings.load().mlflow_uri == "http://m"


def test_without_a_platform_the_error_says_what_to_do(home: Path) -> None:
    with pytest.raises(UserError, match="FFDL_LEDGER_URL.*ffdl up"):
        _ = Settings.load().ledger_url
    with pytest.raises(UserError, match="AIRFLOW_CONN_FFDL_S3_VISION"):
        Settings.load().store_config("vision")


def test_a_changed_file_is_read_again_and_an_unchanged_one_is_not(home: Path) -> None:
    first = Settings.load().tenants
    assert Settings.load().tenants is first
    path = home / "config" / "tenants.yaml"
    path.write_text(TENANTS.replace("vision", "audio"))
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1_000_000))
    assert [tenant.name for tenant in Settings.load().tenants] == ["audio"]


def test_secrets_are_not_in_what_is_printed(home: Path) -> None:
    (home / "endpoints.json").write_text(json.dumps(ENDPOINTS))
    settings = Settings.load()
    assert "s3cret" not in repr(settings)
    assert "s3cret" not in repr(settings.store_config("vision"))


def test_loading_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom ffdl_ops.adapters.settings import Settings\n"
        "print(*({'boto3', 'kubernetes', 'mlflow', 'sqlalchemy', 'torch', 'airflow', 'psutil'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("tenants.yaml", b"\xff\xfe\x00", "UTF-8"),
        ("platform.yaml", b"\xff\xfe\x00", "UTF-8"),
        ("tenants.yaml", b"tenants: []", "must not be empty"),
        ("platform.yaml", b"poll: 3\nports: 4", "2 problems in"),
    ],
)
def test_what_is_wrong_with_a_configuration_names_the_file(home: Path, name: str, content: bytes, words: str) -> None:
    path = home / "config" / name
    path.write_bytes(content)
    with pytest.raises(UserError) as refused:
        Settings.load()
    assert words in str(refused.value) and str(path) in str(refused.value)


@pytest.mark.parametrize("content", ["{bad", "[]", "", "\x00"])
def test_damaged_endpoints_are_said_with_what_to_do(home: Path, content: str) -> None:
    (home / "endpoints.json").write_text(content)
    with pytest.raises(UserError, match="ffdl up"):
        Settings.load()


@pytest.mark.parametrize("content", ["{bad", "[]", ""])
def test_damaged_secrets_are_never_replaced_by_new_ones(home: Path, content: str) -> None:
    from ffdl_ops.core.tenancy.tenants import Tenants
    from ffdl_ops.local.services.secrets import load_secrets

    (home / "secrets.json").write_text(content)
    with pytest.raises(UserError, match="from a copy"):
        load_secrets(home, Tenants.load(TENANTS))
    assert (home / "secrets.json").read_text() == content
