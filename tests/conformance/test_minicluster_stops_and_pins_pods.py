"""minicluster's own: pods that are stopped for a while, and pods that run on some of the machine's CPUs alone."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from ffdl_ops.adapters.cluster.embedded import AdminClient, AdminRefused
from tests.conformance.bench import PYTHON, SHELL, Bench, MiniClusterProcess, eventually

# A child in a session of its own, as a launcher's program is: what goes to the main process's group does not reach it.
FAMILY = """
import os, signal, sys, time
def stop(number, frame):
    print("stopped", flush=True)
    sys.exit(0)
if os.fork() == 0:
    os.setsid()
    while True:
        time.sleep(0.01)
signal.signal(signal.SIGTERM, stop)
print("up", flush=True)
while True:
    time.sleep(0.01)
"""
BESIDE = {
    "name": "beside",
    "image": SHELL,
    "restartPolicy": "Always",
    "command": ["sh", "-c", "while true; do sleep 0.05; done"],
}
LAST = (os.cpu_count() or 1) - 1


def family(bench: Bench, name: str = "p") -> None:
    container = {"image": PYTHON, "command": ["python3", "-c", FAMILY]}
    bench.run(name, "", container=container, initContainers=[BESIDE])
    bench.wait_log(name, "up")


def states(pids: list[int]) -> set[str]:
    found = set()
    for pid in pids:
        try:
            found.add(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
        except FileNotFoundError:
            continue
    return found


def test_a_stopped_pod_stops_whole_stays_running_and_goes_on(bench: Bench, admin: AdminClient) -> None:
    family(bench)
    pids = admin.processes(bench.namespace, "p")
    assert len(pids) >= 3  # main, its child in another session, the side-car
    admin.kill(bench.namespace, "p", signal=signal.SIGSTOP)
    eventually("all stopped", lambda: states(admin.processes(bench.namespace, "p")) == {"T"})
    time.sleep(0.5)
    pod = bench.pod("p")
    assert pod.status.phase == "Running" and pod.status.container_statuses[0].ready
    admin.kill(bench.namespace, "p", signal=signal.SIGCONT)
    eventually("none stopped", lambda: "T" not in states(admin.processes(bench.namespace, "p")))


def test_a_stopped_pod_that_is_deleted_ends_in_its_own_way(bench: Bench, admin: AdminClient) -> None:
    family(bench)
    admin.kill(bench.namespace, "p", signal=signal.SIGSTOP)
    pids = admin.processes(bench.namespace, "p")
    began = time.monotonic()
    bench.delete("p", grace_s=60)
    bench.wait_gone("p")
    assert time.monotonic() - began < 30  # it has handled its SIGTERM, and was not left to its grace period
    assert states(pids) <= {"Z"}


def cpus(pids: list[int]) -> set[frozenset[int]]:
    found = set()
    for pid in pids:
        try:
            found.add(frozenset(os.sched_getaffinity(pid)))
        except ProcessLookupError:
            continue
    return found


@pytest.mark.skipif(LAST == 0, reason="needs two CPUs")
def test_pods_run_on_the_cpus_that_they_are_given(bench: Bench, admin: AdminClient) -> None:
    family(bench)
    everything = cpus(admin.processes(bench.namespace, "p"))
    try:
        admin.pin_pods([LAST])
        assert cpus(admin.processes(bench.namespace, "p")) == {frozenset({LAST})}
        family(bench, "q")
        assert cpus(admin.processes(bench.namespace, "q")) == {frozenset({LAST})}
    finally:
        admin.pin_pods(None)
    assert cpus(admin.processes(bench.namespace, "p")) == everything
    family(bench, "r")
    assert cpus(admin.processes(bench.namespace, "r")) == everything


@pytest.mark.skipif(LAST == 0, reason="needs two CPUs")
def test_a_server_that_was_killed_keeps_to_the_cpus(fresh: MiniClusterProcess) -> None:
    AdminClient.from_kubeconfig(fresh.kubeconfig).pin_pods([LAST])
    fresh.kill()
    fresh.start()
    bench, admin = Bench(str(fresh.kubeconfig), "default"), AdminClient.from_kubeconfig(fresh.kubeconfig)
    family(bench)
    assert cpus(admin.processes("default", "p")) == {frozenset({LAST})}


@pytest.mark.parametrize("given", [[], [LAST + 1], [-1], [True], ["0"], 0, {"0": 1}])
def test_cpus_that_the_machine_has_not_are_refused(admin: AdminClient, given: object) -> None:
    with pytest.raises(AdminRefused, match=r"no list of CPUs of this machine, which has 0 to \d+"):
        admin._post("pod-cpus", cpus=given)


def test_processes_of_no_pod_are_not_found(bench: Bench, admin: AdminClient) -> None:
    with pytest.raises(AdminRefused, match="not found"):
        admin.processes(bench.namespace, "nobody")
