"""What keeps a pod from starting, and what the server refuses: in the words of the real ones."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client

from tests.conformance.bench import Bench, bare_request, eventually, shell_pod


def waiting_reason(bench: Bench, name: str) -> str | None:
    statuses = bench.pod(name).status.container_statuses
    return statuses[0].state.waiting.reason if statuses and statuses[0].state.waiting else None


def test_an_unknown_image_waits_and_says_why(bench: Bench) -> None:
    bench.run("noimage", "true", container={"image": "registry.invalid/no-such-image:1"})
    eventually("ErrImagePull", lambda: waiting_reason(bench, "noimage") in ("ErrImagePull", "ImagePullBackOff"))
    eventually("ImagePullBackOff", lambda: waiting_reason(bench, "noimage") == "ImagePullBackOff")
    pod = bench.pod("noimage")
    assert pod.status.phase == "Pending"
    assert "registry.invalid/no-such-image:1" in pod.status.container_statuses[0].state.waiting.message
    assert any(event.startswith("Failed: Failed to pull image") for event in bench.events("noimage"))


def test_a_missing_secret_is_a_config_error_until_it_is_there(bench: Bench) -> None:
    env = [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "later", "key": "k"}}}]
    bench.run("nosecret", "echo $X", container={"env": env})
    eventually("CreateContainerConfigError", lambda: waiting_reason(bench, "nosecret") == "CreateContainerConfigError")
    assert bench.pod("nosecret").status.container_statuses[0].state.waiting.message == 'secret "later" not found'
    bench.core.create_namespaced_secret(bench.namespace, {"metadata": {"name": "later"}, "stringData": {"other": "1"}})
    wanted = f"couldn't find key k in Secret {bench.namespace}/later"
    eventually("the key's message", lambda: wanted == getattr(
        bench.pod("nosecret").status.container_statuses[0].state.waiting, "message", None), within_s=90)  # fmt: skip
    bench.core.patch_namespaced_secret("later", bench.namespace, {"stringData": {"k": "now"}})
    bench.wait_phase("nosecret", "Succeeded", within_s=90)
    assert bench.log("nosecret") == "now\n"


def test_a_missing_config_map_volume_keeps_the_pod_creating(bench: Bench) -> None:
    volumes = [{"name": "c", "configMap": {"name": "absent"}}]
    bench.create(
        shell_pod("novol", "cat /c/k", container={"volumeMounts": [{"name": "c", "mountPath": "/c"}]}, volumes=volumes)
    )
    text = 'FailedMount: MountVolume.SetUp failed for volume "c" : configmap "absent" not found'
    eventually("FailedMount", lambda: text in bench.events("novol"))
    assert waiting_reason(bench, "novol") == "ContainerCreating"
    bench.core.create_namespaced_config_map(bench.namespace, {"metadata": {"name": "absent"}, "data": {"k": "v"}})
    bench.wait_phase("novol", "Succeeded", within_s=150)


def test_a_pod_that_fits_nowhere_says_what_is_missing(bench: Bench) -> None:
    """Pitfall 16: the scheduler's own message."""
    nodes = len(bench.core.list_node().items)
    resources = {"limits": {"nvidia.com/gpu": "999"}}
    bench.run("big", "true", container={"resources": resources})

    def unscheduled() -> Any:
        found = [one for one in bench.pod("big").status.conditions or [] if one.type == "PodScheduled"]
        return found[0] if found else None

    condition = eventually("PodScheduled", unscheduled)
    assert (condition.status, condition.reason) == ("False", "Unschedulable")
    assert condition.message.startswith(f"0/{nodes} nodes are available: ")
    assert f"{nodes} Insufficient nvidia.com/gpu" in condition.message
    assert any(event.startswith(f"FailedScheduling: 0/{nodes} nodes are available") for event in bench.events("big"))
    assert bench.pod("big").status.phase == "Pending"


def test_a_node_selector_that_matches_nothing_says_so(bench: Bench) -> None:
    bench.run("where", "true", nodeSelector={"no-such": "label"})
    text = "node(s) didn't match Pod's node affinity/selector"
    eventually("the message", lambda: any(text in one for one in bench.events("where")))


def test_required_node_affinity_places_the_pod(bench: Bench) -> None:
    node = bench.core.list_node().items[-1].metadata.labels["kubernetes.io/hostname"]
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    tolerations = [{"operator": "Exists"}]
    bench.run("there", "true", affinity=affinity, tolerations=tolerations)
    pod = bench.wait_phase("there", "Succeeded")
    assert bench.core.read_node(pod.spec.node_name).metadata.labels["kubernetes.io/hostname"] == node


def test_a_quota_refuses_what_is_too_much_with_the_numbers(bench: Bench) -> None:
    """Pitfall 14."""
    hard = {"requests.nvidia.com/gpu": "2", "pods": "5"}
    bench.core.create_namespaced_resource_quota(bench.namespace, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    eventually(
        "the quota's status", lambda: bench.core.read_namespaced_resource_quota("q", bench.namespace).status.used
    )
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
    bench.run("first", "sleep 60", container=gpu)
    with pytest.raises(client.ApiException) as refused:
        bench.run("second", "true", container=gpu)
    assert refused.value.status == 403
    assert (
        'pods \\"second\\" is forbidden: exceeded quota: q, requested: requests.nvidia.com/gpu=2, used: '
        "requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=2" in str(refused.value.body)
    )
    used = lambda: bench.core.read_namespaced_resource_quota("q", bench.namespace).status.used  # noqa: E731
    eventually("used", lambda: used()["requests.nvidia.com/gpu"] == "2" and used()["pods"] == "1")
    bench.delete("first", grace_s=0)
    eventually("freed", lambda: used()["requests.nvidia.com/gpu"] == "0")
    bench.run("second", "true", container=gpu)


def test_a_finished_pod_leaves_its_quota(bench: Bench) -> None:
    spec = {"hard": {"requests.cpu": "100m"}}
    bench.core.create_namespaced_resource_quota(bench.namespace, {"metadata": {"name": "q"}, "spec": spec})
    eventually(
        "the quota's status", lambda: bench.core.read_namespaced_resource_quota("q", bench.namespace).status.used
    )
    cpu = {"resources": {"requests": {"cpu": "100m"}}}
    bench.run("one", "true", container=cpu)
    bench.wait_phase("one", "Succeeded")
    eventually(
        "freed",
        lambda: bench.core.read_namespaced_resource_quota("q", bench.namespace).status.used["requests.cpu"] == "0",
    )
    bench.run("two", "true", container=cpu)
    with pytest.raises(client.ApiException) as refused:
        bench.run("three", "true")
    assert "failed quota: q: must specify requests.cpu for: main" in str(refused.value.body)


def refusal(bench: Bench, body: dict[str, Any]) -> dict[str, Any]:
    code, status = bench.request("POST", f"/api/v1/namespaces/{bench.namespace}/pods", body)
    assert code == status["code"] and status["kind"] == "Status" and status["status"] == "Failure"
    return dict(status)


@pytest.mark.parametrize(
    ("field", "reason", "change"),
    [
        ("metadata.name", "FieldValueInvalid", lambda body: body["metadata"].update(name="Bad_Name")),
        ("spec.containers", "FieldValueRequired", lambda body: body["spec"].update(containers=[])),
        ("spec.containers[0].name", "FieldValueRequired", lambda body: body["spec"]["containers"][0].pop("name")),
        ("spec.restartPolicy", "FieldValueNotSupported", lambda body: body["spec"].update(restartPolicy="Sometimes")),
        (
            "spec.containers[0].volumeMounts[0].name",
            "FieldValueNotFound",
            lambda body: body["spec"]["containers"][0].update(volumeMounts=[{"name": "no", "mountPath": "/x"}]),
        ),
        (
            "spec.containers[1].name",
            "FieldValueDuplicate",
            lambda body: body["spec"]["containers"].append(dict(body["spec"]["containers"][0])),
        ),
        ("metadata.labels", "FieldValueInvalid", lambda body: body["metadata"].update(labels={"a": "not ok"})),
    ],
)
def test_an_invalid_pod_is_a_422_that_names_the_field(bench: Bench, field: str, reason: str, change: Any) -> None:
    body = shell_pod("x", "true")
    change(body)
    status = refusal(bench, body)
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert (field, reason) in [(cause["field"], cause["reason"]) for cause in status["details"]["causes"]]


def test_all_problems_of_a_pod_come_at_once(bench: Bench) -> None:
    body = shell_pod("x", "true", restartPolicy="Sometimes")
    body["metadata"]["name"] = "Bad"
    causes = refusal(bench, body)["details"]["causes"]
    assert {"metadata.name", "spec.restartPolicy"} <= {cause["field"] for cause in causes}


def test_a_request_above_its_limit_is_invalid(bench: Bench) -> None:
    resources = {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}
    status = refusal(bench, shell_pod("x", "true", container={"resources": resources}))
    assert "must be less than or equal to memory limit of 1Gi" in status["message"]


def test_a_name_that_is_taken_is_already_exists(bench: Bench) -> None:
    bench.run("twice", "true")
    status = refusal(bench, shell_pod("twice", "true"))
    assert (status["code"], status["reason"]) == (409, "AlreadyExists")
    assert status["message"] == 'pods "twice" already exists'


def test_a_missing_object_is_not_found(bench: Bench) -> None:
    code, status = bench.request("GET", f"/api/v1/namespaces/{bench.namespace}/pods/nobody")
    assert (code, status["reason"], status["message"]) == (404, "NotFound", 'pods "nobody" not found')
    code, status = bench.request("POST", "/api/v1/namespaces/no-such-namespace/pods", shell_pod("x", "true"))
    assert (code, status["message"]) == (404, 'namespaces "no-such-namespace" not found')
    assert bench.request("GET", "/api/v1/no-such-things")[0] == 404


def test_a_pods_spec_cannot_be_changed(bench: Bench) -> None:
    bench.run("fixed", "sleep 60")
    patch = {"spec": {"containers": [{"name": "main", "command": ["true"]}]}}
    with pytest.raises(client.ApiException) as refused:
        bench.core.patch_namespaced_pod("fixed", bench.namespace, patch)
    assert refused.value.status == 422 and "pod updates may not change fields other than" in str(refused.value.body)


def test_a_stale_version_is_a_conflict(bench: Bench) -> None:
    made = bench.core.create_namespaced_config_map(bench.namespace, {"metadata": {"name": "c"}, "data": {"k": "1"}})
    bench.core.patch_namespaced_config_map("c", bench.namespace, {"data": {"k": "2"}})
    made.data = {"k": "3"}
    with pytest.raises(client.ApiException) as refused:
        bench.core.replace_namespaced_config_map("c", bench.namespace, made)
    assert refused.value.status == 409 and "the object has been modified" in str(refused.value.body)


def test_who_has_no_token_is_unauthorized(bench: Bench) -> None:
    import yaml

    with open(bench.kubeconfig) as file:
        loaded = yaml.safe_load(file)
    code, status = bare_request(loaded, "GET", "/api/v1/nodes", token="wrong")
    assert (code, status["reason"]) == (401, "Unauthorized")


def test_a_method_that_makes_no_sense_is_not_allowed(bench: Bench) -> None:
    code, status = bench.request("PUT", f"/api/v1/namespaces/{bench.namespace}/pods", {})
    assert (code, status["reason"]) == (405, "MethodNotAllowed")


def test_generated_names_differ(bench: Bench) -> None:
    body = shell_pod("x", "true")
    body["metadata"] = {"generateName": "job-"}
    names = {bench.create(body).metadata.name for _ in range(5)}
    assert len(names) == 5 and all(name.startswith("job-") and len(name) == 9 for name in names)


def test_gpus_are_counted_by_node(bench: Bench) -> None:
    free = [
        node
        for node in bench.core.list_node().items
        if int((node.status.allocatable or {}).get("nvidia.com/gpu", "0")) >= 2
    ]
    if not free:
        pytest.skip("no node with two GPUs")
    name = free[0].metadata.labels["kubernetes.io/hostname"]
    count = int(free[0].status.allocatable["nvidia.com/gpu"])
    selector = {"nodeSelector": {"kubernetes.io/hostname": name}}
    gpus = lambda number: {"resources": {"limits": {"nvidia.com/gpu": str(number)}}}  # noqa: E731
    bench.run("all", "trap 'exit 0' TERM; while true; do sleep 0.05; done", container=gpus(count), **selector)
    bench.wait_phase("all", "Running")
    bench.run("more", "true", container=gpus(1), **selector)
    eventually("no room", lambda: any("Insufficient nvidia.com/gpu" in one for one in bench.events("more")))
    bench.delete("all")
    bench.wait_phase("more", "Succeeded")
