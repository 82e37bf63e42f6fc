"""Flags laid over a manifest."""

from __future__ import annotations

from typing import Any

import pytest

from ffdl_ops.cli.building import build
from ffdl_ops.core.errors import UserError
from ffdl_ops.core.jobs.manifest import load_manifest


def built(manifest: dict[str, Any] | None = None, *sets: str, **flags: str) -> dict[str, Any]:
    return build(manifest or {}, flags, sets)


def test_flags_alone_describe_a_job() -> None:
    mapping = built(
        framework="pytorch", command="python3 train.py", learners="2", gpus="1", gpu_type="V100", cpus="2",
        memory="8Gb", data="ffdl-vision/datasets/digits", priority="60",
    )  # fmt: skip
    manifest = load_manifest({**mapping, "code": "s3://ffdl-vision/code/a.zip"})
    assert (manifest.learners, manifest.gpus, manifest.gpu_type, manifest.priority) == (2, 1, "V100", 60)
    assert manifest.memory_bytes == 8 * 10**9
    assert manifest.data_stores[0].training_data is not None
    assert manifest.data_stores[0].training_data.container == "ffdl-vision/datasets/digits"


def test_flags_replace_what_the_file_says_and_keep_the_rest() -> None:
    file = {
        "name": "mine",
        "learners": 1,
        "framework": {"name": "pytorch", "command": "python3 a.py", "version": "2.14"},
        "data_stores": [
            {
                "id": "d",
                "type": "mount_cos",
                "training_data": {"container": "old"},
                "training_results": {"container": "r"},
            }
        ],
    }
    mapping = built(file, learners="3", command="python3 b.py", data="s3://new/prefix/")
    assert mapping["name"] == "mine"
    assert mapping["learners"] == 3
    assert mapping["framework"] == {"name": "pytorch", "command": "python3 b.py", "version": "2.14"}
    assert mapping["data_stores"][0]["training_data"] == {"container": "new/prefix"}
    assert mapping["data_stores"][0]["training_results"] == {"container": "r"}
    assert file["learners"] == 1
    assert file["data_stores"][0]["training_data"] == {"container": "old"}


def test_learners_may_be_a_range() -> None:
    assert built(learners="2-4")["learners"] == {"min": 2, "max": 4}


@pytest.mark.parametrize("flag", ["learners", "gpus", "priority"])
def test_what_is_no_number_is_left_for_the_validation_to_name(flag: str) -> None:
    assert built(**{flag: "many"})[flag] == "many"


def test_set_reaches_any_field_and_reads_values_as_yaml() -> None:
    mapping = built(
        {"checkpoint": {"keep": 1}}, "checkpoint.keep=5", "preflight.enabled=false", "env.LR=0.1",
        "data_stores[0].training_results.container=bucket", "env.NOTE=a: b: c",
    )  # fmt: skip
    assert mapping["checkpoint"] == {"keep": 5}
    assert mapping["preflight"] == {"enabled": False}
    assert mapping["env"] == {"LR": 0.1, "NOTE": "a: b: c"}
    assert mapping["data_stores"] == [{"training_results": {"container": "bucket"}}]


@pytest.mark.parametrize("text", ["novalue", "=1", "a..b=1", "name.x=1", "data_stores[5].id=1", "a[x]=1"])
def test_set_refuses_what_it_cannot_put_anywhere(text: str) -> None:
    with pytest.raises(UserError, match="--set"):
        built({"name": "mine"}, text)


def test_a_password_on_the_command_line_is_refused_and_not_repeated() -> None:
    with pytest.raises(UserError) as refused:
        built({}, "data_stores[0].connection.password=hunter2")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "data_stores[0].connection={auth_url: u, user_name: n, password: hunter2}",
        "data_stores=[{id: x, connection: {password: hunter2}}]",
    ],
)
def test_a_password_inside_a_value_is_refused_as_well(text: str) -> None:
    with pytest.raises(UserError) as refused:
        built({}, text)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("deadline=2026-13-45", "2026-13-45"),
        ("gpus=" + "9" * 5000, "9" * 5000),
        ("name=" + "[" * 3000, "[" * 3000),
        ("name=&a [*a]", "&a [*a]"),
        ("name=!!python/name:os.system", "!!python/name:os.system"),
    ],
)
def test_what_is_no_plain_value_stays_text_for_the_validation_to_refuse(text: str, value: str) -> None:
    assert built({}, text)[text.partition("=")[0]] == value


def test_a_number_keeps_the_form_in_which_it_was_written() -> None:
    assert str(load_manifest(built({"example": "probe"}, "name=x", "env.AT=10:30", "env.V=2.10")).env) == str(
        {"AT": "10:30", "V": "2.10"}
    )


def test_a_range_of_absurd_numbers_is_left_for_the_validation() -> None:
    assert built(learners="9" * 5000 + "-1")["learners"] == "9" * 5000 + "-1"


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ({"example": "digits-pytorch"}, "digits-pytorch"),
        ({"framework": "tensorflow"}, "tensorflow-job"),
        ({"gpus": "1"}, "job"),
    ],
)
def test_a_job_without_a_name_is_given_one(flags: dict[str, str], name: str) -> None:
    assert built(**flags)["name"] == name


def test_nothing_at_all_stays_nothing() -> None:
    assert built() == {}
