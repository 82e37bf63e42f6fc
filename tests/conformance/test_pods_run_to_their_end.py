"""Pods: started, configured, observed, ended."""

from __future__ import annotations

import base64
import time

import pytest

from tests.conformance.bench import PYTHON, SHELL, Bench, eventually, shell_pod


def test_a_pod_that_exits_0_succeeds(bench: Bench) -> None:
    created = bench.run("ok", "echo hello")
    assert created.status.phase == "Pending"
    pod = bench.wait_phase("ok", "Succeeded")
    state = pod.status.container_statuses[0].state.terminated
    assert (state.exit_code, state.reason) == (0, "Completed")
    assert created.metadata.creation_timestamp <= state.started_at <= state.finished_at
    assert pod.spec.node_name and pod.status.start_time and pod.status.pod_ip
    conditions = {one.type: one.status for one in pod.status.conditions}
    assert (
        conditions["PodScheduled"] == "True" and conditions["Initialized"] == "True" and conditions["Ready"] == "False"
    )
    assert bench.log("ok") == "hello\n"


def test_a_pod_that_exits_with_a_code_fails_with_it(bench: Bench) -> None:
    bench.run("bad", "echo broken >&2; exit 7")
    pod = bench.wait_phase("bad", "Failed")
    state = pod.status.container_statuses[0].state.terminated
    assert (state.exit_code, state.reason) == (7, "Error")
    assert bench.log("bad") == "broken\n"


def test_a_container_killed_by_a_signal_reports_128_plus_it(bench: Bench) -> None:
    bench.create(
        shell_pod("killed", "", container={"image": PYTHON, "command": ["python3", "-c", "import os; os.abort()"]})
    )
    pod = bench.wait_phase("killed", "Failed")
    assert pod.status.container_statuses[0].state.terminated.exit_code == 134


def test_a_program_that_is_not_there_is_a_start_error(bench: Bench) -> None:
    bench.create(shell_pod("nowhere", "", container={"command": ["/no/such/program"]}))
    pod = bench.wait_phase("nowhere", "Failed")
    state = pod.status.container_statuses[0].state.terminated
    assert state.exit_code == 128 and state.reason in ("StartError", "ContainerCannotRun")
    assert "/no/such/program" in state.message


def test_init_containers_run_one_after_the_other_before_the_rest(bench: Bench) -> None:
    mount = {"volumeMounts": [{"name": "d", "mountPath": "/data"}]}
    inits = [
        {"name": f"init{number}", "image": SHELL, "command": ["sh", "-c", f"echo {number} >> /data/order"], **mount}
        for number in (1, 2)
    ]
    bench.create(
        shell_pod(
            "inits", "cat /data/order", container=mount, initContainers=inits, volumes=[{"name": "d", "emptyDir": {}}]
        )
    )
    pod = bench.wait_phase("inits", "Succeeded")
    assert bench.log("inits") == "1\n2\n"
    assert [one.ready for one in pod.status.init_container_statuses] == [True, True]


def test_a_failed_init_container_fails_the_pod(bench: Bench) -> None:
    init = {"name": "init", "image": SHELL, "command": ["sh", "-c", "exit 3"]}
    bench.create(shell_pod("noinit", "echo never", initContainers=[init]))
    pod = bench.wait_phase("noinit", "Failed")
    assert pod.status.init_container_statuses[0].state.terminated.exit_code == 3
    assert pod.status.container_statuses[0].state.waiting.reason == "PodInitializing"


def test_a_side_car_runs_beside_and_is_told_after_the_main_container(bench: Bench) -> None:
    mount = {"volumeMounts": [{"name": "d", "mountPath": "/data"}]}
    script = "trap 'echo told; cat /data/said; exit 0' TERM; echo up > /data/up; while true; do sleep 0.05; done"
    side = {"name": "side", "image": SHELL, "restartPolicy": "Always", "command": ["sh", "-c", script], **mount}
    main = "while [ ! -e /data/up ]; do sleep 0.02; done; echo done > /data/said"
    bench.create(
        shell_pod("sided", main, container=mount, initContainers=[side], volumes=[{"name": "d", "emptyDir": {}}])
    )
    pod = bench.wait_phase("sided", "Succeeded")
    assert bench.log("sided", container="side") == "told\ndone\n"
    side_status = pod.status.init_container_statuses[0]
    assert side_status.state.terminated.exit_code == 0 and side_status.restart_count == 0


def test_the_environment_comes_from_values_secrets_config_maps_and_the_pod_itself(bench: Bench) -> None:
    bench.core.create_namespaced_secret(
        bench.namespace, {"metadata": {"name": "s"}, "stringData": {"TOKEN": "t0p", "other": "x"}}
    )
    bench.core.create_namespaced_config_map(bench.namespace, {"metadata": {"name": "c"}, "data": {"MODE": "fast"}})
    field = lambda path: {"valueFrom": {"fieldRef": {"fieldPath": path}}}  # noqa: E731
    env = [
        {"name": "PLAIN", "value": "a"},
        {"name": "JOINED", "value": "$(PLAIN)-$(NOPE)-$$(PLAIN)"},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "other"}}},
        {"name": "MAYBE", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "no", "optional": True}}},
        {"name": "NAME", **field("metadata.name")},
        {"name": "IP", **field("status.podIP")},
        {"name": "NODE", **field("spec.nodeName")},
        {"name": "LABEL", **field("metadata.labels['tier']")},
        {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
    ]
    container = {
        "env": env,
        "envFrom": [{"secretRef": {"name": "s"}}, {"prefix": "CM_", "configMapRef": {"name": "c"}}],
        "resources": {"limits": {"memory": "64Mi", "cpu": "100m"}},
        "args": [],
        "command": ["sh", "-c", "env; echo arg=$0", "$(PLAIN)!"],
    }
    body = shell_pod("env", "", container=container)
    body["metadata"]["labels"] = {"tier": "gold"}
    bench.create(body)
    pod = bench.wait_phase("env", "Succeeded")
    seen = dict(line.partition("=")[::2] for line in bench.log("env").splitlines())
    expected = {
        "PLAIN": "a", "JOINED": "a-$(NOPE)-$(PLAIN)", "SECRET": "x", "TOKEN": "t0p", "CM_MODE": "fast", "NAME": "env",
        "IP": pod.status.pod_ip, "NODE": pod.spec.node_name, "LABEL": "gold", "LIMIT": "64", "arg": "a!", "HOSTNAME": "env",
    }  # fmt: skip
    assert {name: seen.get(name) for name in expected} == expected
    assert "MAYBE" not in seen


def test_volumes_hold_secrets_config_maps_and_the_downward_api(bench: Bench) -> None:
    bench.core.create_namespaced_secret(
        bench.namespace, {"metadata": {"name": "s"}, "data": {"key": base64.b64encode(b"k\x00!").decode()}}
    )
    bench.core.create_namespaced_config_map(bench.namespace, {"metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}})
    volumes = [
        {"name": "s", "secret": {"secretName": "s"}},
        {"name": "c", "configMap": {"name": "c", "items": [{"key": "b", "path": "deep/b.txt"}]}},
        {"name": "d", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    mounts = [{"name": name, "mountPath": f"/vol/{name}"} for name in "scd"]
    script = "od -An -c /vol/s/key; cat /vol/c/deep/b.txt; echo; ls /vol/c; cat /vol/d/name"
    bench.create(shell_pod("vols", script, container={"volumeMounts": mounts}, volumes=volumes))
    bench.wait_phase("vols", "Succeeded")
    assert bench.log("vols").split() == ["k", "\\0", "!", "2", "deep", "vols"]


def test_containers_share_an_empty_directory_that_goes_with_the_pod(bench: Bench) -> None:
    for _ in range(2):
        mounts = [{"name": "d", "mountPath": "/d", "subPath": "part"}]
        bench.create(
            shell_pod(
                "empty",
                "ls /d; touch /d/left",
                container={"volumeMounts": mounts},
                volumes=[{"name": "d", "emptyDir": {}}],
            )
        )
        bench.wait_phase("empty", "Succeeded")
        assert bench.log("empty") == ""
        bench.delete("empty")
        bench.wait_gone("empty")


def test_two_pods_share_a_host_path(bench: Bench) -> None:
    path = f"/var/tmp/{bench.namespace}/shared"
    volumes = [{"name": "h", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}]
    mounts = {"volumeMounts": [{"name": "h", "mountPath": "/job"}]}
    bench.create(shell_pod("writer", "echo from-writer > /job/file", container=mounts, volumes=volumes))
    node = bench.wait_phase("writer", "Succeeded").spec.node_name
    bench.create(shell_pod("reader", "cat /job/file", container=mounts, volumes=volumes, nodeName=node))
    bench.wait_phase("reader", "Succeeded")
    assert bench.log("reader") == "from-writer\n"


def test_a_host_path_that_must_exist_and_does_not_is_told(bench: Bench) -> None:
    volumes = [{"name": "h", "hostPath": {"path": f"/nowhere/{bench.namespace}", "type": "Directory"}}]
    bench.create(
        shell_pod("nohost", "true", container={"volumeMounts": [{"name": "h", "mountPath": "/h"}]}, volumes=volumes)
    )
    eventually("the event", lambda: [one for one in bench.events("nohost") if "hostPath type check failed" in one])
    assert bench.pod("nohost").status.container_statuses[0].state.waiting.reason == "ContainerCreating"


def test_the_termination_message_is_read_from_its_file(bench: Bench) -> None:
    bench.run("last", "printf 'it was me' > /dev/termination-log; exit 1")
    pod = bench.wait_phase("last", "Failed")
    assert pod.status.container_statuses[0].state.terminated.message == "it was me"


def test_the_termination_message_may_lie_on_a_volume(bench: Bench) -> None:
    container = {"terminationMessagePath": "/run/x/end", "volumeMounts": [{"name": "r", "mountPath": "/run/x"}]}
    bench.create(
        shell_pod(
            "onvol", "printf '{\"ok\":1}' > /run/x/end", container=container, volumes=[{"name": "r", "emptyDir": {}}]
        )
    )
    pod = bench.wait_phase("onvol", "Succeeded")
    assert pod.status.container_statuses[0].state.terminated.message == '{"ok":1}'


def test_the_termination_message_falls_back_to_the_log_when_it_failed(bench: Bench) -> None:
    container = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    bench.create(shell_pod("fallback", "echo one; echo two; exit 1", container=container))
    pod = bench.wait_phase("fallback", "Failed")
    assert pod.status.container_statuses[0].state.terminated.message == "one\ntwo\n"


def test_a_failing_container_is_started_again_under_on_failure(bench: Bench) -> None:
    mount = {"volumeMounts": [{"name": "d", "mountPath": "/d"}]}
    script = "if [ -e /d/once ]; then echo second; exit 0; fi; touch /d/once; echo first; exit 1"
    bench.create(
        shell_pod("again", script, container=mount, restartPolicy="OnFailure", volumes=[{"name": "d", "emptyDir": {}}])
    )
    pod = bench.wait_phase("again", "Succeeded")
    status = pod.status.container_statuses[0]
    assert status.restart_count == 1
    assert status.last_state.terminated.exit_code == 1
    assert bench.log("again") == "second\n"
    assert bench.log("again", previous=True) == "first\n"


def test_a_container_that_fails_again_and_again_backs_off(bench: Bench) -> None:
    bench.run("loop", "exit 1", restartPolicy="Always")

    def looping() -> bool:
        waiting = bench.pod("loop").status.container_statuses[0].state.waiting
        return waiting is not None and waiting.reason == "CrashLoopBackOff"

    eventually("CrashLoopBackOff", looping)
    assert bench.pod("loop").status.phase == "Running"


def test_processes_that_a_container_leaves_behind_end_with_it(bench: Bench) -> None:
    mount = {"volumeMounts": [{"name": "d", "mountPath": "/d"}]}
    code = (
        "import subprocess,sys; subprocess.Popen(['sh','-c','while true; do echo x >> /d/beat; sleep 0.02; done'],"
        "start_new_session=True, stdout=subprocess.DEVNULL); import time; time.sleep(0.2)"
    )
    watcher = "sleep 0.8; wc -l < /d/beat; sleep 0.3; wc -l < /d/beat"
    body = shell_pod(
        "orphans",
        "",
        container={"image": PYTHON, "command": ["python3", "-c", code], **mount},
        volumes=[{"name": "d", "emptyDir": {}}],
    )
    body["spec"]["containers"].append({"name": "watch", "image": SHELL, "command": ["sh", "-c", watcher], **mount})
    bench.create(body)
    bench.wait_phase("orphans", "Succeeded")
    beats = bench.log("orphans", container="watch").split()
    assert len(beats) == 2 and beats[0] == beats[1]


def test_pods_have_addresses_of_their_own_and_can_listen_on_them(bench: Bench) -> None:
    code = (
        "import os,socket; s=socket.create_server((os.environ['IP'], 23456)); print('up', flush=True); c,_=s.accept();"
        "c.sendall(b'hi from ' + os.environ['IP'].encode())"
    )
    ip = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    server = {"image": PYTHON, "command": ["python3", "-c", code], "env": [ip]}
    for name in ("one", "two"):
        bench.create(shell_pod(name, "", container=server))
        bench.wait_log(name, "up")
    addresses = [bench.pod(name).status.pod_ip for name in ("one", "two")]
    assert len(set(addresses)) == 2
    for address in addresses:
        client = f"import socket; print(socket.create_connection(('{address}', 23456)).recv(99).decode())"
        name = f"client-{addresses.index(address)}"
        bench.create(shell_pod(name, "", container={"image": PYTHON, "command": ["python3", "-c", client]}))
        bench.wait_phase(name, "Succeeded")
        assert bench.log(name) == f"hi from {address}\n"


@pytest.mark.parametrize("size", [200_000])
def test_much_output_is_kept_whole_and_in_order(bench: Bench, size: int) -> None:
    code = f"import sys; sys.stdout.write(''.join(f'{{n}}\\n' for n in range({size})))"
    bench.create(shell_pod("much", "", container={"image": PYTHON, "command": ["python3", "-c", code]}))
    bench.wait_phase("much", "Succeeded")
    assert bench.log("much") == "".join(f"{number}\n" for number in range(size))
    assert bench.log("much", tail_lines=2) == f"{size - 2}\n{size - 1}\n"


def test_logs_are_followed_to_the_end(bench: Bench) -> None:
    bench.run("slow", "for i in 1 2 3; do echo line $i; sleep 0.2; done")
    bench.wait_log("slow", "line 1")
    seen, times = b"", []
    answer = bench.core.read_namespaced_pod_log("slow", bench.namespace, follow=True, _preload_content=False)
    for chunk in answer.stream(amt=None):
        seen += chunk
        times.append(time.monotonic())
    assert seen == b"line 1\nline 2\nline 3\n"
    assert times[-1] - times[0] > 0.1


def test_logs_have_timestamps_and_can_be_asked_for_since_then(bench: Bench) -> None:
    """Pitfall 22: a follower reopens from the last time stamp."""
    bench.run("stamped", "echo one; sleep 0.3; echo two; printf three")
    bench.wait_phase("stamped", "Succeeded")
    lines = bench.log("stamped", timestamps=True).split("\n")
    stamps = [line.split(" ")[0] for line in lines]
    assert [line.split(" ", 1)[1] for line in lines] == ["one", "two", "three"]
    assert stamps == sorted(stamps) and all(stamp.endswith("Z") and "." in stamp for stamp in stamps)
    path = f"/api/v1/namespaces/{bench.namespace}/pods/stamped/log?sinceTime={stamps[1]}"
    assert bench.request("GET", path) == (200, "two\nthree")
    assert bench.log("stamped", since_seconds=3600) == "one\ntwo\nthree"


def test_the_log_of_a_container_that_has_not_started_is_a_400(bench: Bench) -> None:
    bench.run("waits", "true", container={"image": "no.such/image:1"})
    eventually("the pod on a node", lambda: bench.pod("waits").spec.node_name)
    code, status = bench.request("GET", f"/api/v1/namespaces/{bench.namespace}/pods/waits/log")
    assert code == 400 and "is waiting to start" in status["message"]
    code, status = bench.request("GET", f"/api/v1/namespaces/{bench.namespace}/pods/waits/log?container=nope")
    assert code == 400 and status["reason"] == "BadRequest"


def test_a_restarted_container_does_not_repeat_the_last_ones_message(bench: Bench) -> None:
    mount = {"volumeMounts": [{"name": "d", "mountPath": "/d"}]}
    script = "if [ -e /d/once ]; then exit 0; fi; touch /d/once; printf first > /dev/termination-log; exit 1"
    volumes = [{"name": "d", "emptyDir": {}}]
    bench.create(shell_pod("said", script, container=mount, restartPolicy="OnFailure", volumes=volumes))
    status = bench.wait_phase("said", "Succeeded").status.container_statuses[0]
    assert status.last_state.terminated.message == "first"
    assert not status.state.terminated.message


def test_a_side_car_that_ends_is_started_again_and_holds_nothing_up(bench: Bench) -> None:
    side = {"name": "side", "image": SHELL, "restartPolicy": "Always", "command": ["sh", "-c", "echo x; sleep 0.1"]}
    bench.create(shell_pod("flaky", "sleep 1.5", initContainers=[side]))
    pod = bench.wait_phase("flaky", "Succeeded")
    status = pod.status.init_container_statuses[0]
    assert status.restart_count == 1, "the second restart is backed off, and the pod does not wait for it"
