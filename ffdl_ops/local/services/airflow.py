"""Airflow's components as services: api-server, scheduler, dag-processor and triggerer, under the FAB auth manager."""

from __future__ import annotations

import hashlib
import json
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ffdl_ops.core.jobs.ids import role
from ffdl_ops.core.tenancy.tenants import Tenants
from ffdl_ops.local.services.environment import base_environment
from ffdl_ops.local.services.errors import ServiceFailed
from ffdl_ops.local.services.postgres import Postgres
from ffdl_ops.local.services.process import Process, fingerprint, stop_all, tail
from ffdl_ops.local.services.secrets import write_private

__all__ = ["COMPONENTS", "Airflow", "Health"]

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")

_HEALTH_NAMES = {"scheduler": "scheduler", "dag-processor": "dag_processor", "triggerer": "triggerer"}
_BOOT_S = 600.0
_START_S = 240.0
_STOP_S = 4.0
_POLL_S = 0.1


@dataclass(frozen=True)
class Health:
    """What the API server says of the components of one FFDL_HOME."""

    home: Path
    port: int

    def shows(self, component: str) -> bool:
        """Whether a component is healthy, by a sign of life that is younger than its process.

        :raises OSError: when the API server does not answer.
        """
        health = self._ask("/api/v2/monitor/health", 10.0)
        if component == "api-server":
            # The first request to the tasks' own API builds it, which takes seconds: the first task is not to wait for it.
            tasks = self._ask("/execution/health", 60.0)
            return bool(health["metadatabase"]["status"] == tasks["status"] == "healthy")
        name = _HEALTH_NAMES[component]
        part = health.get(name) or {}
        beat = part.get(f"latest_{name}_heartbeat")
        if part.get("status") != "healthy" or not beat:
            return False
        since = float(_process(self.home, component).record().get("since", 0))
        return datetime.fromisoformat(beat).timestamp() >= since

    def _ask(self, path: str, timeout_s: float) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=timeout_s) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


class Airflow:
    """The components of one FFDL_HOME.

    :param settings: the environment of the components, besides what every service gets.
    :param users: name → password.
    """

    def __init__(
        self, home: Path, port: int, settings: Mapping[str, str], tenants: Tenants, users: Mapping[str, str]
    ) -> None:
        self.home = home
        self.port = port
        self._settings = settings
        self._mark = fingerprint(COMPONENTS, settings)
        roles = {"admin": "Admin"} | {f"{tenant.name}-user": role(tenant.name) for tenant in tenants}
        self._users = {name: (role, users[name]) for name, role in roles.items()}

    def process(self, component: str) -> Process:
        """A component's process."""
        return _process(self.home, component)

    @property
    def boot(self) -> Process:
        """The program that starts the components; it lives for some seconds."""
        return Process("airflow-start", self.home)

    def missing(self) -> list[str]:
        """The components that do not live, or were started with another configuration."""
        return [name for name in COMPONENTS if not self.process(name).runs_as(self._mark)]

    def start(self, postgres: Postgres) -> None:
        """Start what is missing; make tables, roles and people first where they are not as they should be.

        :raises ServiceFailed: with the end of the log of what failed.
        """
        missing = self.missing()
        note = self._note()
        install = postgres.note("airflow") != note
        if not missing and not install:
            return
        if install:
            missing = list(COMPONENTS)
        stop_all([self.process(name) for name in missing], within_s=_STOP_S)
        (self.home / "airflow").mkdir(parents=True, exist_ok=True)
        started = self._boot(missing, self._users if install else None)
        for name, pid in started.items():
            self.process(name).adopt(pid, self._mark)
        if install:
            postgres.keep_note("airflow", note)

    def wait_ready(self) -> None:
        """Wait until the API server answers and every component has shown itself since it was started.

        :raises ServiceFailed: with the end of the log of the component that did not.
        """
        deadline = time.monotonic() + _START_S
        health = Health(self.home, self.port)
        for name in COMPONENTS:
            left = max(1.0, deadline - time.monotonic())
            self.process(name).wait_ready(partial(health.shows, name), within_s=left)

    def _boot(self, components: Sequence[str], users: Mapping[str, tuple[str, str]] | None) -> dict[str, int]:
        """Have the components started, see `pipeline.components`; their pids."""
        run = self.home / "run"
        request, answer = run / "airflow-request.json", run / "airflow-answer.json"
        answer.unlink(missing_ok=True)
        logs = {name: str(self.process(name).log) for name in components}
        write_private(request, json.dumps({"users": users, "components": logs}))
        command = [sys.executable, "-m", "ffdl_ops.pipeline.components", str(request), str(answer)]
        boot = self.boot
        boot.spawn(command, {**base_environment(), **self._settings}, self._mark)
        deadline = time.monotonic() + _BOOT_S
        while boot.find() is not None and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        request.unlink(missing_ok=True)  # it holds passwords
        if not answer.exists():
            stop_all([boot], within_s=0)
            raise ServiceFailed(f"Airflow could not be started. The end of {boot.log}:\n{tail(boot.log)}")
        boot.forget()
        started: dict[str, int] = json.loads(answer.read_text())
        return started

    def _note(self) -> str:
        """What an installed database is known by; it is installed again when this changes."""
        parts = [
            version("apache-airflow-core"),
            version("apache-airflow-providers-fab"),
            *(f"{name}:{role}:{password}" for name, (role, password) in sorted(self._users.items())),
        ]
        return "ffdl " + hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _process(home: Path, component: str) -> Process:
    return Process(f"airflow-{component}", home)
