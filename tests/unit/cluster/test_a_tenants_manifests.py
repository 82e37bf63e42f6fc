"""What a tenant gets on the cluster: limits that agree with its quota, and nothing that a pod of ours would fail at."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

import pytest
from kubernetes.utils import parse_quantity

from ffdl_ops.adapters.cluster.manifests import (
    namespace_gpu_limit,
    namespace_pod_limit,
    platform_manifests,
    tenant_manifests,
)
from ffdl_ops.adapters.cluster.specs import PodIdentity, helper_container, pod_skeleton, volumes_of
from ffdl_ops.adapters.storage.config import StoreConfig
from ffdl_ops.core.platform import PlatformConfig
from ffdl_ops.core.tenancy.tenants import Tenant, Tenants

STORE = StoreConfig("http://192.0.2.7:8333", "key", "secret")
PLATFORM = PlatformConfig()
KUEUE = PlatformConfig.load({"cluster": {"admission": "kueue"}})


def manifests(one: Tenant, platform: PlatformConfig = PLATFORM) -> list[dict[str, Any]]:
    return tenant_manifests(one, Tenants({one.name: one}), platform, STORE)


def tenant(**fields: Any) -> Tenant:
    return Tenant.model_validate({"name": "vision", "gpu_quota": {"V100": 4, "K80": 2}, **fields})


def made(kind: str, name: str | None = None, **fields: Any) -> dict[str, Any]:
    found = [one for one in manifests(tenant(**fields)) if one["kind"] == kind]
    return next(one for one in found if name in (None, one["metadata"]["name"]))


def test_the_namespace_comes_first_and_is_restricted() -> None:
    first = manifests(tenant())[0]
    labels = first["metadata"]["labels"]
    assert (first["kind"], first["metadata"]["name"]) == ("Namespace", "ffdl-vision")
    assert {labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "audit", "warn")} == {"restricted"}


def test_every_object_says_whose_it_is() -> None:
    for one in manifests(tenant()):
        labels = one["metadata"]["labels"]
        assert labels["app.kubernetes.io/managed-by"] == labels["app.kubernetes.io/part-of"] == "ffdl-ops"
        assert labels["ffdl.dev/tenant"] == labels["app.kubernetes.io/instance"] == "vision"
        assert one["kind"] == "Namespace" or one["metadata"]["namespace"] == "ffdl-vision"


def test_no_two_objects_have_one_name() -> None:
    known = [(one["kind"], one["metadata"]["name"]) for one in manifests(tenant())]
    assert len(known) == len(set(known))


def test_the_quota_is_the_tenants() -> None:
    hard = made("ResourceQuota", cpu_quota=2.5, memory_quota="16Gi", max_running=3, max_learners=4, max_queued=10)[
        "spec"
    ]["hard"]
    assert hard == {
        "requests.nvidia.com/gpu": "6",
        "requests.cpu": "2500m",
        "requests.memory": "16Gi",
        "pods": "25",
    }


def test_what_has_no_limit_is_not_in_the_quota() -> None:
    assert made("ResourceQuota")["spec"]["hard"] == {"requests.nvidia.com/gpu": "6"}
    assert namespace_pod_limit(tenant()) is None


def test_what_it_may_borrow_is_let_through() -> None:
    lender = {"name": "speech", "gpu_quota": {"V100": 5, "K80": 3}, "lend_limit": {"V100": 4}, "cohort": "research"}
    for fields, limit in (
        ({}, 6),
        ({"cohort": "research"}, 10),
        ({"cohort": "research", "borrow_limit": {"V100": 1}}, 7),
    ):
        one = tenant(**fields)
        both = Tenants({"vision": one, "speech": Tenant.model_validate(lender)})
        assert namespace_gpu_limit(one, both) == limit


def test_kueue_counts_amounts_itself_and_pods_are_there_before_they_are_admitted() -> None:
    one = tenant(cpu_quota=2, memory_quota="16Gi", max_running=3, max_learners=4, max_queued=10)
    (quota,) = [body for body in manifests(one, KUEUE) if body["kind"] == "ResourceQuota"]
    assert quota["spec"]["hard"] == {"pods": "65"}


def test_the_platform_may_read_workloads_only_where_kueue_admits() -> None:
    def groups(platform: PlatformConfig) -> set[str]:
        (role,) = [body for body in manifests(tenant(), platform) if body["kind"] == "Role"]
        return {group for rule in role["rules"] for group in rule["apiGroups"]}

    assert groups(PLATFORM) == {""} and groups(KUEUE) == {"", "kueue.x-k8s.io"}


@pytest.mark.parametrize("fields", [{}, {"cpu_quota": 0.25, "memory_quota": "1Gi"}, {"cpu_quota": 64}])
def test_a_containers_usual_size_is_within_its_limits(fields: dict[str, Any]) -> None:
    (entry,) = made("LimitRange", **fields)["spec"]["limits"]
    for resource in ("cpu", "memory"):
        usual, limit, most = (parse_quantity(entry[one][resource]) for one in ("defaultRequest", "default", "max"))
        assert Decimal(0) < usual <= limit <= most


def test_no_container_is_given_gpus_that_it_did_not_ask_for() -> None:
    (entry,) = made("LimitRange")["spec"]["limits"]
    assert not [resources for resources in entry.values() if "nvidia.com/gpu" in resources]


def test_pods_run_under_an_account_without_a_token() -> None:
    account = made("ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    identity = PodIdentity("job-1", "vision", "ffdl-vision", "helper")
    pod = pod_skeleton(PLATFORM, identity, "p")
    assert pod.spec.service_account_name == account["metadata"]["name"]
    assert pod.spec.automount_service_account_token is False


def test_the_pods_are_what_pod_security_restricted_lets_through() -> None:
    claims = {"kind": "persistentVolumeClaim", "claim": "c"}
    platform = PlatformConfig.load({"volumes": {"job": claims, "cache": claims}})
    identity = PodIdentity("job-1", "vision", "ffdl-vision", "helper")
    pod = pod_skeleton(platform, identity, "p")
    volumes, mounts = volumes_of(platform, identity)
    security = helper_container(platform, "helper", "fetch", {}, mounts).security_context
    assert pod.spec.security_context.run_as_non_root and pod.spec.security_context.run_as_user > 0
    assert pod.spec.security_context.seccomp_profile.type == "RuntimeDefault"
    assert security.allow_privilege_escalation is False and security.capabilities.drop == ["ALL"]
    assert all(volume.host_path is None for volume in volumes)


def test_the_storage_secret_holds_what_the_helpers_read() -> None:
    data = made("Secret")["data"]
    assert {key: base64.b64decode(value).decode() for key, value in data.items()} == {
        "FFDL_S3_ENDPOINT": "http://192.0.2.7:8333",
        "FFDL_S3_ACCESS_KEY_ID": "key",
        "FFDL_S3_SECRET_ACCESS_KEY": "secret",
        "FFDL_S3_REGION": "us-east-1",
    }


def test_the_platforms_account_is_the_configurations() -> None:
    platform = PlatformConfig.load({"cluster": {"account": {"namespace": "airflow", "name": "workers"}}})
    subjects = [
        one["subjects"]
        for one in [*manifests(tenant(), platform), *platform_manifests(platform)]
        if one["kind"].endswith("Binding")
    ]
    assert subjects == [[{"kind": "ServiceAccount", "name": "workers", "namespace": "airflow"}]] * 2
