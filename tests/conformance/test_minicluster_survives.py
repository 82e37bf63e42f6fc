"""minicluster's own: killed and started again, it knows its pods, and none of them noticed."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest

from tests.conformance.bench import Bench, MiniClusterProcess, eventually, shell_pod

COUNTS = "i=0; while [ $i -lt {0} ]; do echo $i; i=$((i+1)); sleep 0.1; done"


def bench_of(server: MiniClusterProcess) -> Bench:
    return Bench(str(server.kubeconfig), "default")


def test_a_pod_runs_on_while_the_server_is_dead_and_is_found_again(fresh: MiniClusterProcess) -> None:
    bench = bench_of(fresh)
    bench.run("counts", COUNTS.format(100))
    bench.wait_log("counts", "3\n")
    before = bench.pod("counts")
    assert fresh.process is not None
    family = [fresh.process.pid, *(one.pid for one in psutil.Process(fresh.process.pid).children(recursive=True))]
    for pid in family:  # as hard as it can be hit: with everything that is still its child
        os.kill(pid, signal.SIGKILL)
    fresh.process.wait()
    time.sleep(0.5)
    fresh.start()
    found = bench.pod("counts")
    assert (found.metadata.uid, found.status.phase) == (before.metadata.uid, "Running")
    assert found.status.container_statuses[0].restart_count == 0
    assert (
        found.status.container_statuses[0].state.running.started_at
        == before.status.container_statuses[0].state.running.started_at
    )
    bench.wait_phase("counts", "Succeeded")
    assert bench.log("counts") == "".join(f"{number}\n" for number in range(100))


def test_an_exit_while_the_server_is_dead_is_not_lost(fresh: MiniClusterProcess) -> None:
    bench = bench_of(fresh)
    bench.run("ends", "echo up; sleep 0.6; echo over; exit 5")
    bench.wait_log("ends", "up")
    fresh.kill()
    time.sleep(1.2)
    restarted = time.time()
    fresh.start()
    pod = bench.wait_phase("ends", "Failed")
    state = pod.status.container_statuses[0].state.terminated
    assert state.exit_code == 5
    assert state.finished_at.timestamp() <= restarted
    assert bench.log("ends") == "up\nover\n"


def test_a_delete_goes_on_after_a_restart(fresh: MiniClusterProcess) -> None:
    bench = bench_of(fresh)
    bench.run("dying", "trap '' TERM; echo up; while true; do sleep 0.05; done", terminationGracePeriodSeconds=2)
    bench.wait_log("dying", "up")
    bench.delete("dying")
    fresh.kill()
    fresh.start()
    bench.wait_gone("dying", within_s=8)


def test_a_killed_shim_is_an_unknown_end_and_its_process_ends_too(fresh: MiniClusterProcess) -> None:
    bench = bench_of(fresh)
    bench.run("orphan", "echo $$$$; while true; do sleep 0.05; done")
    pid = int(bench.wait_log("orphan", "\n"))
    shim = psutil.Process(pid).parent()
    assert shim is not None
    shim.kill()
    pod = bench.wait_phase("orphan", "Failed")
    state = pod.status.container_statuses[0].state.terminated
    assert (state.reason, state.exit_code) == ("ContainerStatusUnknown", 137)
    eventually("the process gone", lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie")


def test_objects_versions_and_the_token_survive(fresh: MiniClusterProcess) -> None:
    bench = bench_of(fresh)
    made = bench.core.create_namespaced_config_map("default", {"metadata": {"name": "c"}, "data": {"k": "v"}})
    kubeconfig = fresh.kubeconfig.read_text()
    fresh.kill()
    fresh.start()
    assert fresh.kubeconfig.read_text() == kubeconfig
    found = bench.core.read_namespaced_config_map("c", "default")
    assert found.to_dict() == made.to_dict()
    again = bench.core.patch_namespaced_config_map("c", "default", {"data": {"k": "w"}})
    assert int(again.metadata.resource_version) > int(made.metadata.resource_version)


def test_a_pod_of_many_containers_goes_on_where_it_was(fresh: MiniClusterProcess) -> None:
    bench = bench_of(fresh)
    init = {"name": "init", "image": "busybox:1", "command": ["sh", "-c", "echo init; sleep 1"]}
    bench.create(shell_pod("staged", "echo main", initContainers=[init]))
    bench.wait_log("staged", "init", container="init")
    fresh.kill()
    fresh.start()
    pod = bench.wait_phase("staged", "Succeeded")
    assert pod.status.init_container_statuses[0].restart_count == 0
    assert bench.log("staged", container="init") == "init\n" and bench.log("staged") == "main\n"


def test_two_servers_do_not_work_on_one_state(fresh: MiniClusterProcess) -> None:
    second = MiniClusterProcess(fresh.state)
    with pytest.raises(AssertionError, match="Another minicluster works on"):
        second.start()


def test_an_old_watch_is_told_to_list_again(fresh: MiniClusterProcess) -> None:
    """Pitfall 27: 410 Gone."""
    bench = bench_of(fresh)
    version = bench.core.create_namespaced_config_map("default", {"metadata": {"name": "a"}}).metadata.resource_version
    bench.core.create_namespaced_config_map("default", {"metadata": {"name": "b"}})
    fresh.kill()
    fresh.start()
    code, status = bench.request("GET", f"/api/v1/namespaces/default/configmaps?watch=1&resourceVersion={version}")
    assert (code, status["reason"], status["code"]) == (410, "Expired", 410)
    assert "too old resource version" in status["message"]
