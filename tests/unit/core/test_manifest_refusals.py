"""What a manifest may not say is refused with its path, the reason and a way out; everything at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from manifest_samples import GOOD, REFUSED, framework, metrics, store

from ffdl_ops.core.jobs.environment import PLATFORM_NAMES
from ffdl_ops.core.jobs.manifest import Manifest, ManifestErrors, Problem, load_manifest
from ffdl_ops.core.jobs.yamltext import MAX_BYTES


def problems(**changes: Any) -> dict[str, Problem]:
    """The problems of a good manifest with changes, by path."""
    with pytest.raises(ManifestErrors) as refused:
        load_manifest({**GOOD, **changes})
    return {problem.path: problem for problem in refused.value.problems}


@pytest.mark.parametrize(("changes", "path", "words"), REFUSED)
def test_it_is_refused_with_path_and_reason(changes: dict[str, Any], path: str, words: str) -> None:
    found = problems(**changes)
    assert path in found, found
    assert words in str(found[path])
    assert len(found) == 1 or "connection" in path, found


@pytest.mark.parametrize(
    ("changes", "path", "hint"),
    [
        ({"lerners": 2}, "lerners", "'learners'"),
        ({"gpuType": "V100"}, "gpuType", "'gpu_type'"),
        (framework(comand="x"), "framework.comand", "'command'"),
        ({"checkpoint": {"interval": 2}}, "checkpoint.interval", "'interval_s'"),
        ({"learners": {"min": 1, "max": 2, "mx": 1}}, "learners.mx", "'max'"),
        (store(training_date={}), "data_stores[0].training_date", "'training_data'"),
        (
            store(training_data={"container": "bucket", "contaner": "x"}),
            "data_stores[0].training_data.contaner",
            "'container'",
        ),
        (metrics(type="logger", ins="x"), "evaluation_metrics.ins", "'in'"),
        (metrics(type="loger"), "evaluation_metrics.type", "'logger'"),
        ({"retry": {"node-lost": 1}}, "retry.node-lost", "'node_lost'"),
        ({"example": "digits-pytorc"}, "example", "'digits-pytorch'"),
        ({"zzzzzz": 1}, "zzzzzz", "valid here: "),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_valid_one(changes: dict[str, Any], path: str, hint: str) -> None:
    assert hint in problems(**changes)[path].hint


def test_all_problems_come_at_once_in_the_order_of_the_fields() -> None:
    found = problems(
        gpus=-1,
        memory="8",
        lerners=2,
        retry={"oom": 99},
        env={"PATH": "x"},
        framework={"name": "custom", "command": ""},
    )
    expected = ["framework.command", "framework.version", "gpus", "memory", "retry.oom", "env.PATH", "lerners"]
    assert sorted(found) == sorted(expected)
    assert list(found).index("gpus") < list(found).index("retry.oom") < list(found).index("lerners")


@pytest.mark.parametrize(
    "name",
    [*sorted(PLATFORM_NAMES), "FFDL_X", "AWS_PROFILE", "KUBERNETES_PORT", "LD_PRELOAD", "LD_AUDIT", "PATH", "PYTHONSTARTUP",
     "PYTHONPATH", "PYTHONHOME", "BASH_ENV", "BASH_FUNC_x", "CUDA_VISIBLE_DEVICES"],
)  # fmt: skip
def test_a_reserved_variable_is_refused_by_name(name: str) -> None:
    assert list(problems(env={name: "x"})) == [f"env.{name}"]


@pytest.mark.parametrize(
    "name", ["PYTHONUNBUFFERED", "LD_LIBRARY_PATH", "NCCL_DEBUG", "TOKENIZERS_PARALLELISM", "_x", "a1"]
)
def test_an_ordinary_variable_is_accepted(name: str) -> None:
    assert load_manifest({**GOOD, "env": {name: "x"}}).env == {name: "x"}


@pytest.mark.parametrize(
    ("group", "path"),
    [
        ({"regex": "(", "scalars": {"a": "$a"}}, "regex"),
        ({"regex": "{{FLOTA:a}}", "scalars": {"a": "$a"}}, "regex"),
        ({"regex": "x" * 2001, "scalars": {"a": "1"}}, "regex"),
        ({"regex": "a{99999999999}", "scalars": {"a": "1"}}, "regex"),
        ({"regex": "{{FLOAT:loss}}", "scalars": {"loss": "$los"}}, "scalars.loss"),
        ({"regex": "{{FLOAT:loss}}", "scalars": {"loss": "$loss"}, "etimes": {"step": "$step"}}, "etimes.step"),
        ({"regex": "{{FLOAT:loss}}", "scalars": {"a\nb": "$loss"}}, "scalars.a\nb"),
        ({"regex": "{{FLOAT:loss}}"}, "scalars"),
    ],
)
def test_a_wrong_group_of_metrics_is_refused_by_name(group: dict[str, Any], path: str) -> None:
    found = problems(**metrics(type="regex_extractor", groups={"train": group}))
    assert list(found) == [f"evaluation_metrics.groups.train.{path}"]


def test_an_old_kind_of_store_is_one_problem_whatever_else_it_says() -> None:
    old = {
        "id": "h",
        "type": "mount_volume",
        "training_data": {"container": "data"},
        "connection": {"type": "host_mount", "path": "/x"},
    }
    assert list(problems(data_stores=[old])) == ["data_stores[0].type"]


def test_a_manifest_made_without_the_loader_is_checked_across_too() -> None:
    with pytest.raises(ManifestErrors, match="gpus is 0"):
        Manifest.model_validate({**GOOD, "gpu_type": "V100"})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*Manifest.model_fields, "other"]), json_values, max_size=8))
def test_whatever_a_mapping_holds_it_is_a_manifest_or_problems(mapping: dict[str, Any]) -> None:
    try:
        manifest = load_manifest(mapping)
    except ManifestErrors as refused:
        assert refused.problems
        assert len(str(refused)) < MAX_BYTES
    else:
        assert load_manifest(manifest.to_dict()) == manifest


def test_a_very_long_list_of_problems_is_cut() -> None:
    with pytest.raises(ManifestErrors) as refused:
        load_manifest({**GOOD, **{f"unknown{n}": 1 for n in range(500)}})
    assert len(refused.value.problems) == 500
    assert "and 450 more problems" in str(refused.value)
