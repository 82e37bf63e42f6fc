"""Tenants' configuration, and the check of a job against tenant and cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.core.platform import PlatformConfig
from ffdl_ops.core.tenancy.checks import ClusterShape, NodeSize, check_job, check_queue
from ffdl_ops.core.tenancy.defaults import with_defaults
from ffdl_ops.core.tenancy.tenants import ConfigErrors, Tenant, Tenants

CONFIG = Path(__file__).resolve().parents[3] / "config"
GIB = 2**30
V100, K80, CPU = NodeSize(4, 64_000, 256 * GIB), NodeSize(4, 16_000, 64 * GIB), NodeSize(0, 4_000, 8 * GIB)
CLUSTER = ClusterShape(
    {"V100": 8, "K80": 4, "": 0}, {"V100": V100, "K80": K80, "": CPU}, {"V100": [V100, V100], "K80": [K80], "": [CPU]}
)
TENANT = Tenant.model_validate({"name": "vision", "gpu_quota": {"V100": 6, "K80": 4}, "data_buckets": ["shared-data"]})
PLATFORM = PlatformConfig.load((CONFIG / "platform.yaml").read_text())


def check(tenant: Tenant = TENANT, cluster: ClusterShape = CLUSTER, **fields: Any) -> dict[str, str]:
    manifest = load_manifest({"name": "x", "framework": {"name": "pytorch", "command": "c"}, **fields})
    return {problem.path: str(problem) for problem in check_job(manifest, tenant, cluster, PLATFORM)}


def limited(**fields: Any) -> Tenant:
    return Tenant.model_validate({**TENANT.model_dump(), **fields})


def test_the_tenants_file_is_right_and_each_has_a_bucket_of_its_own() -> None:
    tenants = Tenants.load((CONFIG / "tenants.yaml").read_text())
    assert len({tenant.bucket for tenant in tenants}) == len(tenants) > 0


def test_what_a_tenant_could_hold_at_most_is_its_own_and_what_its_cohort_lends_it() -> None:
    tenants = Tenants.load(
        {
            "tenants": [
                {"name": "a", "gpu_quota": {"V100": 4}, "cohort": "c", "borrow_limit": {"V100": 3}},
                {"name": "b", "gpu_quota": {"V100": 4, "K80": 2}, "cohort": "c", "lend_limit": {"V100": 1, "K80": 2}},
                {"name": "d", "gpu_quota": {"V100": 9}},
            ]
        }
    )
    assert tenants.most_gpus("a") == {"V100": 5, "K80": 0}
    assert tenants.most_gpus("b") == {"V100": 8, "K80": 2}
    assert tenants.most_gpus("d") == {"V100": 9}


def test_all_mistakes_of_the_configuration_come_at_once() -> None:
    with pytest.raises(ConfigErrors) as refused:
        Tenants.load(
            {
                "tenants": [
                    {"name": "A b"},
                    {"name": "one", "gpu_quota": {"V100": -1}, "gpu_qota": {}},
                    {"name": "one", "memory_quota": "8", "priority": {"default": 9, "max": 3}},
                ]
            }
        )
    paths = {problem.path for problem in refused.value.problems}
    assert paths == {
        "tenants[0].name", "tenants[1].gpu_quota.V100", "tenants[1].gpu_qota", "tenants[2].memory_quota",
        "tenants[2].priority",
        "tenants[2].name",
    }  # fmt: skip
    assert "did you mean 'gpu_quota'?" in str(refused.value)


@pytest.mark.parametrize("field", ["name", "bucket"])
def test_no_two_tenants_share_a_name_or_bucket(field: str) -> None:
    two = [{"name": "a", "bucket": "aaa"}, {"name": "b", "bucket": "bbb"}]
    two[1][field] = two[0][field]
    with pytest.raises(ConfigErrors, match=rf"tenants\[1\]\.{field}: is the {field} of tenants\[0\] already"):
        Tenants.load({"tenants": two})


@pytest.mark.parametrize("text", ["", "tenants: []", "tenants: {a: 1}", "- a", "tenants:\n- name: a\n  name: b\n"])
def test_what_is_no_list_of_tenants_is_refused(text: str) -> None:
    with pytest.raises(ConfigErrors):
        Tenants.load(text)


def test_hundreds_of_tenants_are_read() -> None:
    text = "tenants:\n" + "".join(
        f"  - name: team-{n}\n    title: {'x' * 100}\n    gpu_quota: {{V100: 4}}\n" for n in range(900)
    )
    assert len(Tenants.load(text)) == 900


def test_an_unknown_tenant_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigErrors, match="there are a, b"):
        Tenants.load({"tenants": [{"name": "a"}, {"name": "b"}]})["c"]


def test_a_job_within_all_limits_has_no_problem() -> None:
    assert check(learners=3, gpus=2, gpu_type="nvidia-TeslaV100", cpus=16, memory="64Gi") == {}
    assert check() == {}


@pytest.mark.parametrize(
    ("fields", "path", "words"),
    [
        ({"learners": 9, "gpus": 1, "gpu_type": "V100"}, "learners", ["9", "8", "6"]),
        ({"learners": 7, "gpus": 1, "gpu_type": "V100"}, "learners", ["7", "6", "vision"]),
        ({"learners": 7, "gpus": 1}, "learners", ["V100", "K80"]),
        ({"gpus": 5, "gpu_type": "V100"}, "gpus", ["5", "4"]),
        ({"gpus": 1, "gpu_type": "H900"}, "gpu_type", ["H900", "K80 (4)", "V100 (8)"]),
        ({"learners": 2, "gpus": 3, "gpu_type": "K80"}, "learners", ["6", "4"]),
        ({"cpus": 65}, "cpus", ["65", "63.95"]),
        ({"memory": "256Gi"}, "memory", ["256Gi", "255.5 GiB"]),
        ({"cpus": 17, "gpus": 1, "gpu_type": "K80"}, "cpus", ["15.95"]),
        (
            {"framework": {"name": "caffe", "command": "c"}},
            "framework.name",
            ["caffe", "pytorch, tensorflow", "custom"],
        ),
        (
            {"framework": {"name": "tensorflow", "version": "1.5.0-py3", "command": "c"}},
            "framework.version",
            ["1.5.0-py3", "2.21.0"],
        ),
    ],
)
def test_what_can_never_be_met_is_one_message_with_field_and_limit(
    fields: dict[str, Any], path: str, words: list[str]
) -> None:
    found = check(**fields)
    assert list(found) == [path], found
    assert all(word in found[path] for word in words), found


def test_a_gang_that_no_packing_holds_is_refused_though_the_sum_is_enough() -> None:
    found = check(limited(gpu_quota={"V100": 8}), learners=3, gpus=2, gpu_type="V100", cpus=33)
    assert "only 2 such learners fit" in found["learners"]


def test_an_elastic_gang_is_judged_by_its_least() -> None:
    assert check(learners={"min": 2, "max": 20}, gpus=1, gpu_type="V100") == {}


def test_a_cluster_without_gpus_says_so() -> None:
    bare = ClusterShape({"": 0}, {"": CPU})
    assert "the cluster has no GPUs" in check(cluster=bare, gpus=1)["gpus"]
    assert "the cluster has none" in check(cluster=bare, gpus=1, gpu_type="V100")["gpu_type"]


def data(container: str, **fields: Any) -> dict[str, Any]:
    return {"data_stores": [{"type": "mount_cos", "training_data": {"container": container}, **fields}]}


def test_buckets_of_others_are_refused_unless_the_store_has_credentials_of_its_own() -> None:
    assert check(**data("ffdl-vision/x")) == check(**data("shared-data")) == {}
    found = check(**data("ffdl-speech/x", training_results={"container": "elsewhere"}))
    assert set(found) == {"data_stores[0].training_data.container", "data_stores[0].training_results.container"}
    assert "ffdl-vision, shared-data" in str(found)
    assert check(**data("elsewhere/x", connection={"secret": "ffdl-data-1"})) == {}


@pytest.mark.parametrize(
    ("limits", "fields", "path"),
    [
        ({"frameworks": ["tensorflow"]}, {}, "framework.name"),
        (
            {"images": ["team/*"]},
            {"framework": {"name": "custom", "version": "other/x:1", "command": "c"}},
            "framework.version",
        ),
        ({"images": ["team/*"]}, {"framework": {"name": "pytorch", "image": "x:1", "command": "c"}}, "framework.image"),
        ({"priority": {"default": 1, "max": 40}}, {"priority": 41}, "priority"),
        ({"max_learners": 2}, {"learners": 3}, "learners"),
        ({"max_learners": 2}, {"learners": {"min": 1, "max": 3}}, "learners"),
        ({"cpu_quota": 4}, {"learners": 2, "cpus": 2}, "cpus"),
        ({"memory_quota": "8Gi"}, {"learners": 2, "memory": "4Gi"}, "memory"),
        ({"gpu_quota": {}}, {"gpus": 1, "gpu_type": "V100"}, "learners"),
    ],
)
def test_a_tenants_limit_refuses_by_name(limits: dict[str, Any], fields: dict[str, Any], path: str) -> None:
    fields = {"priority": 1, **fields}
    assert check(**fields) == {}
    found = check(limited(**limits), **fields)
    assert list(found) == [path], found
    assert "tenant vision" in found[path]


def test_images_that_fit_a_pattern_may_run() -> None:
    own = {"name": "custom", "version": "team/net:1", "command": "c"}
    assert check(limited(images=["team/*"]), framework=own) == {}


def test_a_full_queue_refuses_one_more() -> None:
    tenant = limited(max_queued=2)
    assert check_queue(tenant, 1) == []
    assert "2 may" in str(check_queue(tenant, 2)[0])


def test_defaults_come_from_tenant_and_platform_and_never_replace_what_is_written() -> None:
    tenant = limited(priority={"default": 30, "max": 60})
    sizes = PlatformConfig.load({"sizes": {"pytorch": {"cpus": 2, "memory": "5Gi"}}})
    plain = with_defaults(load_manifest({"name": "x", "example": "digits-pytorch"}), tenant, sizes)
    assert (plain.cpu_millis, plain.memory_bytes, plain.priority) == (2000, 5 * GIB, 30)
    assert plain.data_stores[0].training_data is not None
    assert plain.data_stores[0].training_data.container == "ffdl-vision/datasets/digits"
    written = {
        "name": "x",
        "example": "digits-pytorch",
        "cpus": 1,
        "memory": "1Gi",
        "priority": 7,
        **data("shared-data"),
    }
    full = with_defaults(load_manifest(written), tenant, sizes)
    assert (full.cpu_millis, full.memory_bytes, full.priority) == (1000, GIB, 7)
    assert full.data_stores == load_manifest(written).data_stores
    assert with_defaults(load_manifest({"name": "x", "example": "probe"}), tenant, sizes).data_stores == []
    assert with_defaults(plain, tenant, sizes) == plain


@pytest.mark.parametrize(
    ("tenant", "path"),
    [
        ({"name": "mlflow"}, "tenants[0].bucket"),
        ({"name": "a", "bucket": "ffdl-mlflow"}, "tenants[0].bucket"),
        ({"name": "a", "data_buckets": ["ffdl-mlflow"]}, "tenants[0].data_buckets[0]"),
        ({"name": "a", "bucket": "FFDL-Vision"}, "tenants[0].bucket"),
        ({"name": "a", "bucket": "a..b"}, "tenants[0].bucket"),
        ({"name": "a-"}, "tenants[0].name"),
    ],
)
def test_the_platforms_own_bucket_and_names_that_no_bucket_can_have_are_refused(tenant, path) -> None:
    with pytest.raises(ConfigErrors) as refused:
        Tenants.load({"tenants": [tenant]})
    assert path in {problem.path for problem in refused.value.problems}
