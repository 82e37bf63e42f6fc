"""The platform's own account may do what this code asks of the cluster, and nothing else."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from ffdl_ops.adapters.cluster import access
from ffdl_ops.adapters.cluster.client import Cluster
from tests.support.apiserver import ApiServer, api_server

PACKAGE = Path(access.__file__).parent
META = client.V1ObjectMeta(name="x", namespace="n", labels={})

CALLS: dict[str, Callable[[Cluster], Any]] = {
    "nodes": lambda c: c.nodes(),
    "let_schedule": lambda c: c.let_schedule("x", False),
    "create_pod": lambda c: c.create_pod(client.V1Pod(metadata=META)),
    "pod": lambda c: c.pod("n", "x"),
    "pods": lambda c: c.pods("n", "a=b"),
    "pods_everywhere": lambda c: c.pods_everywhere("a=b"),
    "delete_pod": lambda c: c.delete_pod("n", "x", uid="u", grace_s=1),
    "pod_log": lambda c: c.pod_log("n", "x"),
    "follow_log": lambda c: list(c.follow_log("n", "x")),
    "create_service": lambda c: c.create_service(client.V1Service(metadata=META)),
    "delete_service": lambda c: c.delete_service("n", "x"),
    "put_secret": lambda c: c.put_secret(client.V1Secret(metadata=META)),
    "secret": lambda c: c.secret("n", "x"),
}
"""A call of each method that asks something of the API server."""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiServer]:
    with api_server(tmp_path) as running:
        yield running


def right(method: str, path: str) -> tuple[str, str, str]:
    """Group, resource and verb of a request, as RBAC names them."""
    found = re.fullmatch(
        r"/(?:api/v1|apis/(?P<group>[^/]+)/[^/]+)(?:/namespaces/[^/]+)?/(?P<resource>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?",
        path,
    )
    assert found, path
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    verb = verbs.get(method) or ("get" if found["name"] else "list")
    return found["group"] or "", found["resource"] + (f"/{found['sub']}" if found["sub"] else ""), verb


def granted(rules: tuple[dict[str, Any], ...]) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_every_method_that_asks_the_cluster_is_looked_at() -> None:
    methods = {name for name, _ in inspect.getmembers(Cluster, inspect.isfunction) if not name.startswith("_")}
    assert methods - {"call"} == set(CALLS)


def test_nobody_goes_past_these_methods() -> None:
    # Tested for themselves; three are the administrator's.
    own = {"client.py", "objects.py", "tenants.py", "kueue.py", "watching.py"}
    for path in PACKAGE.parents[1].rglob("*.py"):
        if path.parent == PACKAGE and path.name in own or "minicluster" in path.parts or path.name == "minicluster.py":
            continue
        assert not re.search(r"cluster\.(core|api|call)\b|CoreV1Api|CustomObjectsApi", path.read_text()), path


def test_what_is_asked_for_is_granted_and_nothing_more(api: ApiServer) -> None:
    cluster = Cluster(api.kubeconfig)
    for call in CALLS.values():
        call(cluster)
    api.answers["/api/v1/namespaces/n/secrets"] = (409, {"message": "there already"})
    CALLS["put_secret"](cluster)
    in_one = {right(method, path) for method, path, _ in api.asked if "/namespaces/" in path}
    everywhere = {right(method, path) for method, path, _ in api.asked if "/namespaces/" not in path}
    assert in_one == granted(access.NAMESPACE_RULES)
    assert everywhere == granted(access.CLUSTER_RULES)


def test_no_rule_is_a_wildcard() -> None:
    assert "*" not in repr([*access.NAMESPACE_RULES, *access.CLUSTER_RULES])
