"""The embedded platform as a whole: up, down, status."""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ffdl_ops.adapters.settings import Settings
from ffdl_ops.core.errors import UserError
from ffdl_ops.local.services import airflow
from ffdl_ops.local.services.environment import airflow_environment, base_environment
from ffdl_ops.local.services.postgres import Postgres
from ffdl_ops.local.services.process import Process, ServiceFailed, check_port_free
from ffdl_ops.local.services.secrets import load_secrets, write_private

__all__ = ["Stack", "Status"]

Say = Callable[[str], None]


@dataclass(frozen=True)
class Status:
    """One service's state, for people and programs."""

    service: str
    state: str
    pid: int | None
    address: str
    log: str


class Stack:
    """The embedded services of one FFDL_HOME.

    :param settings: the installation.
    :param say: gets a line per step.
    """

    def __init__(self, settings: Settings, say: Say = lambda line: None) -> None:
        self.settings = settings
        self.home = settings.home
        self.say = say
        self.ports = {name: _port(settings, name) for name in ("airflow", "mlflow", "s3", "minicluster")}
        self.postgres = Postgres(self.home / "postgres")

    # -- what there is -------------------------------------------------------------------------------------------
    def process(self, name: str) -> Process:
        """A service's process."""
        return Process(name, self.home / "run", self.home / "logs" / f"{name}.log")

    @property
    def names(self) -> list[str]:
        """The services that are processes of ours, in the order in which they start."""
        return ["s3", "mlflow", "minicluster", *(f"airflow-{part}" for part in airflow.COMPONENTS)]

    def status(self) -> list[Status]:
        """Every service's state."""
        rows = [Status("postgres", "up" if self.postgres.running else "down", None, str(self.postgres.directory), "")]
        for name in self.names:
            living = self.process(name).find()
            port = self.ports.get(name.removesuffix("-api-server"))
            rows.append(
                Status(
                    name,
                    "up" if living else "down",
                    living.pid if living else None,
                    f"http://127.0.0.1:{port}" if port else "",
                    str(self.process(name).log),
                )
            )
        return rows

    # -- up ------------------------------------------------------------------------------------------------------
    def up(self) -> list[str]:
        """Start what does not run.

        :returns: the services that this call started; when one fails, those are stopped again.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        with self._alone():
            before = {name for name in self.names if self.process(name).find()}
            for name, port in self.ports.items():
                if not {name, f"{name}-api-server"} & before:
                    check_port_free(port, name)
            had_postgres = self.postgres.running
            started: list[str] = []
            try:
                self._up()
                started = [name for name in self.names if name not in before]
                return started if had_postgres else ["postgres", *started]
            except BaseException:
                self._stop([name for name in self.names if name not in before])
                if not had_postgres:
                    self.postgres.stop()
                raise

    def _up(self) -> None:
        secrets = load_secrets(self.home, self.settings.tenants)
        self._step("PostgreSQL", self.postgres.start)
        endpoints = self._endpoints(secrets)
        write_private(self.home / "endpoints.json", json.dumps(endpoints, indent=1))
        environment = airflow_environment(
            self.settings, secrets, endpoints, self.postgres.url("airflow"), self.ports["airflow"]
        )
        with ThreadPoolExecutor(5) as pool:
            jobs = [
                pool.submit(self._step, "S3", lambda: self._start_s3(secrets)),
                pool.submit(self._step, "minicluster", lambda: self._start_minicluster(secrets)),
                pool.submit(self._step, "MLflow", self._start_mlflow),
                pool.submit(self._step, "ledger", lambda: self._migrate(endpoints["ledger_url"])),
                pool.submit(self._step, "Airflow's database", lambda: self._prepare_airflow(environment, secrets)),
            ]
            for job in jobs:
                job.result()
        self._step("tenants", self._apply_tenants)
        self._step("Airflow", lambda: self._start_airflow(environment))

    def _endpoints(self, secrets: dict[str, Any]) -> dict[str, Any]:
        tenants = {
            tenant.name: {**secrets["s3"][tenant.name], "bucket": tenant.bucket} for tenant in self.settings.tenants
        }
        return {
            "airflow": {
                "url": f"http://127.0.0.1:{self.ports['airflow']}",
                "username": "admin",
                "password": secrets["users"]["admin"],
            },
            "mlflow": {"url": f"http://127.0.0.1:{self.ports['mlflow']}"},
            "s3": {"endpoint": f"http://127.0.0.1:{self.ports['s3']}", "tenants": tenants},
            "ledger_url": self.postgres.url("ledger"),
            "mlflow_database_url": self.postgres.url("mlflow"),
            "kubeconfig": str(self.home / "minicluster" / "kubeconfig"),
            "users": secrets["users"],
        }

    def _start_s3(self, secrets: dict[str, Any]) -> None:
        directory = self.home / "s3"
        for tenant in self.settings.tenants:
            (directory / tenant.bucket).mkdir(parents=True, exist_ok=True)
        pairs = [f"{pair['access_key']},{pair['secret_key']}" for pair in secrets["s3"].values()]
        # The keys go by the environment: a command line is visible to every user of the machine.
        environment = base_environment() | {"RCLONE_AUTH_KEY": _csv(pairs)}
        program = str(Path(sys.executable).parent / "rclone")
        address = f"127.0.0.1:{self.ports['s3']}"
        argv = [program, "serve", "s3", str(directory), "--addr", address, "--config", os.devnull]
        process = self.process("s3")
        process.start(argv, environment)
        process.wait_ready(lambda: _listens(self.ports["s3"]), within_s=30)

    def _start_mlflow(self) -> None:
        process = self.process("mlflow")
        argv = [
            sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.ports["mlflow"]),
            "--backend-store-uri", self.postgres.url("mlflow"), "--default-artifact-root", "s3://ffdl-mlflow",
            "--no-serve-artifacts", "--workers", "1",
        ]  # fmt: skip
        process.start(argv, base_environment() | {"MLFLOW_DISABLE_TELEMETRY": "true"})
        url = f"http://127.0.0.1:{self.ports['mlflow']}/health"
        process.wait_ready(lambda: urllib.request.urlopen(url, timeout=2).status == 200, within_s=90)

    def _start_minicluster(self, secrets: dict[str, Any]) -> None:
        process = self.process("minicluster")
        argv = [
            sys.executable, "-m", "ffdl_ops.local.minicluster", "--state", str(self.home / "minicluster"),
            "--port", str(self.ports["minicluster"]), "--nodes", str(self.settings.config / "nodes.yaml"),
            "--images", str(self.settings.config / "images.yaml"),
        ]  # fmt: skip
        process.start(argv, base_environment())
        url = f"https://127.0.0.1:{self.ports['minicluster']}/readyz"

        def ready() -> bool:
            context = ssl.create_default_context(cafile=str(self.home / "minicluster" / "tls.crt"))
            return bool(urllib.request.urlopen(url, timeout=2, context=context).status == 200)

        process.wait_ready(ready, within_s=30)

    def _migrate(self, url: str) -> None:
        from ffdl_ops.adapters.ledger import Ledger

        ledger = Ledger(url)
        ledger.migrate()
        ledger.close()

    def _prepare_airflow(self, environment: dict[str, str], secrets: dict[str, Any]) -> None:
        airflow.prepare(
            environment, self.settings.tenants, secrets["users"], self.home / "logs" / "airflow-prepare.log"
        )

    def _apply_tenants(self) -> None:
        from ffdl_ops.adapters.cluster.tenants import apply_tenants

        apply_tenants(Settings.load())

    def _start_airflow(self, environment: dict[str, str]) -> None:
        for part in airflow.COMPONENTS:
            self.process(f"airflow-{part}").start(airflow.command(part), environment)
        self.process("airflow-api-server").wait_ready(lambda: airflow.healthy(self.ports["airflow"]), within_s=180)

    # -- down ----------------------------------------------------------------------------------------------------
    def down(self) -> list[str]:
        """Stop everything that this home started. Data stays.

        :returns: the services that were stopped.
        """
        if not self.home.exists():
            return []
        with self._alone():
            stopped = self._stop(self.names)
            if self.postgres.stop():
                stopped.append("postgres")
            return stopped

    def stop(self, services: list[str]) -> None:
        """Stop the services that :meth:`up` said it had started, and nothing else."""
        with self._alone():
            self._stop([name for name in services if name in self.names])
            if "postgres" in services:
                self.postgres.stop()

    def _stop(self, names: list[str]) -> list[str]:
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(lambda name: (name, self.process(name).stop()), reversed(names)))
        return [name for name, lived in results if lived]

    # -- what people need --------------------------------------------------------------------------------------------
    def passwords(self) -> dict[str, str]:
        """Airflow's users and their passwords."""
        return dict(load_secrets(self.home, self.settings.tenants)["users"])

    def wait_for_dag(self, dag_id: str, *, within_s: float = 120.0) -> None:
        """Wait until Airflow has read a DAG.

        :raises ServiceFailed: when it has not in time; import errors are in the message.
        """
        from ffdl_ops.adapters.airflow_api import AirflowApi

        api = AirflowApi.from_settings(Settings.load())
        deadline = time.monotonic() + within_s
        while not api.has_dag(dag_id):
            if time.monotonic() > deadline:
                raise ServiceFailed(f"Airflow has not read {dag_id} after {within_s:.0f} s. {api.import_errors()}")
            time.sleep(0.5)

    # -- helpers -------------------------------------------------------------------------------------------------
    def _step(self, what: str, do: Callable[[], None]) -> None:
        started = time.monotonic()
        do()
        self.say(f"{what:<20} up after {time.monotonic() - started:5.1f} s")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One `up` or `down` of a home at a time."""
        import fcntl

        with (self.home / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"Another `ffdl up` or `ffdl down` works on {self.home}; wait for it.") from None
            yield


def _port(settings: Settings, service: str) -> int:
    override = os.environ.get(f"FFDL_PORT_{service.upper()}")
    if override is None:
        return int(getattr(settings.platform.ports, service))
    if not override.isdigit() or not 0 < int(override) < 65536:
        raise UserError(f"FFDL_PORT_{service.upper()} is {override!r}; it must be a port, from 1 to 65535.")
    return int(override)


def _csv(values: list[str]) -> str:
    """Values as rclone reads a list from one variable: a CSV record, since the values hold commas themselves."""
    return ",".join(f'"{value}"' for value in values)


def _listens(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
