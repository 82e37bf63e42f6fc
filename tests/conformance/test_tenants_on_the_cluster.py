"""`ffdl tenants apply` on a real API: made once, put right when changed, left alone when right, and never deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from ffdl_ops.adapters.cluster.tenants import Applied, apply_tenants
from ffdl_ops.adapters.settings import Settings
from ffdl_ops.core.errors import UserError
from ffdl_ops.core.jobs.ids import namespace
from ffdl_ops.core.platform import PlatformConfig
from ffdl_ops.core.tenancy.tenants import Tenants
from tests.conformance.bench import Bench, shell_pod, unique

KINDS = "resourcequotas,limitranges,networkpolicies,serviceaccounts,roles,rolebindings"


class Tenancy:
    """Two tenants of the test's own."""

    def __init__(self, kubeconfig: str, folder: Path) -> None:
        self.kubeconfig, self.folder = kubeconfig, folder
        self.names = [unique("t"), unique("u")]
        self.bench = Bench(kubeconfig, namespace(self.names[0]))
        self.networking = client.NetworkingV1Api(self.bench.api)
        self.rbac = client.RbacAuthorizationV1Api(self.bench.api)

    def apply(self, *, names: list[str] | None = None, dry_run: bool = False, **fields: Any) -> Applied:
        """Apply, the first tenant with further fields."""
        names = names or self.names
        listed = [{"name": name, "gpu_quota": {"V100": 4}, "max_running": 5} for name in names]
        listed[0] = {**listed[0], **fields}
        keys = {name: {"access_key": "key", "secret_key": "word-of-secret"} for name in names}
        settings = Settings(
            home=self.folder,
            config=self.folder,
            platform=PlatformConfig(),
            tenants=Tenants.load({"tenants": listed}),
            endpoints={"kubeconfig": self.kubeconfig, "s3": {"endpoint": "http://192.0.2.7:8333", "tenants": keys}},
        )
        return apply_tenants(settings, dry_run=dry_run)

    def versions(self) -> dict[str, str]:
        """The version of every object that is kept there."""
        found = {}
        for name in self.names:
            told = self.bench.kubectl(
                "get", KINDS + ",secrets", "-n", namespace(name), "-o",
                'jsonpath={range .items[*]}{.kind}/{.metadata.name}={.metadata.resourceVersion}{"\\n"}{end}',
            )  # fmt: skip
            assert told.returncode == 0, told.stderr
            found |= {f"{name}:{line.split('=')[0]}": line.split("=")[1] for line in told.stdout.split()}
        return found


@pytest.fixture
def tenancy(kubeconfig: str, tmp_path: Path) -> Iterator[Tenancy]:
    made = Tenancy(kubeconfig, tmp_path)
    yield made
    for name in made.names:
        try:
            made.bench.core.delete_namespace(namespace(name))
        except client.ApiException as error:
            assert error.status == 404
    made.bench.api.close()


def whats(applied: Applied) -> set[tuple[str, str]]:
    return {(change.kind, change.action) for change in applied.changed}


def test_a_dry_run_shows_everything_and_makes_nothing(tenancy: Tenancy) -> None:
    applied = tenancy.apply(dry_run=True)
    assert {one.action for one in applied.changed} == {"create"}
    assert {one.kind for one in applied.changed} >= {
        "Namespace", "ResourceQuota", "LimitRange", "NetworkPolicy", "ServiceAccount", "Role", "RoleBinding", "Secret",
    }  # fmt: skip
    assert "word-of-secret" not in repr(applied)
    known = {one.metadata.name for one in tenancy.bench.core.list_namespace().items}
    assert not known & {namespace(name) for name in tenancy.names}


def test_applied_twice_nothing_changes(tenancy: Tenancy) -> None:
    assert tenancy.apply().changed
    before = tenancy.versions()
    again = tenancy.apply()
    assert again.changed == () and again.namespaces == tuple(namespace(name) for name in tenancy.names)
    assert tenancy.apply(dry_run=True).changed == ()
    assert tenancy.versions() == before


def test_what_somebody_has_changed_is_shown_and_put_right(tenancy: Tenancy) -> None:
    tenancy.apply()
    where, core = namespace(tenancy.names[0]), tenancy.bench.core
    core.patch_namespaced_resource_quota("ffdl", where, {"spec": {"hard": {"requests.nvidia.com/gpu": "99"}}})
    core.patch_namespace(where, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}})
    tenancy.networking.patch_namespaced_network_policy("ffdl-default-deny", where, {"spec": {"ingress": [{}]}})
    tenancy.networking.delete_namespaced_network_policy("ffdl-dns", where)
    expected = {
        ("ResourceQuota", "update"),
        ("Namespace", "update"),
        ("NetworkPolicy", "update"),
        ("NetworkPolicy", "create"),
    }
    shown = tenancy.apply(dry_run=True)
    assert whats(shown) == expected
    assert "-    requests.nvidia.com/gpu: '99'" in "\n".join(one.difference for one in shown.changed)
    assert core.read_namespaced_resource_quota("ffdl", where).spec.hard["requests.nvidia.com/gpu"] == "99"
    assert whats(tenancy.apply()) == expected
    assert core.read_namespaced_resource_quota("ffdl", where).spec.hard["requests.nvidia.com/gpu"] == "4"
    assert tenancy.apply().changed == ()


def test_what_others_have_added_stays(tenancy: Tenancy) -> None:
    tenancy.apply()
    where, core = namespace(tenancy.names[0]), tenancy.bench.core
    core.patch_namespace(where, {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}}})
    assert tenancy.apply(gpu_quota={"V100": 2}).changed
    meta = core.read_namespace(where).metadata
    assert meta.labels["team"] == "a" and meta.annotations["note"] == "x"


def test_another_configuration_is_a_difference_in_the_quota_alone(tenancy: Tenancy) -> None:
    tenancy.apply(max_running=5)
    assert whats(tenancy.apply(max_running=6)) == {("ResourceQuota", "update")}
    assert whats(tenancy.apply(max_running=None)) == {("ResourceQuota", "update")}
    hard = tenancy.bench.core.read_namespaced_resource_quota("ffdl", namespace(tenancy.names[0])).spec.hard
    assert set(hard) == {"requests.nvidia.com/gpu"}


def test_a_removed_tenant_is_told_and_left_alone(tenancy: Tenancy) -> None:
    tenancy.apply()
    gone = namespace(tenancy.names[1])
    applied = tenancy.apply(names=tenancy.names[:1])
    assert applied.changed == ()
    (left,) = [one for one in applied.left_alone if one.name == gone]
    assert left.remove_with == f"kubectl delete namespace {gone}"
    assert tenancy.bench.core.read_namespace(gone).status.phase == "Active"


def test_an_object_of_an_earlier_version_is_told_and_left_alone(tenancy: Tenancy) -> None:
    tenancy.apply()
    where = namespace(tenancy.names[0])
    labels = {"app.kubernetes.io/managed-by": "ffdl-ops", "ffdl.dev/tenant": tenancy.names[0]}
    body = {"metadata": {"name": "ffdl-old", "labels": labels}, "spec": {"podSelector": {}}}
    tenancy.networking.create_namespaced_network_policy(where, body)
    tenancy.networking.create_namespaced_network_policy(where, {**body, "metadata": {"name": "of-others"}})
    told = [one for one in tenancy.apply().left_alone if one.namespace == where]
    assert [one.remove_with for one in told] == [f"kubectl -n {where} delete networkpolicy ffdl-old"]


def test_somebody_elses_namespace_is_not_taken_over(tenancy: Tenancy) -> None:
    where = namespace(tenancy.names[1])
    tenancy.bench.core.create_namespace({"metadata": {"name": where}})
    with pytest.raises(UserError, match=f"{where} is there already.*kubectl label namespace {where}"):
        tenancy.apply()
    known = {one.metadata.name for one in tenancy.bench.core.list_namespace().items}
    assert namespace(tenancy.names[0]) not in known
    tenancy.bench.core.patch_namespace(where, {"metadata": {"labels": {"ffdl.dev/tenant": tenancy.names[1]}}})
    assert ("NetworkPolicy", "create") in whats(tenancy.apply())


def test_a_pod_that_says_no_sizes_gets_the_tenants_usual_ones(tenancy: Tenancy) -> None:
    tenancy.apply(cpu_quota=4, memory_quota="8Gi")
    security = {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True, "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    more = {"securityContext": security}
    body = {**shell_pod("small", "true", container=more), "kind": "Pod"}
    body["spec"]["serviceAccountName"] = "ffdl-job"
    created = tenancy.bench.create(body)
    resources = created.spec.containers[0].resources
    assert resources.requests == {"cpu": "500m", "memory": "2Gi"} and resources.limits == {"cpu": "4", "memory": "2Gi"}
    large = {**more, "resources": {"requests": {"cpu": "5"}, "limits": {"cpu": "5"}}}
    with pytest.raises(client.ApiException, match="maximum cpu usage per Container is 4"):
        tenancy.bench.create(shell_pod("large", "true", container=large))
    tenancy.bench.delete("small", grace_s=0)


def test_a_limit_ranges_defaults_follow_from_its_maxima(bench: Bench) -> None:
    limits = [{"type": "Container", "max": {"cpu": "2", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}}]
    made = bench.core.create_namespaced_limit_range(
        bench.namespace, {"metadata": {"name": "l"}, "spec": {"limits": limits}}
    )
    (entry,) = made.spec.limits
    assert entry.default == {"cpu": "2", "memory": "1Gi"}
    assert entry.default_request == {"cpu": "100m", "memory": "1Gi"}


def test_a_network_policy_says_which_protocol_and_direction_it_means(bench: Bench) -> None:
    rule = {"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}], "ports": [{"port": 53}]}
    body = {"metadata": {"name": "p"}, "spec": {"podSelector": {}, "egress": [rule]}}
    spec = client.NetworkingV1Api(bench.api).create_namespaced_network_policy(bench.namespace, body).spec
    assert spec.policy_types == ["Ingress", "Egress"] and spec.egress[0].ports[0].protocol == "TCP"


def test_a_bindings_role_cannot_be_changed(bench: Bench) -> None:
    rbac = client.RbacAuthorizationV1Api(bench.api)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    subject = {"kind": "ServiceAccount", "name": "a", "namespace": bench.namespace}
    body = {"metadata": {"name": "b"}, "roleRef": role, "subjects": [subject]}
    rbac.create_namespaced_role_binding(bench.namespace, body)
    rbac.patch_namespaced_role_binding("b", bench.namespace, {"subjects": [{**subject, "name": "c"}]})
    with pytest.raises(client.ApiException, match="cannot change roleRef") as refused:
        rbac.replace_namespaced_role_binding("b", bench.namespace, {**body, "roleRef": {**role, "name": "other"}})
    assert refused.value.status == 422
