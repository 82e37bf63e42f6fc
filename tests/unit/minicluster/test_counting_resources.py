"""What pods request, quantities, quality of service, quotas."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffdl_ops.local.minicluster.errors import ApiError
from ffdl_ops.local.minicluster.podresources import pod_amounts, qos_class
from ffdl_ops.local.minicluster.quantity import format_quantity, is_quantity, quantity
from ffdl_ops.local.minicluster.quota import QuotaKeeper, check_quota
from ffdl_ops.local.minicluster.resources import find
from ffdl_ops.local.minicluster.store import Store


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", "0.5"),
        ("2", "2"),
        ("1.5", "1.5"),
        ("2Gi", str(2 << 30)),
        ("1G", "1000000000"),
        ("1e3", "1000"),
        ("100n", "1e-7"),
    ],
)
def test_quantities(text: str, value: str) -> None:
    assert is_quantity(text) and quantity(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "x", "1.2.3", "1KiB", "Gi", "--1", "1 Gi"])
def test_what_is_no_quantity(text: str) -> None:
    assert not is_quantity(text)
    with pytest.raises(ValueError, match="not a quantity"):
        quantity(text)


@given(st.integers(0, 1 << 60))
def test_a_quantity_survives_being_written(number: int) -> None:
    for like in ("", "1Gi"):
        assert quantity(format_quantity(Decimal(number), like)) == number


def container(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "i", "resources": {"requests": {"cpu": cpu}}, **more}


def test_init_containers_count_only_when_they_need_more() -> None:
    spec = {"containers": [container("a", "1"), container("b", "1")], "initContainers": [container("i", "3")]}
    assert pod_amounts({"spec": spec})["cpu"] == 3
    spec["initContainers"] = [container("i", "1")]
    assert pod_amounts({"spec": spec})["cpu"] == 2


def test_side_cars_count_beside_the_containers_and_the_init_containers_after_them() -> None:
    side = container("s", "1", restartPolicy="Always")
    assert pod_amounts({"spec": {"containers": [container("a", "2")], "initContainers": [side]}})["cpu"] == 3
    late = {"containers": [container("a", "1")], "initContainers": [side, container("i", "5")]}
    assert pod_amounts({"spec": late})["cpu"] == 6


def test_quality_of_service() -> None:
    same = {"cpu": "1", "memory": "1Gi"}
    of = lambda resources: qos_class({"spec": {"containers": [{"name": "a", "resources": resources}]}})  # noqa: E731
    assert of({}) == "BestEffort"
    assert of({"requests": {"cpu": "1"}}) == "Burstable"
    assert of({"requests": same, "limits": same}) == "Guaranteed"
    assert of({"requests": {"nvidia.com/gpu": "1"}}) == "BestEffort"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "objects.sqlite")
    QuotaKeeper(made)
    return made


def pod(name: str, phase: str = "Pending", **requests: str) -> dict[str, Any]:
    resources = {"requests": {key.replace("_", "."): value for key, value in requests.items()}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "n"},
        "spec": {"containers": [{"name": "main", "image": "i", "resources": resources}]}, "status": {"phase": phase},
    }  # fmt: skip


def quota(store: Store, **hard: str) -> None:
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "n"}}
    store.create("resourcequotas", {**body, "spec": {"hard": hard}, "status": {}})


def test_a_quota_keeps_count(store: Store) -> None:
    quota(store, cpu="2", pods="10")
    store.create("pods", pod("a", cpu="500m"))
    used = lambda: store.get("resourcequotas", "n", "q")["status"]["used"]  # noqa: E731
    assert used() == {"cpu": "500m", "pods": "1"}
    store.update("pods", {**store.get("pods", "n", "a"), "status": {"phase": "Succeeded"}})
    assert used() == {"cpu": "0", "pods": "0"}


def test_a_quota_refuses_with_all_numbers(store: Store) -> None:
    quota(store, cpu="1", memory="1Gi")
    store.create("pods", pod("a", cpu="600m", memory="512Mi"))
    with pytest.raises(ApiError) as refused:
        check_quota(store, find("pods"), pod("b", cpu="600m", memory="1Gi"))
    assert refused.value.code == 403
    assert refused.value.message == (
        'pods "b" is forbidden: exceeded quota: q, requested: cpu=600m,memory=1Gi, used: cpu=600m,memory=512Mi, '
        "limited: cpu=1,memory=1Gi"
    )


def test_other_namespaces_quotas_do_not_matter(store: Store) -> None:
    quota(store, pods="0")
    elsewhere = pod("a")
    elsewhere["metadata"]["namespace"] = "m"
    check_quota(store, find("pods"), elsewhere)


def test_objects_are_counted_too(store: Store) -> None:
    quota(store, secrets="1", **{"count/configmaps": "0"})
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}}
    check_quota(store, find("secrets"), secret)
    store.create("secrets", secret)
    with pytest.raises(ApiError, match="exceeded quota: q, requested: secrets=1, used: secrets=1, limited: secrets=1"):
        check_quota(store, find("secrets"), {**secret, "metadata": {"name": "t", "namespace": "n"}})
    with pytest.raises(ApiError, match="count/configmaps=1"):
        check_quota(store, find("configmaps"), {**secret, "kind": "ConfigMap"})
