"""The stock kubectl, as an operator of the platform uses it."""

from __future__ import annotations

import json
import shutil
import subprocess
import time

import pytest
import yaml

from tests.conformance.bench import Bench, eventually, shell_pod


@pytest.fixture(autouse=True)
def kubectl_is_there() -> None:
    if shutil.which("kubectl") is None:
        pytest.fail("kubectl is not on PATH: install it (Debian: kubernetes-client) to run these tests")


def ok(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_apply_get_logs_wait_delete(bench: Bench) -> None:
    """Without --validate=false too."""
    manifest = yaml.safe_dump(shell_pod("hello", "echo one; sleep 0.5; echo two"))
    assert "pod/hello created" in ok(bench.kubectl("apply", "-f", "-", stdin=manifest))
    bench.wait_log("hello", "one")
    assert ok(bench.kubectl("logs", "-f", "hello")) == "one\ntwo\n"
    bench.wait_phase("hello", "Succeeded")
    row = ok(bench.kubectl("get", "pods", "--no-headers")).split()
    assert row[:4] == ["hello", "0/1", "Completed", "0"]
    wide = ok(bench.kubectl("get", "pod", "hello", "-o", "wide"))
    assert bench.pod("hello").spec.node_name in wide and "READY" in wide
    assert ok(bench.kubectl("delete", "pod", "hello")).startswith('pod "hello" deleted')
    assert bench.gone("hello")


def test_delete_waits_until_the_pod_is_gone(bench: Bench) -> None:
    bench.run("slow", "trap 'sleep 0.7; exit 0' TERM; echo up; while true; do sleep 0.02; done")
    bench.wait_log("slow", "up")
    start = time.monotonic()
    ok(bench.kubectl("delete", "pod", "slow"))
    assert time.monotonic() - start > 0.6 and bench.gone("slow")


def test_wait_for_conditions_and_deletion(bench: Bench) -> None:
    bench.run("p", "trap 'sleep 1; exit 0' TERM; while true; do sleep 0.02; done")
    ok(bench.kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=20s"))
    bench.delete("p")
    ok(bench.kubectl("wait", "--for=delete", "pod/p", "--timeout=20s"))


def test_describe_tells_states_and_events(bench: Bench) -> None:
    bench.create(shell_pod("p", "exit 4", container={"resources": {"limits": {"cpu": "100m", "memory": "64Mi"}}}))
    bench.wait_phase("p", "Failed")
    eventually("the events", lambda: any(one.startswith("Started") for one in bench.events("p")))
    text = ok(bench.kubectl("describe", "pod", "p"))
    for wanted in ("Exit Code:    4", "Reason:       Error", "memory:  64Mi", "Scheduled", "Started container main"):
        assert wanted in text, text


def test_describe_and_get_nodes(bench: Bench) -> None:
    node = bench.core.list_node().items[0].metadata.name
    assert "Ready" in ok(bench.kubectl("get", "nodes"))
    text = ok(bench.kubectl("describe", "node", node))
    assert "Allocatable:" in text and "Non-terminated Pods:" in text


def test_events_and_the_short_names(bench: Bench) -> None:
    bench.run("p", "true")
    bench.wait_phase("p", "Succeeded")
    text = ok(bench.kubectl("get", "events"))
    assert "Scheduled" in text and "pod/p" in text
    assert "pod/p" in ok(bench.kubectl("get", "po,cm", "-o", "name"))
    assert "default" in ok(bench.kubectl("get", "ns"))


def test_api_resources_and_version(bench: Bench) -> None:
    text = ok(bench.kubectl("api-resources"))
    for kind in ("pods", "networkpolicies", "resourcequotas", "rolebindings", "namespaces", "events"):
        assert kind in text
    assert "Server Version" in ok(bench.kubectl("version"))


def test_get_as_json_and_watch(bench: Bench) -> None:
    bench.run("p", "true")
    bench.wait_phase("p", "Succeeded")
    assert json.loads(ok(bench.kubectl("get", "pods", "-o", "json")))["items"][0]["status"]["phase"] == "Succeeded"
    result = bench.kubectl("get", "pods", "-w", "--request-timeout=2s")
    assert "Completed" in result.stdout and result.stdout.count("READY") == 1


def test_apply_again_changes_what_changed(bench: Bench) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}}
    ok(bench.kubectl("apply", "--validate=false", "-f", "-", stdin=json.dumps(manifest)))
    manifest["data"] = {"a": "9"}
    assert "configured" in ok(bench.kubectl("apply", "--validate=false", "-f", "-", stdin=json.dumps(manifest)))
    assert bench.core.read_namespaced_config_map("c", bench.namespace).data == {"a": "9"}
    assert "unchanged" in ok(bench.kubectl("apply", "--validate=false", "-f", "-", stdin=json.dumps(manifest)))
    ok(
        bench.kubectl(
            "apply", "--server-side", "--force-conflicts", "--validate=false", "-f", "-", stdin=json.dumps(manifest)
        )
    )


def test_create_label_and_patch(bench: Bench) -> None:
    ok(bench.kubectl("create", "secret", "generic", "s", "--from-literal=k=v"))
    ok(bench.kubectl("create", "configmap", "c", "--from-literal=k=v"))
    ok(bench.kubectl("label", "configmap", "c", "tier=gold"))
    ok(bench.kubectl("patch", "configmap", "c", "-p", '{"data":{"k":"w"}}'))
    found = bench.core.read_namespaced_config_map("c", bench.namespace)
    assert found.data == {"k": "w"} and found.metadata.labels["tier"] == "gold"
    ok(bench.kubectl("create", "quota", "q", "--hard=pods=3"))
    assert "pods: 0/3" in ok(bench.kubectl("get", "quota", "q"))


def test_errors_are_the_servers_own(bench: Bench) -> None:
    result = bench.kubectl("get", "pod", "nobody")
    assert result.returncode == 1 and 'Error from server (NotFound): pods "nobody" not found' in result.stderr
    bench.run("twice", "true")
    result = bench.kubectl("create", "--validate=false", "-f", "-", stdin=json.dumps(shell_pod("twice", "true")))
    assert 'pods "twice" already exists' in result.stderr


def test_logs_of_a_side_car_and_of_a_selector(bench: Bench) -> None:
    body = shell_pod("two", "echo main")
    body["metadata"]["labels"] = {"app": "x"}
    body["spec"]["containers"].append(
        {**body["spec"]["containers"][0], "name": "other", "command": ["sh", "-c", "echo other"]}
    )
    bench.create(body)
    bench.wait_phase("two", "Succeeded")
    assert ok(bench.kubectl("logs", "two", "-c", "other")) == "other\n"
    assert set(ok(bench.kubectl("logs", "-l", "app=x", "--all-containers")).split()) == {"main", "other"}
    assert ok(bench.kubectl("logs", "two", "-c", "main", "--timestamps", "--tail=1")).rstrip().endswith("Z main")


def test_cordon_and_drain_leave_other_nodes_alone(bench: Bench, minicluster: object, admin: object) -> None:
    bench.run(
        "p", "trap 'exit 0' TERM; while true; do sleep 0.02; done", nodeSelector={"kubernetes.io/hostname": "v100-b"}
    )
    bench.wait_phase("p", "Running")
    ok(
        bench.kubectl(
            "drain", "v100-b", "--force", "--timeout=30s", "--pod-selector=!no-such-label", "--ignore-daemonsets"
        )
    )
    bench.wait_gone("p")
    assert "SchedulingDisabled" in ok(bench.kubectl("get", "node", "v100-b"))
    ok(bench.kubectl("uncordon", "v100-b"))
    assert "SchedulingDisabled" not in ok(bench.kubectl("get", "node", "v100-b"))
