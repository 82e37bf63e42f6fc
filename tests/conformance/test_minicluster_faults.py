"""minicluster's own: the faults of its admin surface, as the cluster's users see them."""

from __future__ import annotations

import time

import pytest
from kubernetes import client

from ffdl_ops.adapters.cluster.embedded import AdminClient, AdminRefused
from tests.conformance.bench import PYTHON, Bench, MiniClusterProcess, bare_request, eventually, shell_pod

FOREVER = "trap 'exit 0' TERM; echo up; while true; do sleep 0.02; done"
ON_A = {"nodeSelector": {"kubernetes.io/hostname": "v100-a"}}


def ready(bench: Bench, node: str) -> str:
    return next(one.status for one in bench.core.read_node(node).status.conditions if one.type == "Ready")


def test_an_evicted_pod_fails_with_the_reason_and_stays(bench: Bench, admin: AdminClient) -> None:
    """Pitfall 3: the corpse of an eviction."""
    bench.run("p", FOREVER)
    bench.wait_log("p", "up")
    admin.evict(bench.namespace, "p", "The node was low on resource: memory.")
    pod = bench.wait_phase("p", "Failed")
    assert (pod.status.reason, pod.status.message) == ("Evicted", "The node was low on resource: memory.")
    assert {one.type: one.reason for one in pod.status.conditions}["DisruptionTarget"] == "TerminationByKubelet"


def test_a_drained_nodes_pods_go_and_none_comes(bench: Bench, admin: AdminClient) -> None:
    bench.run("p", FOREVER, **ON_A)
    bench.wait_log("p", "up")
    assert admin.drain("v100-a") >= 1
    bench.wait_gone("p")
    bench.run("q", "true", **ON_A)
    eventually("refused", lambda: any("1 node(s) were unschedulable" in one for one in bench.events("q")))
    admin.restore("v100-a")
    bench.wait_phase("q", "Succeeded")


def test_a_lost_nodes_pods_seem_to_run_until_they_are_given_up(bench: Bench, admin: AdminClient) -> None:
    bench.run("p", FOREVER, **ON_A)
    bench.wait_log("p", "up")
    admin.lose("v100-a", delete_after_s=0.5, gone_after_s=0.5)
    pod = bench.pod("p")
    assert pod.status.phase == "Running" and ready(bench, "v100-a") == "Unknown"
    eventually("marked for deletion", lambda: bench.gone("p") or bench.pod("p").metadata.deletion_timestamp)
    if not bench.gone("p"):
        assert bench.pod("p").status.reason == "NodeLost"
    bench.wait_gone("p")


def test_a_node_that_comes_back_finds_its_pods_dead(bench: Bench, admin: AdminClient) -> None:
    bench.run("p", FOREVER, **ON_A)
    bench.wait_log("p", "up")
    admin.lose("v100-a")
    time.sleep(0.3)
    assert bench.pod("p").status.phase == "Running"
    admin.restore("v100-a")
    pod = bench.wait_phase("p", "Failed")
    assert pod.status.container_statuses[0].state.terminated.exit_code == 137
    assert ready(bench, "v100-a") == "True"


def test_a_spot_machine_is_taken_back_with_a_short_notice(bench: Bench, admin: AdminClient) -> None:
    bench.run(
        "p", "trap 'echo notice; sleep 0.2; echo saved; exit 0' TERM; echo up; while true; do sleep 0.02; done", **ON_A
    )
    bench.wait_log("p", "up")
    admin.spot_kill("v100-a", grace_s=1)
    pod = bench.wait_phase("p", "Failed")
    assert pod.status.reason == "Terminated"
    assert bench.log("p") == "up\nnotice\nsaved\n"
    eventually("the node gone", lambda: ready(bench, "v100-a") == "Unknown")


def test_a_node_may_refuse_what_was_bound_to_it(bench: Bench, admin: AdminClient) -> None:
    """Pitfall 9: Failed with no container statuses."""
    admin.refuse_next("v100-a", "OutOfmemory")
    bench.run("p", "true", **ON_A)
    pod = bench.wait_phase("p", "Failed")
    assert pod.status.reason == "OutOfmemory" and not pod.status.container_statuses
    bench.run("q", "true", **ON_A)
    bench.wait_phase("q", "Succeeded")


def test_a_pod_bound_past_the_scheduler_is_refused_by_the_node_when_it_is_full(
    bench: Bench, admin: AdminClient
) -> None:
    bench.run("p", "true", container={"resources": {"requests": {"cpu": "31"}}}, nodeName="v100-a")
    bench.wait_phase("p", "Succeeded")
    bench.run("q", FOREVER, container={"resources": {"requests": {"cpu": "31"}}}, nodeName="v100-a")
    bench.wait_log("q", "up")
    bench.run("r", "true", container={"resources": {"requests": {"cpu": "31"}}}, nodeName="v100-a")
    pod = bench.wait_phase("r", "Failed")
    assert pod.status.reason == "OutOfcpu" and "Node didn't have enough resource: cpu" in pod.status.message


def test_the_api_fails_and_is_slow_as_asked(bench: Bench, admin: AdminClient) -> None:
    admin.fail_api(count=2, code=503)
    codes = [bench.request("GET", "/api/v1/nodes")[0] for _ in range(3)]
    assert codes == [503, 503, 200]
    admin.fail_api(count=1, code=429, method="POST", path=bench.namespace)
    assert bench.request("GET", "/api/v1/nodes")[0] == 200
    with pytest.raises(client.ApiException) as refused:
        bench.run("p", "true")
    assert refused.value.status == 429
    admin.fail_api(share=0, delay_s=0.4)
    start = time.monotonic()
    bench.request("GET", "/api/v1/nodes")
    assert time.monotonic() - start > 0.35
    admin.heal_api()


def test_a_compacted_history_expires_watches_and_pages(bench: Bench, admin: AdminClient) -> None:
    """Pitfall 27."""
    space = f"/api/v1/namespaces/{bench.namespace}/configmaps"
    for name in ("a", "b", "c"):
        bench.core.create_namespaced_config_map(bench.namespace, {"metadata": {"name": name}})
    _, page = bench.request("GET", f"{space}?limit=1")
    admin.compact()
    version = page["metadata"]["resourceVersion"]
    bench.core.delete_namespaced_config_map("c", bench.namespace)
    admin.compact()
    assert bench.request("GET", f"{space}?watch=1&resourceVersion={version}")[1]["reason"] == "Expired"
    code, status = bench.request("GET", f"{space}?limit=1&continue={page['metadata']['continue']}")
    assert (code, status["reason"]) == (410, "Expired")


def test_one_process_may_be_oom_killed_and_the_pod_succeed(bench: Bench, minicluster: MiniClusterProcess) -> None:
    """Pitfall 21: OOMKilled with exit 0 and phase Succeeded."""
    child = "x = bytearray(b'x' * (200 << 20)); import time; time.sleep(30)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}]); print('went on')"
    limits = {"resources": {"limits": {"memory": "100Mi"}}}
    body = shell_pod("p", "", container={"image": PYTHON, "command": ["python3", "-c", code], **limits})
    body["metadata"]["annotations"] = {"minicluster.ffdl.dev/oom-kills": "process"}
    bench.create(body)
    pod = bench.wait_phase("p", "Succeeded", "Failed")
    state = pod.status.container_statuses[0].state.terminated
    assert (pod.status.phase, state.reason, state.exit_code) == ("Succeeded", "OOMKilled", 0)


def test_the_admin_surface_asks_for_the_token(minicluster: MiniClusterProcess) -> None:
    import yaml

    loaded = yaml.safe_load(minicluster.kubeconfig.read_text())
    assert bare_request(loaded, "POST", "/admin/drain", {"node": "v100-a"}, token="wrong")[0] == 401
    assert bare_request(loaded, "GET", "/admin")[0] == 200
    assert bare_request(loaded, "POST", "/admin/nonsense", {})[0] == 404


def test_a_fault_of_a_node_that_is_not_there_is_refused(admin: AdminClient) -> None:
    with pytest.raises(AdminRefused, match='nodes "nowhere" not found'):
        admin.drain("nowhere")
