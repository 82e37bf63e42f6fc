"""Patches, owners, finalizers, namespaces, and the kinds that are only stored."""

from __future__ import annotations

import base64
import time
from typing import Any

import pytest
from kubernetes import client

from tests.conformance.bench import Bench, eventually, shell_pod


def config_map(bench: Bench, name: str, owner: Any = None, **more: Any) -> Any:
    meta: dict[str, Any] = {"name": name, **more}
    if owner is not None:
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner.metadata.name, "uid": owner.metadata.uid}
        meta["ownerReferences"] = [{**reference, "blockOwnerDeletion": True}]
    return bench.core.create_namespaced_config_map(bench.namespace, {"metadata": meta, "data": {"a": "1", "b": "2"}})


def names(bench: Bench) -> set[str]:
    found = bench.core.list_namespaced_config_map(bench.namespace).items
    return {one.metadata.name for one in found} - {"kube-root-ca.crt"}


def patch(bench: Bench, kind: str, body: Any, path: str) -> tuple[int, Any]:
    headers = {"Content-Type": f"application/{kind}-patch+json"}
    return bench.request("PATCH", f"/api/v1/namespaces/{bench.namespace}/{path}", body, headers)


def test_a_merge_patch_sets_and_removes(bench: Bench) -> None:
    config_map(bench, "c")
    code, body = patch(bench, "merge", {"data": {"a": None, "c": "3"}}, "configmaps/c")
    assert (code, body["data"]) == (200, {"b": "2", "c": "3"})


def test_a_json_patch_applies_or_is_refused_as_a_whole(bench: Bench) -> None:
    config_map(bench, "c")
    operations = [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "replace", "path": "/data/a", "value": "9"}]
    assert patch(bench, "json", operations, "configmaps/c")[1]["data"]["a"] == "9"
    code, _ = patch(
        bench,
        "json",
        [{"op": "remove", "path": "/data/b"}, {"op": "test", "path": "/data/a", "value": "1"}],
        "configmaps/c",
    )
    assert code == 422
    assert bench.core.read_namespaced_config_map("c", bench.namespace).data == {"a": "9", "b": "2"}


def test_a_strategic_merge_patch_merges_lists_by_name(bench: Bench) -> None:
    bench.create(shell_pod("p", "sleep 60"))
    bench.wait_phase("p", "Running")
    tolerations = bench.pod("p").spec.tolerations
    image = {"spec": {"containers": [{"name": "main", "image": "busybox:1.37"}]}}
    code, body = patch(bench, "strategic-merge", image, "pods/p")
    assert code == 200
    assert [(one["name"], one["image"]) for one in body["spec"]["containers"]] == [("main", "busybox:1.37")]
    assert body["spec"]["containers"][0]["command"] == ["sh", "-c", "sleep 60"]
    assert len(body["spec"]["tolerations"]) == len(tolerations)


def test_labels_and_annotations_of_a_running_pod_can_be_patched(bench: Bench) -> None:
    bench.run("p", "sleep 60")
    bench.core.patch_namespaced_pod(
        "p", bench.namespace, {"metadata": {"labels": {"a": "b"}, "annotations": {"note": "x"}}}
    )
    pod = bench.pod("p")
    assert pod.metadata.labels == {"a": "b"} and pod.metadata.annotations["note"] == "x"


def test_the_status_is_changed_through_its_subresource_alone(bench: Bench) -> None:
    bench.run("p", "sleep 60")
    bench.wait_phase("p", "Running")
    pod = bench.raw("p")
    pod["status"] = {"phase": "Failed"}
    pod["metadata"]["labels"] = {"x": "y"}
    assert bench.request("PUT", f"/api/v1/namespaces/{bench.namespace}/pods/p", pod)[0] in (200, 409)
    assert bench.pod("p").status.phase == "Running"
    condition = {"type": "ffdl.dev/Checked", "status": "True"}
    bench.core.patch_namespaced_pod_status("p", bench.namespace, {"status": {"conditions": [condition]}})
    kinds = {one.type for one in bench.pod("p").status.conditions}
    assert {"ffdl.dev/Checked", "PodScheduled"} <= kinds


def test_dependents_go_with_their_owner(bench: Bench) -> None:
    owner = config_map(bench, "owner")
    child = config_map(bench, "child", owner)
    config_map(bench, "grandchild", child)
    config_map(bench, "stranger")
    bench.core.delete_namespaced_config_map("owner", bench.namespace)
    eventually("dependents gone", lambda: names(bench) == {"stranger"})


def test_pods_go_with_their_owner(bench: Bench) -> None:
    owner = config_map(bench, "owner")
    body = shell_pod("owned", "sleep 60", terminationGracePeriodSeconds=1)
    body["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
    ]
    bench.create(body)
    bench.wait_phase("owned", "Running")
    bench.core.delete_namespaced_config_map("owner", bench.namespace)
    bench.wait_gone("owned")


def test_an_orphaning_delete_leaves_the_dependents(bench: Bench) -> None:
    owner = config_map(bench, "owner")
    config_map(bench, "child", owner)
    bench.core.delete_namespaced_config_map("owner", bench.namespace, propagation_policy="Orphan")
    eventually("the owner gone", lambda: names(bench) == {"child"})
    time.sleep(0.2)
    assert not bench.core.read_namespaced_config_map("child", bench.namespace).metadata.owner_references


def test_a_foreground_delete_waits_for_the_dependents(bench: Bench) -> None:
    owner = config_map(bench, "owner")
    config_map(bench, "child", owner, finalizers=["ffdl.dev/hold"])
    bench.core.delete_namespaced_config_map("owner", bench.namespace, propagation_policy="Foreground")
    eventually(
        "the child asked to go",
        lambda: bench.core.read_namespaced_config_map("child", bench.namespace).metadata.deletion_timestamp,
    )
    assert names(bench) == {"owner", "child"}
    patch(bench, "merge", {"metadata": {"finalizers": None}}, "configmaps/child")
    eventually("both gone", lambda: names(bench) == set())


def test_a_finalizer_holds_an_object(bench: Bench) -> None:
    config_map(bench, "held", finalizers=["ffdl.dev/hold"])
    bench.core.delete_namespaced_config_map("held", bench.namespace)
    assert bench.core.read_namespaced_config_map("held", bench.namespace).metadata.deletion_timestamp
    patch(bench, "merge", {"metadata": {"finalizers": []}}, "configmaps/held")
    eventually("gone", lambda: names(bench) == set())


def test_a_namespace_goes_with_all_that_is_in_it(bench: Bench) -> None:
    space = f"{bench.namespace}-x"
    bench.core.create_namespace({"metadata": {"name": space}})
    inner = Bench(bench.kubeconfig, space)
    inner.run("p", "trap 'sleep 0.3; exit 0' TERM; while true; do sleep 0.02; done")
    config_map(inner, "c")
    inner.wait_phase("p", "Running")
    bench.core.delete_namespace(space)
    assert bench.core.read_namespace(space).status.phase == "Terminating"
    with pytest.raises(client.ApiException) as refused:
        config_map(inner, "late")
    assert refused.value.status == 403 and "being terminated" in str(refused.value.body)

    def gone() -> bool:
        try:
            bench.core.read_namespace(space)
        except client.ApiException as error:
            return bool(error.status == 404)
        return False

    eventually("the namespace gone", gone)


def test_secrets_take_plain_text_and_give_base64(bench: Bench) -> None:
    made = bench.core.create_namespaced_secret(bench.namespace, {"metadata": {"name": "s"}, "stringData": {"k": "v"}})
    assert made.data == {"k": base64.b64encode(b"v").decode()} and made.type == "Opaque" and made.string_data is None


def test_a_dry_run_stores_nothing(bench: Bench) -> None:
    bench.core.create_namespaced_config_map(bench.namespace, {"metadata": {"name": "dry"}}, dry_run="All")
    assert "dry" not in names(bench)
    config_map(bench, "kept")
    bench.core.delete_namespaced_config_map("kept", bench.namespace, dry_run="All")
    assert "kept" in names(bench)


def test_a_limit_range_fills_in_what_a_container_leaves_out(bench: Bench) -> None:
    limits = [
        {
            "type": "Container",
            "default": {"memory": "200Mi"},
            "defaultRequest": {"memory": "100Mi"},
            "max": {"memory": "1Gi"},
        }
    ]
    bench.core.create_namespaced_limit_range(bench.namespace, {"metadata": {"name": "l"}, "spec": {"limits": limits}})
    pod = bench.run("p", "true")
    resources = pod.spec.containers[0].resources
    assert (resources.requests["memory"], resources.limits["memory"]) == ("100Mi", "200Mi")
    with pytest.raises(client.ApiException) as refused:
        bench.run("q", "true", container={"resources": {"limits": {"memory": "2Gi"}}})
    assert refused.value.status == 403 and "maximum memory usage per Container is 1Gi" in str(refused.value.body)


def test_the_kinds_a_tenant_needs_are_stored(bench: Bench) -> None:
    network, rbac = client.NetworkingV1Api(bench.api), client.RbacAuthorizationV1Api(bench.api)
    meta = {"metadata": {"name": "x"}}
    network.create_namespaced_network_policy(
        bench.namespace, {**meta, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}
    )
    rbac.create_namespaced_role(
        bench.namespace, {**meta, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
    )
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x"}
    rbac.create_namespaced_role_binding(bench.namespace, {**meta, "roleRef": reference, "subjects": []})
    bench.core.create_namespaced_service_account(bench.namespace, meta)
    ports = [{"name": "rendezvous", "port": 29500}]
    bench.core.create_namespaced_service(
        bench.namespace, {**meta, "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": ports}}
    )
    assert bench.core.read_namespaced_service("x", bench.namespace).spec.cluster_ip == "None"
    assert network.read_namespaced_network_policy("x", bench.namespace).spec.policy_types == ["Ingress"]
    assert rbac.read_namespaced_role("x", bench.namespace).rules[0].verbs == ["get"]


def test_a_claim_keeps_what_pods_write_until_it_is_deleted(bench: Bench) -> None:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "jobs/x"}]}
    for name, script in (("w", "echo kept > /v/file"), ("r", "cat /v/file")):
        if name == "w":
            bench.core.create_namespaced_persistent_volume_claim(
                bench.namespace, {"metadata": {"name": "data"}, "spec": spec}
            )
        bench.create(shell_pod(name, script, container=mounts, volumes=volumes))
        bench.wait_phase(name, "Succeeded", within_s=60)
    assert bench.log("r") == "kept\n"
