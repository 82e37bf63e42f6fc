"""A test's hands on a cluster: pods made in a line, waits that say what they last saw."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from kubernetes import client, config

REPOSITORY = Path(__file__).parents[2]
SHELL, PYTHON = "busybox:1.36", "python:3.11-slim"
T = TypeVar("T")
Body = dict[str, Any]


def eventually(what: str, look: Callable[[], T], *, within_s: float = 30.0, every_s: float = 0.03) -> T:
    """The first truthy answer; fails with the last one."""
    deadline = time.monotonic() + within_s
    while True:
        answer = look()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {within_s:.0f} s; last seen: {answer!r}")
        time.sleep(every_s)


def shell_pod(name: str, script: str, *, container: Body | None = None, **spec: Any) -> Body:
    """A pod of one container `main` that runs a shell script once."""
    main = {"name": "main", "image": SHELL, "command": ["sh", "-c", script], **(container or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [main], **spec},
    }


class Bench:
    """One namespace of a cluster."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        self.kubeconfig, self.namespace = kubeconfig, namespace
        self.api = config.new_client_from_config(kubeconfig)
        self.core = client.CoreV1Api(self.api)

    # -- pods ----------------------------------------------------------------------------------------------------
    def create(self, body: Body) -> Any:
        return self.core.create_namespaced_pod(self.namespace, body)

    def run(self, name: str, script: str, **more: Any) -> Any:
        return self.create(shell_pod(name, script, **more))

    def pod(self, name: str) -> Any:
        return self.core.read_namespaced_pod(name, self.namespace)

    def raw(self, name: str) -> Body:
        answer = self.core.read_namespaced_pod(name, self.namespace, _preload_content=False)
        return dict(json.loads(answer.data))

    def gone(self, name: str) -> bool:
        try:
            self.pod(name)
        except client.ApiException as error:
            assert error.status == 404
            return True
        return False

    def wait_phase(self, name: str, *phases: str, within_s: float = 30.0) -> Any:
        def look() -> Any:
            pod = self.pod(name)
            return pod if pod.status.phase in phases else None

        try:
            return eventually(f"{name} in {phases}", look, within_s=within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.pod(name).status}") from None

    def wait_log(self, name: str, text: str, *, container: str = "main", within_s: float = 20.0) -> str:
        def look() -> str | None:
            try:
                log = str(self.log(name, container=container))
            except client.ApiException as error:
                if error.status != 400:
                    raise
                return None
            return log if text in log else None

        return eventually(f"{text!r} in the log of {name}", look, within_s=within_s)

    def wait_gone(self, name: str, within_s: float = 20.0) -> None:
        eventually(f"{name} gone", lambda: self.gone(name), within_s=within_s)

    def log(self, name: str, **options: Any) -> str:
        answer = self.core.read_namespaced_pod_log(name, self.namespace, _preload_content=False, **options)
        return str(answer.data.decode())

    def delete(self, name: str, grace_s: int | None = None, **options: Any) -> Any:
        body = client.V1DeleteOptions(grace_period_seconds=grace_s, **options)
        return self.core.delete_namespaced_pod(name, self.namespace, body=body)

    def events(self, name: str) -> list[str]:
        items = self.core.list_namespaced_event(self.namespace, field_selector=f"involvedObject.name={name}").items
        return [f"{event.reason}: {event.message}" for event in items]

    # -- anything ------------------------------------------------------------------------------------------------
    def request(self, method: str, path: str, body: Any = None, headers: Body | None = None) -> tuple[int, Any]:
        """A bare request: its code, and its JSON or text."""
        loaded = yaml.safe_load(Path(self.kubeconfig).read_text())
        return bare_request(loaded, method, path, body, headers)

    def kubectl(
        self, *arguments: str, stdin: str | None = None, timeout_s: float = 40.0
    ) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": os.environ["PATH"],
            "KUBECONFIG": self.kubeconfig,
            "HOME": str(Path(self.kubeconfig).parent),
        }
        return subprocess.run(
            ["kubectl", "-n", self.namespace, *arguments], input=stdin, capture_output=True, text=True, timeout=timeout_s,
            env=environment, check=False,
        )  # fmt: skip


def bare_request(
    loaded: Body, method: str, path: str, body: Any = None, headers: Body | None = None, *, token: str | None = None
) -> tuple[int, Any]:
    """A request without a client library."""
    cluster, user = loaded["clusters"][0]["cluster"], loaded["users"][0]["user"]
    authority = cluster.get("certificate-authority-data")
    context = ssl.create_default_context(cadata=base64.b64decode(authority).decode()) if authority else None
    bearer = user.get("token", "") if token is None else token
    request = urllib.request.Request(
        cluster["server"] + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {bearer}", "Content-Type": "application/json", **(headers or {})},
    )
    try:
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:
            text = answer.read().decode()
            return answer.status, json.loads(text) if "json" in answer.headers.get("Content-Type", "") else text
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


class MiniClusterProcess:
    """A minicluster that a test starts, kills and starts again."""

    def __init__(self, state: Path, *, history: int = 4096) -> None:
        self.state, self.history = state, history
        self.kubeconfig = state / "kubeconfig"
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        self.state.mkdir(parents=True, exist_ok=True)
        before = self.kubeconfig.stat().st_mtime_ns if self.kubeconfig.exists() else 0
        argv = [
            sys.executable, "-m", "ffdl_ops.local.minicluster", "--state", str(self.state), "--port", str(self.port),
            "--nodes", str(REPOSITORY / "config/nodes.yaml"), "--images", str(REPOSITORY / "config/images.yaml"),
            "--history", str(self.history), *more,
        ]  # fmt: skip
        with (self.state.parent / f"{self.state.name}.log").open("ab") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
        eventually("minicluster's kubeconfig", lambda: self._ready(before), within_s=30)

    def _ready(self, before: int) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        if not self.kubeconfig.exists() or self.kubeconfig.stat().st_mtime_ns == before:
            return False
        loaded = yaml.safe_load(self.kubeconfig.read_text())
        self.port = int(loaded["clusters"][0]["cluster"]["server"].rpartition(":")[2])
        try:
            return bare_request(loaded, "GET", "/version")[0] == 200
        except OSError:
            return False

    def log(self) -> str:
        return (self.state.parent / f"{self.state.name}.log").read_text()

    def kill(self) -> None:
        """SIGKILL, without a word."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM; all pods must have been stopped before, or `--stop-pods` been given."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(20)


def unique(prefix: str) -> str:
    """A name that no other test has."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"
