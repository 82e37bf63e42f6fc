"""The control plane is kept off the training's CPUs for a while, with all that it starts, and comes back whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ffdl_ops.adapters.cluster.embedded import AdminClient
from ffdl_ops.adapters.processes import birth_mark
from ffdl_ops.adapters.settings import Settings
from ffdl_ops.core.platform import PlatformConfig
from ffdl_ops.core.tenancy.tenants import Tenants
from ffdl_ops.lab.bench.overhead.cpus import Partition, Split, control_plane, restore, split
from tests.conformance.bench import Bench, MiniClusterProcess, eventually

ALL = frozenset(os.sched_getaffinity(0))
CONTROL, TRAINING = frozenset({min(ALL)}), ALL - {min(ALL)}
pytestmark = pytest.mark.skipif(len(ALL) < 2, reason="needs two CPUs")

# A service with threads, a child, and a child whose parent has gone; it starts another child whenever it is told to.
SERVICE = """
import os, signal, subprocess, sys, threading, time
def child():
    return subprocess.Popen(["sleep", "1000"])
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
child()
subprocess.run(["sh", "-c", "sleep 1000 & exit"])
signal.signal(signal.SIGUSR1, lambda number, frame: child())
print("up", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a platform of which only the cluster is up."""
    directory = tmp_path_factory.mktemp("home")
    server = MiniClusterProcess(directory / "minicluster")
    server.start("--stop-pods")
    yield directory
    server.stop()


@pytest.fixture
def settings(home: Path) -> Settings:
    endpoints = {"kubeconfig": str(home / "minicluster" / "kubeconfig")}
    return Settings(home, home, PlatformConfig.load({}), Tenants.load({"tenants": [{"name": "vision"}]}), endpoints)


@pytest.fixture
def service(home: Path) -> Iterator[subprocess.Popen[str]]:
    """A service as `ffdl up` starts one: it leads a session, and its record names it."""
    started = subprocess.Popen(
        [sys.executable, "-c", SERVICE], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert started.stdout is not None and started.stdout.readline() == "up\n"
    (home / "run").mkdir(exist_ok=True)
    record = {"pid": started.pid, "mark": birth_mark(started.pid)}
    (home / "run" / "some-service.json").write_text(json.dumps(record))
    (home / "run" / "dead.json").write_text(json.dumps({"pid": os.getpid(), "mark": "another's"}))
    (home / "run" / "broken.json").write_text("{")
    yield started
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()


def cpus_of(pids: set[int]) -> set[frozenset[int]]:
    """The CPUs of all their threads."""
    threads = [int(name) for pid in pids for name in os.listdir(f"/proc/{pid}/task")]
    return {frozenset(os.sched_getaffinity(thread)) for thread in threads}


def pod_cpus(home: Path) -> set[frozenset[int]]:
    """Those of a pod that starts now."""
    bench = Bench(str(home / "minicluster" / "kubeconfig"), "default")
    bench.run("p", "echo up; sleep 1000")
    try:
        bench.wait_log("p", "up")
        return cpus_of(set(AdminClient.from_kubeconfig(home / "minicluster" / "kubeconfig").processes("default", "p")))
    finally:
        bench.delete("p", grace_s=0)
        bench.wait_gone("p")


def test_the_first_cpu_is_the_control_planes() -> None:
    assert split([3, 0, 1]) == Split((0,), (1, 3))
    assert split([4]) == Split((4,), (4,))


def test_only_living_services_and_what_they_started_are_the_control_plane(
    home: Path, service: subprocess.Popen[str]
) -> None:
    found = control_plane(home)
    assert {psutil.Process(pid).name() for pid in found - {service.pid}} == {"sleep"}
    assert len(found) == 3 and os.getpid() not in found


def test_control_plane_and_pods_are_apart_for_the_block(
    home: Path, settings: Settings, service: subprocess.Popen[str]
) -> None:
    with Partition(settings) as partition:
        assert partition.split == Split(tuple(CONTROL), tuple(sorted(TRAINING)))
        assert cpus_of(control_plane(home)) == {CONTROL} == cpus_of({os.getpid()})
        service.send_signal(signal.SIGUSR1)
        eventually("a further child", lambda: len(control_plane(home)) == 4)
        assert cpus_of(control_plane(home)) == {CONTROL}
        assert pod_cpus(home) == {TRAINING}
        partition.open()
        assert cpus_of(control_plane(home)) == {ALL} and pod_cpus(home) == {TRAINING}
        partition.close()
        assert cpus_of(control_plane(home)) == {CONTROL}
    assert cpus_of(control_plane(home)) == {ALL} == cpus_of({os.getpid()})
    assert pod_cpus(home) == {ALL}
    assert not restore(settings)


def test_an_error_in_the_block_does_not_keep_them_there(home: Path, settings: Settings, service: object) -> None:
    with pytest.raises(RuntimeError, match="measuring"), Partition(settings):
        raise RuntimeError("measuring")
    assert cpus_of(control_plane(home)) == {ALL} == pod_cpus(home)


_KILLED = """
import sys, time
from tests.integration.bench.test_dividing_the_cpus import Partition, PlatformConfig, Settings, Tenants
from pathlib import Path
home = Path(sys.argv[1])
endpoints = {"kubeconfig": str(home / "minicluster" / "kubeconfig")}
settings = Settings(home, home, PlatformConfig.load({}), Tenants.load({"tenants": [{"name": "vision"}]}), endpoints)
with Partition(settings):
    print("in", flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def killed(home: Path, service: object) -> Callable[[], None]:
    """Divides the CPUs in a process that is killed while they are divided."""

    def act() -> None:
        measuring = subprocess.Popen([sys.executable, "-c", _KILLED, str(home)], stdout=subprocess.PIPE, text=True)
        assert measuring.stdout is not None and measuring.stdout.readline() == "in\n"
        measuring.kill()
        measuring.wait()
        assert cpus_of(control_plane(home)) == {CONTROL}

    return act


def test_what_a_killed_measurement_left_is_restored_once(
    home: Path, settings: Settings, killed: Callable[[], None]
) -> None:
    killed()
    assert restore(settings)
    assert cpus_of(control_plane(home)) == {ALL} == pod_cpus(home)
    assert not restore(settings)


def test_the_next_measurement_begins_with_all_cpus(home: Path, settings: Settings, killed: Callable[[], None]) -> None:
    killed()
    with Partition(settings):
        assert pod_cpus(home) == {TRAINING}
    assert cpus_of(control_plane(home)) == {ALL} == pod_cpus(home)


def test_while_the_cluster_is_down_its_part_is_kept_in_mind(
    home: Path, settings: Settings, killed: Callable[[], None]
) -> None:
    killed()
    away = settings.with_endpoints({"kubeconfig": str(home / "gone")})
    assert restore(away)
    assert cpus_of(control_plane(home)) == {ALL} and pod_cpus(home) == {TRAINING}
    assert restore(settings)
    assert pod_cpus(home) == {ALL}


def test_a_real_cluster_is_left_as_it_is(home: Path, service: object) -> None:
    platform = PlatformConfig.load({"profile": "kubernetes"})
    other = Settings(home, home, platform, Tenants.load({"tenants": [{"name": "vision"}]}), {})
    with Partition(other) as partition:
        partition.open()
        partition.close()
        assert partition.split is None and cpus_of(control_plane(home)) == {ALL}
