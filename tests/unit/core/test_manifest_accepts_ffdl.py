"""Manifests in the shape of FfDL's own are taken as they are, with FfDL's meaning."""

from __future__ import annotations

import pytest

from ffdl_ops.core.failures.classes import FailureClass
from ffdl_ops.core.jobs.manifest import Manifest, ManifestErrors, load_manifest

FFDL = """\
name: two layers on pictures
description: A small network
version: "1.0"
gpus: 1
cpus: 0.5
memory: 1000MiB
learners: 2
gpu_type: nvidia-TeslaV100
data_stores:
  - id: pictures
    type: mount_cos
    training_data:
      container: picture_data
    training_results:
      container: picture_models
    connection:
      auth_url: http://s3.example.org
      user_name: someone
      password: something
framework:
  name: tensorflow
  version: "1.5.0-py3"
  command: >
    python3 train.py --images ${DATA_DIR}/images.gz
      --steps 2000
evaluation_metrics:
  type: tensorboard
  in: "$JOB_STATE_DIR/logs/tb"
"""


def test_a_folded_command_is_one_line_and_a_literal_one_keeps_its_lines() -> None:
    def command(style: str, *lines: str) -> str:
        text = f"name: x\nframework:\n  name: pytorch\n  command: {style}\n"
        return load_manifest(text + "".join(f"    {line}\n" for line in lines)).framework.command

    assert command(">", "python3 train.py", "  --steps 5", "  --rate 2", "--last") == "python3 train.py --steps 5 --rate 2 --last"
    assert command("|", "if true; then", "  python3 train.py", "fi") == "if true; then\n  python3 train.py\nfi\n"


def test_ffdls_fields_have_ffdls_meaning() -> None:
    manifest = load_manifest(FFDL)
    assert (manifest.learners_min, manifest.learners_max, manifest.gpus_total) == (2, 2, 2)
    assert manifest.memory_bytes == 1000 * 2**20
    assert manifest.cpu_millis == 500
    assert manifest.gpu_type == "V100"
    assert manifest.framework.command == "python3 train.py --images ${DATA_DIR}/images.gz --steps 2000"
    assert manifest.data_stores[0].training_data is not None
    assert manifest.data_stores[0].training_data.container == "picture_data"
    assert manifest.evaluation_metrics is not None
    assert manifest.evaluation_metrics.in_ == "$JOB_STATE_DIR/logs/tb"


def test_what_is_left_out_has_a_stated_default() -> None:
    manifest = load_manifest("name: x\nframework: {name: pytorch, command: python3 x.py}")
    assert (manifest.learners, manifest.gpus, manifest.cpu_millis, manifest.memory_bytes) == (1, 0, 500, 2**31)
    assert (manifest.checkpoint.interval_s, manifest.checkpoint.keep, manifest.checkpoint.per_rank) == (2, 3, False)
    assert (manifest.preflight.enabled, manifest.preflight.seconds, manifest.preflight.steps) == (None, 60, None)
    assert (manifest.retry, manifest.env, manifest.data_stores, manifest.deadline_seconds) == ({}, {}, [], None)


def test_the_platforms_additions_are_read() -> None:
    manifest = load_manifest(
        """
        name: x
        framework: {name: custom, version: "registry.example.org:5000/team/net:1.2", command: run}
        learners: {min: 2, max: 8}
        gpus: 2
        checkpoint: {interval_s: 30, keep: 5, per_rank: true}
        retry: {node_lost: 7, user_error: 1}
        preflight: {enabled: true, steps: 10}
        priority: 80
        deadline: 12h
        env: {EPOCHS: 5, RATE: 0.10, EMPTY: ""}
        """
    )
    assert (manifest.learners_min, manifest.learners_max, manifest.gpus_total) == (2, 8, 16)
    assert manifest.retry == {FailureClass.NODE_LOST: 7, FailureClass.USER_ERROR: 1}
    assert manifest.deadline_seconds == 43200
    assert manifest.env == {"EPOCHS": "5", "RATE": "0.10", "EMPTY": ""}


def test_an_empty_field_is_as_if_left_out() -> None:
    assert load_manifest("name: x\ngpu_type:\nlearners:\nframework: {name: pytorch, command: c}").learners == 1


def test_an_example_brings_framework_and_command() -> None:
    manifest = load_manifest({"name": "x", "example": "digits-tensorflow"})
    assert manifest.framework.name == "tensorflow"
    assert manifest.framework.command
    other = load_manifest({"name": "x", "example": "probe", "framework": {"command": "python3 probe.py --steps 3"}})
    assert (other.framework.name, other.framework.command) == ("pytorch", "python3 probe.py --steps 3")


def test_written_out_and_read_again_it_is_the_same() -> None:
    for text in (FFDL, "name: x\nexample: probe\nlearners: {min: 1, max: 3}\nretry: {oom: 1}\nmemory: 3Gi\n"):
        manifest = load_manifest(text)
        again = load_manifest(manifest.to_dict())
        assert again == manifest
        assert again.to_dict() == manifest.to_dict()


def test_credentials_are_seen_hidden_and_replaced_by_a_secrets_name() -> None:
    """Pitfall 24: secrets by reference only."""
    manifest = load_manifest(FFDL)
    assert manifest.has_inline_credentials
    assert "something" not in repr(manifest)
    shown = str(manifest.redacted().to_dict())
    assert "something" not in shown
    assert "someone" not in shown
    moved = manifest.with_secret("ffdl-data-0123")
    assert not moved.has_inline_credentials
    assert moved.to_dict()["data_stores"][0]["connection"] == {"secret": "ffdl-data-0123"}
    assert load_manifest(moved.to_dict()) == moved


def test_a_password_is_in_no_message() -> None:
    text = FFDL.replace("auth_url: http://s3.example.org", "auth_url: nonsense").replace(
        "password:", "passwort: hunter2\n      password:"
    )
    with pytest.raises(ManifestErrors) as refused:
        load_manifest(text)
    message = str(refused.value)
    assert "auth_url" in message
    assert "did you mean 'password'?" in message
    assert not [secret for secret in ("hunter2", "something", "nonsense", "someone") if secret in message]


def test_metrics_by_ffdls_regex_groups() -> None:
    manifest = load_manifest(
        {
            "name": "x",
            "framework": {"name": "pytorch", "command": "c"},
            "evaluation_metrics": {
                "type": "regex_extractor",
                "line_lookahead": 4,
                "groups": {
                    "train": {
                        "regex": "step {{INT:step}} loss %{FLOAT:loss} at {{TIMESTAMP:when}}",
                        "meta": {"time": "$when"},
                        "scalars": {"loss": {"type": "FLOAT", "value": "$loss"}},
                        "etimes": {"iteration": "$step"},
                    }
                },
            },
        }
    )
    assert manifest.evaluation_metrics is not None
    written = manifest.evaluation_metrics.model_dump(mode="json", by_alias=True)
    assert written["groups"]["train"]["etimes"]["iteration"]["value"] == "$step"


def test_the_macros_are_those_that_the_reader_of_metrics_knows() -> None:
    from ffdl_ops.adapters.tracking.patterns import MACROS
    from ffdl_ops.core.jobs.metrics import MACRO_NAMES

    assert set(MACRO_NAMES) == set(MACROS)


@pytest.mark.parametrize("kind", ["optivist", "file", "emetrics_file"])
def test_ffdls_other_words_for_a_file_of_metrics(kind: str) -> None:
    manifest = load_manifest({"name": "x", "example": "probe", "evaluation_metrics": {"type": kind}})
    assert isinstance(manifest, Manifest)
    assert manifest.evaluation_metrics is not None
    assert manifest.evaluation_metrics.type == "emetrics_file"
