"""`ffdl validate` and `ffdl schema`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

INLINE = """
name: own-store
framework: {name: pytorch, command: python3 t.py}
code: s3://ffdl-vision/code/a.zip
data_stores:
  - id: d
    type: s3_datastore
    training_data: {container: theirs}
    connection: {auth_url: "http://s3.example", user_name: alice-key-id, password: hunter2hunter2}
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "manifest.yml"
    path.write_text("name: digits\nexample: digits-pytorch\nlearners: 2\n")
    return path


def test_a_valid_manifest_is_said_to_be_valid_with_its_size(cli: Any, manifest: Path) -> None:
    out = cli.ok(
        "validate", str(manifest), "--tenant", "vision", "--gpus", "1", "--gpu-type", "nvidia-TeslaV100"
    ).stdout
    assert "valid for tenant vision" in out
    assert "2 learners, each 1 × V100" in out


def test_a_manifest_comes_from_standard_input_too(cli: Any, manifest: Path) -> None:
    assert "is valid" in cli.ok("validate", "-", "--tenant", "vision", input=manifest.read_text()).stdout


def test_all_problems_come_at_once_and_name_their_fields(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.yml").write_text("name: x\nexample: digits-pytorch\nlerners: 2\ngpus: -1\n")
    said = cli.refused(3, "validate", "bad.yml", "--tenant", "vision")
    assert "lerners" in said
    assert "learners" in said
    assert "gpus" in said


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--gpus", "1", "--gpu-type", "H900"], ["gpu_type", "H900", "V100 (4)"]),
        (["--gpus", "1", "--learners", "9"], ["learners", "9", "V100 (4)"]),
        (["--gpus", "1", "--gpu-type", "V100", "--learners", "5"], ["learners", "5", "V100 (4)"]),
        (["--data", "someone-elses/data"], ["data_stores[0].training_data.container", "ffdl-vision"]),
        (["--framework", "mxnet"], ["framework.name", "mxnet"]),
    ],
)
def test_the_tenants_limits_are_checked_too(cli: Any, manifest: Path, flags: list[str], words: list[str]) -> None:
    said = cli.refused(3, "validate", str(manifest), "--tenant", "vision", *flags)
    assert [word for word in words if word not in said] == []


def test_what_the_manifest_leaves_out_is_judged_by_the_tenants_defaults(cli: Any, manifest: Path) -> None:
    from ffdl_ops.core.tenancy.tenants import Tenants

    low = {"tenants": [{"name": "vision", "priority": {"default": 5, "max": 10}}]}
    cli.session.settings.tenants = Tenants.load(low)
    cli.ok("validate", str(manifest))
    assert "priority" in cli.refused(3, "validate", str(manifest), "--priority", "11")


def test_a_gang_of_exactly_the_quota_is_valid(cli: Any, manifest: Path) -> None:
    cli.ok("validate", str(manifest), "--tenant", "vision", "--gpus", "1", "--learners", "4")


def test_programs_get_the_problems_as_json_and_the_same_exit_code(cli: Any, manifest: Path) -> None:
    result = cli.run("validate", str(manifest), "--tenant", "vision", "--gpus", "1", "--gpu-type", "H900", "--json")
    assert result.exit_code == 3
    told = json.loads(result.stdout)
    assert told["valid"] is False
    assert told["problems"][0]["path"] == "gpu_type"
    assert told["problems"][0]["reason"]
    assert json.loads(cli.ok("validate", str(manifest), "--tenant", "vision", "--json").stdout)["valid"] is True


def test_credentials_in_a_manifest_are_never_shown(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "own.yml").write_text(INLINE)
    for extra in ([], ["--json"]):
        output = cli.ok("validate", "own.yml", "--tenant", "vision", *extra).output
        assert "hunter2" not in output
        assert "alice-key-id" not in output


def test_a_file_that_is_not_there_is_named(cli: Any) -> None:
    assert "nowhere.yml" in cli.refused(2, "validate", "nowhere.yml", "--tenant", "vision")


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words", "a: [1\n"])
def test_what_is_no_manifest_at_all_is_refused(cli: Any, text: str) -> None:
    assert cli.refused(3, "validate", "-", "--tenant", "vision", input=text)


def test_without_a_tenant_the_choice_is_told(cli: Any) -> None:
    said = cli.refused(2, "validate", "--example", "digits-pytorch")
    assert "FFDL_TENANT" in said
    assert "speech, vision" in said


def test_the_environment_names_the_tenant(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FFDL_TENANT", "speech")
    assert "tenant speech" in cli.ok("validate", "--example", "digits-pytorch").stdout


def test_an_unknown_tenant_is_refused_by_name(cli: Any) -> None:
    assert "nobody" in cli.refused(2, "validate", "--example", "digits-pytorch", "--tenant", "nobody")


def test_the_schema_is_the_models_own(cli: Any) -> None:
    from ffdl_ops.core.jobs.manifest import Manifest

    assert json.loads(cli.ok("schema").stdout) == Manifest.json_schema()
