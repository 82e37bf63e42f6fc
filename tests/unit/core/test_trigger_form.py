"""The trigger form: simple typed fields, validated again, every message naming the form's field."""

from __future__ import annotations

from typing import Any

import pytest

from ffdl_ops.core.jobs.examples import EXAMPLES
from ffdl_ops.core.jobs.form import form_fields, manifest_from_form
from ffdl_ops.core.jobs.manifest import ManifestErrors
from ffdl_ops.core.tenancy.tenants import Tenant, Tenants

TENANT = Tenant.model_validate({"name": "vision", "max_learners": 16})
FIELDS = form_fields(TENANT, ["V100", "K80"], EXAMPLES)
DEFAULTS = {name: field.default for name, field in FIELDS.items()}


def refused(**form: Any) -> dict[str, str]:
    with pytest.raises(ManifestErrors) as errors:
        manifest_from_form({**DEFAULTS, **form})
    return {problem.path: str(problem) for problem in errors.value.problems}


def test_every_field_is_simple_and_typed_and_has_a_title() -> None:
    """Pitfall 28: with a required object the trigger button does nothing."""
    simple = {"string", "integer", "number", "boolean", "null"}
    for name, field in FIELDS.items():
        kinds = {field.type} if isinstance(field.type, str) else set(field.type)
        assert kinds <= simple, name
        assert field.title and field.description and field.section, name
        assert field.default is not None or "null" in kinds, name


def test_it_offers_the_tenants_limits_the_clusters_types_and_the_examples() -> None:
    assert FIELDS["example"].enum is not None
    assert set(FIELDS["example"].enum) == {"none", *EXAMPLES}
    assert FIELDS["gpu_type"].examples == ("K80", "V100")
    assert "16" in FIELDS["learners"].description
    assert "ffdl-vision" in FIELDS["data"].description


def test_an_example_needs_nothing_else() -> None:
    manifest = manifest_from_form({**DEFAULTS, "example": "digits-pytorch", "learners": 2})
    assert (manifest.name, manifest.framework.name, manifest.learners) == ("digits-pytorch", "pytorch", 2)


def test_all_fields_reach_the_manifest() -> None:
    manifest = manifest_from_form(
        {
            "command": "python3 train.py", "framework": "tensorflow", "code": "s3://ffdl-vision/code/a.zip", "learners": 2,
            "gpus": 1, "gpu_type": "v100", "cpus": "500m", "memory": "3Gi", "data": "ffdl-vision/digits",
            "results": "ffdl-vision/out", "name": "mine", "priority": 10, "metrics": "logger", "checkpoint_interval": 9,
            "deadline": "2h", "preflight": "off",
        }
    )  # fmt: skip
    written = manifest.to_dict()
    assert written["framework"] == {"name": "tensorflow", "command": "python3 train.py"}
    assert written["data_stores"][0]["training_data"] == {"container": "ffdl-vision/digits"}
    assert written["data_stores"][0]["training_results"] == {"container": "ffdl-vision/out"}
    assert (written["code"], written["learners"], written["gpus"], written["gpu_type"]) == (
        "s3://ffdl-vision/code/a.zip",
        2,
        1,
        "V100",
    )
    assert (written["cpus"], written["memory"], written["name"], written["priority"]) == ("500m", "3Gi", "mine", 10)
    assert (written["evaluation_metrics"], written["checkpoint"]) == ({"type": "logger"}, {"interval_s": 9})
    assert (written["deadline"], written["preflight"]) == ("2h", {"enabled": False})


def test_an_image_of_ones_own_is_framework_custom() -> None:
    framework = manifest_from_form({"command": "run", "image": "team/net:1"}).framework
    assert (framework.name, framework.image) == ("custom", "team/net:1")


@pytest.mark.parametrize(
    ("form", "field", "words"),
    [
        ({"example": "probe", "gpus": -1}, "gpus", "0 to 64 (got -1)"),
        ({"example": "probe", "learners": 0}, "learners", "1 to 64 (got 0)"),
        ({"example": "probe", "learners": "two"}, "learners", "whole number"),
        ({"example": "probe", "gpus": 1, "gpu_type": "!"}, "gpu_type", "like V100"),
        ({"example": "probe", "gpu_type": "V100"}, "gpu_type", "gpus is 0"),
        ({"example": "probe", "memory": "8"}, "memory", "needs a unit"),
        ({"example": "probe", "data": "../x"}, "data", "bucket"),
        ({"example": "probe", "results": "s3://x"}, "results", "s3://"),
        ({"example": "probe", "metrics": "magic"}, "metrics", "no way to read metrics"),
        ({"example": "probe", "checkpoint_interval": 0}, "checkpoint_interval", "0.5"),
        ({"example": "probe", "preflight": "perhaps"}, "preflight", "auto, on or off"),
        ({"example": "probe", "deadline": "soon"}, "deadline", "12h"),
        ({"example": "probe", "framework": "tensorflow"}, "framework", "written for pytorch"),
        ({"example": "probe", "code": "s3://bucket/x.zip"}, "code", "brings its own"),
        ({"example": "prob"}, "example", "did you mean 'probe'?"),
        ({}, "example", "or a command of your own"),
        ({"learners": 2}, "example", "digits-pytorch"),
        ({"command": "x"}, "framework", "required"),
        ({"command": "x", "framework": "custom"}, "image", "required"),
        ({"command": "x", "framework": "pytorch", "image": "A B"}, "image", "image name"),
    ],
)
def test_a_wrong_value_is_one_message_naming_the_field(form: dict[str, Any], field: str, words: str) -> None:
    found = refused(**form)
    assert list(found) == [field], found
    assert found[field].startswith(f"{field}: ")
    assert words in found[field]


def test_all_wrong_fields_come_at_once() -> None:
    assert set(refused(command="x", gpus=-1, memory="8")) == {"framework", "gpus", "memory"}


def test_a_whole_manifest_stands_alone() -> None:
    text = "name: whole\nframework: {name: pytorch, command: c}\nlearners: 3\n"
    assert manifest_from_form({**DEFAULTS, "manifest": text, "submitted_by": "someone"}).learners == 3
    found = refused(manifest=text, learners=3, gpus=1)
    assert list(found) == ["manifest"]
    assert "gpus, learners" in found["manifest"]


def test_a_wrong_manifest_is_refused_by_the_manifests_own_names() -> None:
    assert set(refused(manifest="name: x\nframework: {name: pytorch, comand: c}\n")) == {
        "framework.command",
        "framework.comand",
    }


def test_an_unknown_parameter_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ManifestErrors, match=r"no field 'lerners'; did you mean 'learners'\?"):
        manifest_from_form({"example": "probe", "lerners": 2})


def test_an_empty_box_is_as_if_not_touched() -> None:
    assert manifest_from_form({**DEFAULTS, "example": "probe", "gpu_type": " ", "manifest": ""}).gpu_type is None


def test_no_number_reaches_airflow_that_it_can_not_pass_on() -> None:
    """Airflow's tasks take no number beyond 64 bits: every stage of such a run failed without a word, again and again."""
    tenant = Tenants.load({"tenants": [{"name": "vision"}]})["vision"]
    numbers = {
        name: field
        for name, field in form_fields(tenant, ["V100"], EXAMPLES).items()
        if {"integer", "number"} & ({field.type} if isinstance(field.type, str) else set(field.type))
    }
    assert {"learners", "gpus", "priority", "checkpoint_interval"} <= numbers.keys()
    for field in numbers.values():
        assert field.minimum is not None and -(2**63) < field.minimum <= -1e9
        assert field.maximum is not None and 1e9 <= field.maximum < 2**63
