"""Deletes, deadlines, memory limits: what stops a pod, and what is told of it."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from kubernetes import client

from tests.conformance.bench import PYTHON, SHELL, Bench, eventually, shell_pod

SAVES = "trap 'echo saving; sleep 0.3; echo saved; exit 143' TERM; echo up; while true; do sleep 0.02; done"
STUBBORN = "trap 'echo no' TERM; echo up; while true; do sleep 0.02; done"


def test_a_deleted_pod_is_told_and_may_save(bench: Bench) -> None:
    bench.run("saves", SAVES)
    bench.wait_log("saves", "up")
    watch_from = bench.core.list_namespaced_pod(bench.namespace).metadata.resource_version
    deleted = bench.delete("saves")
    assert deleted.metadata.deletion_timestamp > datetime.now(UTC)
    assert deleted.metadata.deletion_grace_period_seconds == 5
    pod = bench.pod("saves")
    assert pod.metadata.deletion_timestamp and pod.status.phase == "Running"
    bench.wait_gone("saves", within_s=4)
    from kubernetes import watch

    seen = []
    for event in watch.Watch().stream(
        bench.core.list_namespaced_pod, bench.namespace, resource_version=watch_from, timeout_seconds=5
    ):
        seen.append(event)
        if event["type"] == "DELETED":
            break
    last = seen[-1]["object"]
    assert last.status.phase == "Failed"
    assert last.status.container_statuses[0].state.terminated.exit_code == 143


def test_a_pod_that_does_not_listen_is_killed_after_its_grace_period(bench: Bench) -> None:
    bench.run("stubborn", STUBBORN)
    bench.wait_log("stubborn", "up")
    start = time.monotonic()
    bench.delete("stubborn", grace_s=1)
    bench.wait_log("stubborn", "no")
    bench.wait_gone("stubborn", within_s=6)
    assert time.monotonic() - start > 0.9


def test_a_pod_is_listed_until_its_processes_are_gone(bench: Bench) -> None:
    """Pitfall 31: what is terminating still holds what it held."""
    bench.run("lingers", SAVES, container={"resources": {"limits": {"cpu": "100m", "memory": "64Mi"}}})
    bench.wait_log("lingers", "up")
    bench.delete("lingers")
    bench.wait_log("lingers", "saving")
    listed = bench.core.list_namespaced_pod(bench.namespace).items
    assert [pod.metadata.name for pod in listed] == ["lingers"]
    bench.wait_gone("lingers")


def test_a_second_delete_shortens_the_grace_period(bench: Bench) -> None:
    bench.run("hurry", STUBBORN, terminationGracePeriodSeconds=120)
    bench.wait_log("hurry", "up")
    bench.delete("hurry")
    assert not bench.gone("hurry")
    bench.delete("hurry", grace_s=1)
    bench.wait_gone("hurry", within_s=6)


def test_a_forced_delete_forgets_the_pod_at_once(bench: Bench) -> None:
    bench.run("forced", STUBBORN)
    bench.wait_log("forced", "up")
    bench.delete("forced", grace_s=0)
    bench.wait_gone("forced", within_s=3)


def test_a_finished_pod_is_deleted_at_once(bench: Bench) -> None:
    bench.run("over", "true")
    bench.wait_phase("over", "Succeeded")
    bench.delete("over")
    bench.wait_gone("over", within_s=5)


def test_a_delete_with_another_uid_is_a_conflict(bench: Bench) -> None:
    """Pitfall 2: the pod of this name may be another run's."""
    bench.run("mine", "sleep 60")
    with pytest.raises(client.ApiException) as refused:
        bench.delete("mine", preconditions=client.V1Preconditions(uid="1234"))
    assert refused.value.status == 409 and "Precondition failed: UID" in str(refused.value.body)
    bench.delete("mine", grace_s=0, preconditions=client.V1Preconditions(uid=bench.pod("mine").metadata.uid))


def test_side_cars_stop_after_the_main_containers(bench: Bench) -> None:
    mount = {"volumeMounts": [{"name": "d", "mountPath": "/data"}]}
    order = "trap 'echo {0} >> /data/order; exit 0' TERM; touch /data/{0}; while true; do sleep 0.02; done"
    side = {"name": "side", "image": SHELL, "restartPolicy": "Always", **mount,
            "command": ["sh", "-c", "trap 'cat /data/order; exit 0' TERM; while true; do sleep 0.02; done"]}  # fmt: skip
    main = order.format("main").replace("exit 0", "sleep 0.2; exit 0")
    bench.create(
        shell_pod("ordered", main + "", container=mount, initContainers=[side], volumes=[{"name": "d", "emptyDir": {}}])
    )
    bench.wait_phase("ordered", "Running")
    time.sleep(0.5)
    answer = bench.core.read_namespaced_pod_log(
        "ordered", bench.namespace, container="side", follow=True, _preload_content=False
    )
    bench.delete("ordered")
    assert b"".join(answer.stream(amt=None)) == b"main\n"


def test_a_pod_over_its_deadline_fails_with_the_reason(bench: Bench) -> None:
    bench.run("late", "trap 'exit 0' TERM; while true; do sleep 0.02; done", activeDeadlineSeconds=1)
    pod = bench.wait_phase("late", "Failed", "Succeeded", within_s=15)
    assert (pod.status.phase, pod.status.reason) == ("Failed", "DeadlineExceeded")
    assert pod.status.message == "Pod was active on the node longer than the specified deadline"


def test_a_container_over_its_memory_limit_is_oom_killed(bench: Bench) -> None:
    """Pitfall 20."""
    code = "import time\nx = bytearray(200 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\ntime.sleep(30)"
    limits = {"resources": {"limits": {"memory": "64Mi"}}}
    bench.create(shell_pod("greedy", "", container={"image": PYTHON, "command": ["python3", "-c", code], **limits}))
    pod = bench.wait_phase("greedy", "Failed", "Succeeded")
    state = pod.status.container_statuses[0].state.terminated
    assert (pod.status.phase, state.reason, state.exit_code) == ("Failed", "OOMKilled", 137)


def test_memory_is_counted_over_all_processes_of_a_container(bench: Bench) -> None:
    child = "import time; x = bytearray(b'x' * (40 << 20)); time.sleep(30)"
    code = f"import subprocess, sys\nall = [subprocess.Popen([sys.executable, '-c', {child!r}]) for _ in range(3)]\nall[0].wait()"
    limits = {"resources": {"limits": {"memory": "100Mi"}}}
    bench.create(shell_pod("family", "", container={"image": PYTHON, "command": ["python3", "-c", code], **limits}))
    pod = bench.wait_phase("family", "Failed", "Succeeded")
    assert pod.status.container_statuses[0].state.terminated.reason == "OOMKilled"


def test_an_eviction_deletes_gracefully_and_says_so(bench: Bench) -> None:
    bench.run("evicted", SAVES)
    bench.wait_log("evicted", "up")
    bench.core.create_namespaced_pod_eviction("evicted", bench.namespace, {"metadata": {"name": "evicted"}})
    pod = bench.pod("evicted")
    assert {one.type: one.reason for one in pod.status.conditions}["DisruptionTarget"] == "EvictionByEvictionAPI"
    bench.wait_gone("evicted")


def test_pods_are_deleted_by_selector(bench: Bench) -> None:
    for name, tier in (("a", "x"), ("b", "x"), ("c", "y")):
        body = shell_pod(name, "sleep 60", terminationGracePeriodSeconds=1)
        body["metadata"]["labels"] = {"tier": tier}
        bench.create(body)
    bench.core.delete_collection_namespaced_pod(bench.namespace, label_selector="tier=x", grace_period_seconds=0)
    eventually(
        "only c", lambda: [p.metadata.name for p in bench.core.list_namespaced_pod(bench.namespace).items] == ["c"]
    )


def test_a_pod_that_never_started_goes_at_once(bench: Bench) -> None:
    bench.run("pulling", "true", container={"image": "no.such/image:1"})
    eventually("the pod on a node", lambda: bench.pod("pulling").spec.node_name)
    bench.delete("pulling")
    bench.wait_gone("pulling", within_s=5)
