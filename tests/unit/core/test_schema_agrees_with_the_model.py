"""The exported JSON Schema accepts what the model accepts, and refuses what one field alone makes wrong."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from manifest_samples import GOOD, REFUSED, framework, metrics, store

from ffdl_ops.core.failures.classes import FailureClass
from ffdl_ops.core.jobs.manifest import Manifest, load_manifest

SCHEMA = Manifest.json_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

maybe = st.none()
labels = st.from_regex(r"[a-z][a-zA-Z0-9 ._-]{0,40}[a-z]", fullmatch=True)
buckets = st.from_regex(r"[a-z][a-z0-9-]{1,20}[a-z](/[a-z0-9]{1,10}){0,2}", fullmatch=True)
memory = st.builds(
    lambda n, unit: f"{n}{unit}", st.integers(1, 999), st.sampled_from(["Gi", "Gb", "GiB", "gb", "G", " GB"])
)
learners = st.integers(1, 64) | st.builds(
    lambda low, more: {"min": low, "max": low + more}, st.integers(1, 32), st.integers(0, 32)
)
connections = st.sampled_from(
    [
        {"secret": "ffdl-data-1"},
        {"auth_url": "http://s3.example.org:9000", "user_name": "u", "password": "p", "region": "r"},
    ]
)
stores = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["mount_cos", "s3_datastore"]),
        "training_data": st.fixed_dictionaries({"container": buckets}),
    },
    optional={
        "id": labels,
        "training_results": st.fixed_dictionaries({"container": buckets}) | maybe,
        "connection": connections,
    },
)
groups = st.just(
    {
        "train": {
            "regex": "{{FLOAT:loss}}",
            "scalars": {"loss": "$loss", "a": {"type": "FLOAT", "value": "$loss"}, "b": 3},
        }
    }
)
evaluations = st.sampled_from(["logger", "emetrics_file", "file", "tensorboard"]).map(
    lambda kind: {"type": kind}
) | groups.map(lambda value: {"type": "regex_extractor", "line_lookahead": 3, "groups": value})
frameworks = st.fixed_dictionaries(
    {"name": st.sampled_from(["pytorch", "caffe2"]), "command": labels}, optional={"version": labels}
)
checkpoints = st.fixed_dictionaries(
    {}, optional={"interval_s": st.integers(1, 3600), "keep": st.integers(1, 9), "per_rank": st.booleans()}
)
preflights = st.fixed_dictionaries(
    {}, optional={"enabled": st.booleans() | maybe, "seconds": st.integers(1, 99), "steps": st.integers(1, 9)}
)
variables = st.dictionaries(
    st.from_regex(r"[A-Z]_[a-z0-9]{1,9}", fullmatch=True), st.text(alphabet="ab ", max_size=9) | st.integers()
)
manifests = st.fixed_dictionaries(
    {
        "name": labels | st.integers(0, 99),
        "framework": frameworks,
    },
    optional={
        "description": st.text(alphabet="abc \n", min_size=1).filter(str.strip) | maybe,
        "version": st.floats(0, 9) | labels,
        "learners": learners,
        "cpus": st.floats(0.01, 900) | st.integers(1, 900) | st.sampled_from(["500m", "2", "1.5"]) | maybe,
        "memory": memory,
        "data_stores": st.lists(stores, max_size=1) | maybe,
        "evaluation_metrics": evaluations,
        "checkpoint": checkpoints | st.just({"enabled": False}),
        "monitor": st.fixed_dictionaries({}, optional={"enabled": st.booleans()}),
        "retry": st.dictionaries(st.sampled_from([cls.value for cls in FailureClass]), st.integers(0, 5)),
        "preflight": preflights,
        "priority": st.integers(0, 100),
        "deadline": st.sampled_from(["90s", "12h", "1h30m", "1.5h", "1d 2h"]),
        "code": st.sampled_from(["s3://bucket/code/a.zip"]) | maybe,
        "env": variables,
    },
)  # fmt: skip


def test_it_is_a_schema_and_plain_json() -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(json.dumps(SCHEMA)))


@settings(max_examples=60)
@given(manifests, st.integers(0, 64))
def test_what_the_model_accepts_the_schema_accepts(manifest: dict[str, Any], gpus: int) -> None:
    if gpus:
        manifest = {**manifest, "gpus": gpus, "gpu_type": "nvidia-TeslaV100"}
    written = load_manifest(manifest).to_dict()
    VALIDATOR.validate(manifest)
    VALIDATOR.validate(written)


def test_an_example_alone_is_accepted_by_both() -> None:
    for sample in ({"name": "x", "example": "probe"}, {"name": "x", "example": "probe", "framework": {"command": "c"}}):
        load_manifest(sample)
        VALIDATOR.validate(sample)
    for sample in ({"name": "x"}, {"name": "x", "framework": {"name": "pytorch"}}, {"name": "x", "example": None}):
        assert not VALIDATOR.is_valid(sample)


# What the schema can't say: it depends on several fields, on text beyond a simple pattern, or on sizes in bytes.
BEYOND_A_SCHEMA = (
    "more than learners.max", "gpus is 0", "brings its own", "written for tensorflow", "no effect, since", "remove one",
    "GPU type",
    "neither", "'..'", "s3://", "backslash", "secret", "no credentials", "line break", "control character",
    "control", "thousandths", "16 MiB",
    "quotes", "image name", "image tag", "framework's name", "100 variables", "together", "366d", "$JOB_STATE_DIR",
    "no effect",
    "address of an object", "character", "more than 0", "bucket", "without user", "https://", "empty",
)  # fmt: skip


def _expressible(case: tuple[dict[str, Any], str, str]) -> bool:
    return case[2] not in BEYOND_A_SCHEMA and case[:2] not in (
        (framework(name="custom"), "framework.version"),
        (metrics(type="regex_extractor"), "evaluation_metrics.groups"),
        (store(connection={"auth_url": "http://x"}), "data_stores[0].connection.password"),
    )


@pytest.mark.parametrize(
    "case", [case for case in REFUSED if _expressible(case)], ids=lambda case: f"{case[1]}: {case[2]}"
)
def test_what_one_field_makes_wrong_the_schema_refuses_too(case: tuple[dict[str, Any], str, str]) -> None:
    assert not VALIDATOR.is_valid({**GOOD, **case[0]})


def test_an_unknown_field_is_refused_everywhere() -> None:
    places: list[dict[str, Any]] = [
        {"x": 1},
        framework(x=1),
        {"checkpoint": {"x": 1}},
        {"retry": {"x": 1}},
        {"learners": {"min": 1, "max": 1, "x": 1}},
    ]
    assert [place for place in places if VALIDATOR.is_valid({**GOOD, **place})] == []
