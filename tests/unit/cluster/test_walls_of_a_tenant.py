"""`isolation: required`: refused on one machine, and on a cluster wherever a wall is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ffdl_ops.adapters.cluster.client import Cluster
from ffdl_ops.adapters.cluster.manifests import tenant_manifests
from ffdl_ops.adapters.cluster.walls import missing_walls
from ffdl_ops.adapters.settings import Settings
from ffdl_ops.core.errors import UserError
from ffdl_ops.core.platform import PlatformConfig
from ffdl_ops.core.tenancy.tenants import Tenants
from ffdl_ops.local.services.isolation import check_isolation
from ffdl_ops.pipeline import isolation
from ffdl_ops.pipeline.services import Services
from tests.support.apiserver import ApiServer, api_server

SPACE = "/api/v1/namespaces/ffdl-vision"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/ffdl-vision/networkpolicies"
KEYS = {"endpoint": "http://192.0.2.7:9000", "tenants": {"vision": {"access_key": "k", "secret_key": "s"}}}


def settings(kubeconfig: str = "none", **platform: Any) -> Settings:
    return Settings(
        Path("/nowhere"), Path("/nowhere"), PlatformConfig.load(platform),
        Tenants.load({"tenants": [{"name": "vision"}]}), {"s3": KEYS, "kubeconfig": kubeconfig},
    )  # fmt: skip


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    monkeypatch.delenv("AIRFLOW_CONN_FFDL_S3_VISION", raising=False)
    with api_server(tmp_path) as running:
        yield running


@pytest.fixture
def walled(api: ApiServer) -> ApiServer:
    """A cluster on which the tenant has all that `ffdl tenants apply` makes."""
    one = settings()
    bodies = tenant_manifests(one.tenants["vision"], one.tenants, one.platform, one.store_config("vision"))
    api.answers[SPACE] = (200, next(body for body in bodies if body["kind"] == "Namespace"))
    api.answers[POLICIES] = (200, {"items": [body for body in bodies if body["kind"] == "NetworkPolicy"]})
    return api


def missing(api: ApiServer) -> list[str]:
    return missing_walls(settings(api.kubeconfig), Cluster(api.kubeconfig), "vision")


def test_whole_walls_are_found_by_two_calls(walled: ApiServer) -> None:
    assert missing(walled) == []
    assert [path for _, path, _ in walled.asked] == [SPACE, POLICIES]


def test_a_lower_level_of_pod_security_is_missed(walled: ApiServer) -> None:
    walled.answers[SPACE][1]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "baseline"
    assert missing(walled) == ["the label pod-security.kubernetes.io/enforce=restricted of namespace ffdl-vision"]


def test_a_policy_that_is_gone_is_missed(walled: ApiServer) -> None:
    items = walled.answers[POLICIES][1]["items"]
    items[:] = [one for one in items if one["metadata"]["name"] != "ffdl-default-deny"]
    assert missing(walled) == ["NetworkPolicy ffdl-vision/ffdl-default-deny"]


def test_a_policy_that_somebody_has_opened_is_missed(walled: ApiServer) -> None:
    deny = next(one for one in walled.answers[POLICIES][1]["items"] if one["metadata"]["name"] == "ffdl-default-deny")
    deny["spec"] = {**deny["spec"], "egress": [{}]}
    assert missing(walled) == ["NetworkPolicy ffdl-vision/ffdl-default-deny"]


def test_walls_that_may_not_be_looked_at_count_as_missing(walled: ApiServer) -> None:
    walled.answers[POLICIES] = (403, {"message": "forbidden"})
    [one] = missing(walled)
    assert "the right to look at namespace ffdl-vision" in one


def test_plan_refuses_on_a_cluster_without_walls_and_only_if_they_are_required(api: ApiServer) -> None:
    api.answers[SPACE] = (404, {"message": "not found"})
    isolation.check_isolation(Services(settings(api.kubeconfig, profile="kubernetes")), "vision")
    assert api.asked == []
    services = Services(settings(api.kubeconfig, profile="kubernetes", isolation="required"))
    with pytest.raises(UserError, match="ffdl-default-deny.* `ffdl tenants apply`"):
        isolation.check_isolation(services, "vision")


@pytest.mark.parametrize("uid", [0, 1000])
def test_the_embedded_platform_does_not_start_and_says_what_is_missing(
    uid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: uid)
    check_isolation(settings())
    with pytest.raises(UserError) as refused:
        check_isolation(settings(isolation="required"))
    text = str(refused.value)
    for word in ("isolation", "platform.yaml", "network", "loopback", "CPU", "best_effort", "kubernetes"):
        assert word in text
    assert ("a uid for each tenant" in text) == (uid != 0)


def test_a_job_is_refused_when_the_setting_changes_while_the_platform_is_up() -> None:
    with pytest.raises(UserError, match="on one machine"):
        isolation.check_isolation(Services(settings(isolation="required")), "vision")
