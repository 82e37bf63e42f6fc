"""minicluster's own: users, directories, GPUs, addresses of the machine that it stands on."""

from __future__ import annotations

import os
import stat
import time
import urllib.request
from collections.abc import Iterator

import pytest

from tests.conformance.bench import PYTHON, Bench, MiniClusterProcess, shell_pod, unique

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="tenants are isolated only when minicluster runs as root")


@pytest.fixture
def other(kubeconfig: str) -> Iterator[Bench]:
    """A second tenant."""
    made = Bench(kubeconfig, unique("other"))
    made.core.create_namespace({"metadata": {"name": made.namespace}})
    yield made
    made.core.delete_namespace(made.namespace)


@root_only
def test_each_namespace_has_a_uid_of_its_own(bench: Bench, other: Bench, minicluster: MiniClusterProcess) -> None:
    uids = []
    for one in (bench, other, bench):
        name = unique("id")
        one.run(name, "id -u; id -g; id -G")
        one.wait_phase(name, "Succeeded")
        uids.append(one.log(name).split())
    assert uids[0] == uids[2] != uids[1]
    assert all(len(set(found)) == 1 and int(found[0]) >= 20000 for found in uids)


@root_only
def test_a_tenant_cannot_reach_another_tenants_files_nor_the_servers(
    bench: Bench, other: Bench, minicluster: MiniClusterProcess
) -> None:
    volumes = [{"name": "h", "hostPath": {"path": f"/v/{bench.namespace}", "type": "DirectoryOrCreate"}}]
    mounts = {"volumeMounts": [{"name": "h", "mountPath": "/job"}]}
    bench.create(shell_pod("owner", "echo secret > /job/file; pwd; echo /job", container=mounts, volumes=volumes))
    bench.wait_phase("owner", "Succeeded")
    home, job = bench.log("owner").split()
    server = minicluster.state / "server"
    tries = "; ".join(
        f"cat {path} 2>&1 | grep -i -c denied; ls {path} 2>&1 | grep -i -c denied"
        for path in (f"{job}/file", server / "token", server / "objects.sqlite", minicluster.kubeconfig)
    )
    other.run(
        "thief", f"{tries}; ls {home} 2>&1 | grep -i -c denied; ls {minicluster.state}/pods 2>&1 | grep -c denied"
    )
    other.wait_phase("thief", "Succeeded")
    counts = other.log("thief").split()
    # The last word of `ls kubeconfig` is allowed to name the file: its content is what is closed.
    assert counts[:7] == ["1"] * 7 and counts[8:] == ["1", "1"], counts


@root_only
def test_a_link_laid_by_a_tenant_leads_the_server_nowhere(bench: Bench, minicluster: MiniClusterProcess) -> None:
    victim = minicluster.state.parent / unique("victim")
    victim.mkdir()
    path = f"/v/{bench.namespace}"
    volumes = [{"name": "h", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}]
    mounts = {"volumeMounts": [{"name": "h", "mountPath": "/job"}]}
    link = f"ln -s {victim} /job/link; ln -s {minicluster.state}/server/token /job/end"
    bench.create(shell_pod("links", link, container={**mounts, "terminationMessagePath": "/job/end"}, volumes=volumes))
    pod = bench.wait_phase("links", "Succeeded")
    assert not pod.status.container_statuses[0].state.terminated.message
    below = [{"name": "h", "hostPath": {"path": f"{path}/link/made", "type": "DirectoryOrCreate"}}]
    bench.create(shell_pod("follows", "true", container=mounts, volumes=below))
    sub = [{"name": "h", "mountPath": "/job", "subPath": "link/made"}]
    bench.create(shell_pod("sub", "true", container={"volumeMounts": sub}, volumes=volumes))
    time.sleep(0.5)
    assert list(victim.iterdir()) == []
    assert bench.pod("follows").status.phase == "Pending"
    assert bench.pod("sub").status.phase == "Pending"
    os.rmdir(victim)


def test_nothing_of_the_servers_environment_reaches_a_pod(
    tmp_path: object, bench: Bench, minicluster: MiniClusterProcess
) -> None:
    bench.run("env", "env")
    bench.wait_phase("env", "Succeeded")
    names = {line.partition("=")[0] for line in bench.log("env").splitlines()}
    allowed = {"PATH", "HOME", "TMPDIR", "LANG", "USER", "LOGNAME", "HOSTNAME", "FFDL_MINICLUSTER", "CUDA_VISIBLE_DEVICES",
               "PWD", "SHLVL", "_", "OLDPWD"}  # fmt: skip
    assert names <= allowed


def test_simulated_gpus_are_handed_out_once_each_and_are_no_cuda_devices(
    bench: Bench, minicluster: MiniClusterProcess
) -> None:
    script = "echo \"$FFDL_SIMULATED_GPUS|$CUDA_VISIBLE_DEVICES\"; trap 'exit 0' TERM; while true; do sleep 0.05; done"
    gpus = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
    selector = {"nodeSelector": {"kubernetes.io/hostname": "k80-a"}}
    seen = []
    for name in ("one", "two"):
        bench.run(name, script, container=gpus, **selector)
        seen.append(bench.wait_log(name, "|").strip())
    assert sorted(seen) == ["0,1|", "2,3|"]
    bench.delete("one", grace_s=1)
    bench.wait_gone("one")
    bench.run("three", script, container=gpus, **selector)
    assert bench.wait_log("three", "|").strip() == seen[0]


def test_nodes_say_that_their_gpus_are_simulated(bench: Bench, minicluster: MiniClusterProcess) -> None:
    node = bench.core.read_node("v100-a")
    assert node.metadata.labels["ffdl.dev/gpu-type"] == "V100"
    assert node.status.allocatable["nvidia.com/gpu"] == "4"
    assert "simulated" in node.metadata.annotations["ffdl.dev/gpus"]
    assert "SIMULATED" in minicluster.log()


def test_paths_of_mounts_are_real_ones_in_arguments_and_environment(
    bench: Bench, minicluster: MiniClusterProcess
) -> None:
    container = {
        "volumeMounts": [{"name": "d", "mountPath": "/job"}, {"name": "e", "mountPath": "/job/inner"}],
        "env": [{"name": "DIR", "value": "/job/results"}, {"name": "URI", "value": "s3://bucket/job/x"},
                {"name": "JSON", "value": '{"dir": "/job", "other": "/jobs"}'}],
        "workingDir": "/job",
        "command": ["sh", "-c", "echo $DIR; echo $URI; echo $JSON; pwd; echo --dir=/job/inner/x"],
    }  # fmt: skip
    volumes = [{"name": "d", "emptyDir": {}}, {"name": "e", "emptyDir": {}}]
    bench.create(shell_pod("p", "", container=container, volumes=volumes))
    pod = bench.wait_phase("p", "Succeeded")
    real = f"{minicluster.state}/pods/{pod.metadata.uid}/volumes"
    assert bench.log("p").splitlines() == [
        f"{real}/d/results", "s3://bucket/job/x", f'{{"dir": "{real}/d", "other": "/jobs"}}', f"{real}/d", f"--dir={real}/e/x",
    ]  # fmt: skip


def test_a_deleted_pods_directories_are_removed(bench: Bench, minicluster: MiniClusterProcess) -> None:
    bench.run("p", "echo x > $HOME/file")
    uid = bench.wait_phase("p", "Succeeded").metadata.uid
    places = [minicluster.state / "pods" / uid, minicluster.state / "server" / "pods" / uid]
    assert all(place.is_dir() for place in places)
    bench.delete("p")
    bench.wait_gone("p")
    time.sleep(0.3)
    assert not any(place.exists() for place in places)


def test_the_server_keeps_its_own_to_itself(minicluster: MiniClusterProcess) -> None:
    assert stat.S_IMODE((minicluster.state / "server").stat().st_mode) == 0o700
    assert stat.S_IMODE(minicluster.kubeconfig.stat().st_mode) == 0o600
    token = (minicluster.state / "server" / "token").read_text().strip()
    assert token not in minicluster.log()


def test_readiness_is_answered_over_plain_http_without_a_token(minicluster: MiniClusterProcess) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{minicluster.port}/readyz", timeout=5) as answer:
        assert answer.read() == b"ok"


def test_the_banner_says_what_it_is_not(minicluster: MiniClusterProcess) -> None:
    assert "stand-in for a cluster on ONE machine" in minicluster.log()
    assert "NOT enforced" in minicluster.log()


def test_what_is_not_enforced_is_told_in_a_warning(bench: Bench, minicluster: MiniClusterProcess) -> None:
    policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: deny}\nspec: {podSelector: {}}\n"
    result = bench.kubectl("create", "--validate=false", "-f", "-", stdin=policy)
    assert "minicluster stores network policies but does not enforce them" in result.stderr


def test_a_pod_starts_within_a_tenth_of_a_second(bench: Bench, minicluster: MiniClusterProcess) -> None:
    delays = []
    for number in range(7):
        start = time.time()
        bench.run(f"p{number}", "date +%s.%N")
        bench.wait_phase(f"p{number}", "Succeeded")
        delays.append(float(bench.log(f"p{number}")) - start)
    assert sorted(delays)[1] < 0.1, delays


def test_the_helper_image_runs_this_package(bench: Bench, minicluster: MiniClusterProcess) -> None:
    command = ["python3", "-c", "import ffdl_ops, sys; print(sys.version_info[:2] >= (3, 11))"]
    bench.create(shell_pod("p", "", container={"image": "ffdl/helper:0.1", "command": command}))
    bench.wait_phase("p", "Succeeded")
    assert bench.log("p") == "True\n"
    assert PYTHON.startswith("python:")
