"""The embedded platform as a whole: up, down, status."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ffdl_ops.adapters.settings import Settings
from ffdl_ops.core.errors import FfdlError, UserError
from ffdl_ops.core.jobs.ids import dag_id
from ffdl_ops.local.services.airflow import COMPONENTS, Airflow
from ffdl_ops.local.services.endpoints import describe
from ffdl_ops.local.services.environment import DAG_FOLDERS, airflow_environment
from ffdl_ops.local.services.errors import ServiceFailed
from ffdl_ops.local.services.isolation import check_isolation
from ffdl_ops.local.services.minicluster import kubeconfig, minicluster_service, stop_pods
from ffdl_ops.local.services.mlflow import admit_people, mlflow_service, upgrade_tables, write_login
from ffdl_ops.local.services.ports import check_port_free, service_ports
from ffdl_ops.local.services.postgres import Postgres
from ffdl_ops.local.services.process import Process, stop_all, tail
from ffdl_ops.local.services.s3 import PLATFORM, lay_out, s3_service
from ffdl_ops.local.services.secrets import close_home, load_secrets, write_private
from ffdl_ops.local.services.service import Service
from ffdl_ops.local.services.status import Status, look

__all__ = ["Stack", "Status"]

Say = Callable[[str], None]

_STOP_S = 10.0
# Airflow's triggerer takes ten seconds to notice the end of its own child; killed, it is replaced as fast.
_AIRFLOW_STOP_S = 4.0
_DAGS_S = 120.0
_POLL_S = 0.2


@dataclass(frozen=True)
class _Plan:
    """What is to run, made from the configuration."""

    secrets: dict[str, Any]
    endpoints: dict[str, Any]
    services: dict[str, Service]
    airflow: Airflow


class Stack:
    """The embedded services of one FFDL_HOME.

    :param settings: the installation.
    :param say: gets a line per step.
    :param dag_folders: what Airflow reads its DAGs from.
    """

    def __init__(
        self,
        settings: Settings,
        say: Say = lambda line: None,
        dag_folders: Sequence[Path] = DAG_FOLDERS,
    ) -> None:
        self.settings = settings
        self.home = settings.home
        self.say = say
        self.ports = service_ports(settings.platform.ports)
        self.postgres = Postgres(self.home / "postgres", lambda: self._secrets["postgres"])
        self._dag_folders = dag_folders

    @property
    def names(self) -> list[str]:
        """The services that are processes of ours, in the order in which they start."""
        return ["s3", "minicluster", "mlflow", *(f"airflow-{part}" for part in COMPONENTS)]

    def process(self, name: str) -> Process:
        """A service's process."""
        return Process(name, self.home)

    def status(self) -> list[Status]:
        """Every service's state now."""
        return look(self.home, self.ports, self.postgres, self.names)

    def passwords(self) -> dict[str, str]:
        """Airflow's users and their passwords, for the summary that people read."""
        return dict(self._secrets["users"])

    def check_alive(self) -> None:
        """Look whether every service still lives.

        :raises ServiceFailed: naming one that does not, with the end of its log.
        """
        for name in self.names:
            process = self.process(name)
            if process.find() is None:
                raise ServiceFailed(f"{name} has ended. The end of {process.log}:\n{tail(process.log)}")
        if self.postgres.process is None:
            raise ServiceFailed(f"PostgreSQL has ended. The end of {self.postgres.log}:\n{tail(self.postgres.log)}")

    # -- up --------------------------------------------------------------------------------------------------------
    def up(self) -> list[str]:
        """Start what does not run, restart what runs with another configuration.

        :returns: the services that were not there before; when one fails, those are stopped again.
        :raises UserError: for a port that is taken, or isolation that can't be had, before anything is started.
        :raises ServiceFailed: with the end of the log of the service that failed.
        """
        check_isolation(self.settings)
        with self._alone():
            plan = self._plan
            before = self._living()
            self._check_ports()
            pool = ThreadPoolExecutor(8)
            try:
                self._start(plan, pool)
            except BaseException:
                new = [name for name in [*self.names, "airflow-start", "postgres"] if name not in before]
                self._stop(new)  # those in the pool wait for services that will not come any more
                pool.shutdown(cancel_futures=True)
                self._stop(new)
                raise
            return [name for name in ["postgres", *self.names] if name not in before]

    @cached_property
    def _secrets(self) -> dict[str, Any]:
        return load_secrets(self.home, self.settings.tenants)

    @cached_property
    def _plan(self) -> _Plan:
        tenants, secrets = self.settings.tenants, self._secrets
        endpoints = describe(self.home, self.ports, self.postgres, tenants, secrets)
        environment = airflow_environment(
            self.settings, secrets, endpoints, self.postgres.url("airflow"), self.ports["airflow"], self._dag_folders
        )
        services = [
            s3_service(self.home, self.ports["s3"], set(secrets["s3"]) - {PLATFORM} - {one.name for one in tenants}),
            minicluster_service(self.home, self.settings.config, self.ports["minicluster"]),
            mlflow_service(self.home, self.ports["mlflow"], self.postgres.url("mlflow"), secrets),
        ]
        return _Plan(
            secrets,
            endpoints,
            {service.process.name: service for service in services},
            Airflow(self.home, self.ports["airflow"], environment, tenants, secrets["users"]),
        )

    def _living(self) -> set[str]:
        living = {name for name in self.names if self.process(name).find()}
        return living | ({"postgres"} if self.postgres.process else set())

    def _check_ports(self) -> None:
        """What a dead service has left behind is ended; a port that is then taken is somebody else's."""
        stop_all([self.process(name) for name in self.names if self.process(name).find() is None], within_s=_STOP_S)
        for name, port in self.ports.items():
            service = "airflow-api-server" if name == "airflow" else name
            if not self.process(service).listens_on(port):
                check_port_free(port, name)

    def _start(self, plan: _Plan, pool: ThreadPoolExecutor) -> None:
        lay_out(self.home, self.settings.tenants, plan.secrets["s3"])
        write_private(self.home / "endpoints.json", json.dumps(plan.endpoints, indent=1))
        postgres = pool.submit(self._step, "PostgreSQL", self.postgres.start)
        jobs: list[Future[None]] = [
            pool.submit(self._step, "S3", plan.services["s3"].start),
            pool.submit(self._step, "minicluster", lambda: self._start_cluster(plan)),
        ]
        postgres.result()
        jobs += [
            pool.submit(self._step, "MLflow", lambda: self._start_mlflow(plan)),
            pool.submit(self._step, "ledger", lambda: self._migrate(plan)),
            pool.submit(self._step, "Airflow", lambda: self._start_airflow(plan)),
        ]
        for job in as_completed(jobs):
            job.result()
        self._step("DAGs", lambda: self._wait_for_dags(plan))

    def _start_cluster(self, plan: _Plan) -> None:
        from ffdl_ops.adapters.cluster.tenants import apply_tenants

        plan.services["minicluster"].start()
        apply_tenants(self.settings.with_endpoints(plan.endpoints))

    def _start_mlflow(self, plan: _Plan) -> None:
        upgrade_tables(self.postgres, self.home / "logs" / "mlflow-upgrade.log")
        write_login(self.home, self.postgres.url("mlflow_auth"), plan.secrets)
        plan.services["mlflow"].start()
        admit_people(self.postgres, plan.endpoints["mlflow"]["url"], self.settings.tenants, plan.secrets)

    def _migrate(self, plan: _Plan) -> None:
        from ffdl_ops.adapters.ledger import Ledger

        ledger = Ledger(plan.endpoints["ledger_url"])
        ledger.migrate()
        ledger.close()

    def _start_airflow(self, plan: _Plan) -> None:
        plan.airflow.start(self.postgres)
        plan.airflow.wait_ready()

    def _wait_for_dags(self, plan: _Plan) -> None:
        """Airflow reads the DAGs some seconds after it is up; a DAG that it can't read is said, and no reason to stop."""
        if self._dag_folders != DAG_FOLDERS:
            return
        try:
            for tenant in self.settings.tenants:
                self.wait_for_dag(dag_id(tenant.name))
        except ServiceFailed as error:
            self.say(f"Warning: {error}")

    def wait_for_dag(self, dag_id: str, *, within_s: float = _DAGS_S) -> None:
        """Wait until Airflow has read a DAG.

        :raises ServiceFailed: when it has not in time; import errors are in the message.
        """
        from ffdl_ops.adapters.airflow_api import AirflowApi

        api = AirflowApi.from_settings(self.settings.with_endpoints(self._plan.endpoints))
        deadline = time.monotonic() + within_s
        while not api.has_dag(dag_id):
            if time.monotonic() > deadline:
                raise ServiceFailed(f"Airflow has not read {dag_id} after {within_s:.0f} s. {api.import_errors()}")
            time.sleep(_POLL_S)

    # -- down ------------------------------------------------------------------------------------------------------
    def down(self) -> list[str]:
        """Stop everything that this home started. Data stays, what trains is stopped.

        :returns: the services that were stopped.
        """
        if not self.home.exists():
            return []
        with self._alone():
            return self._stop([*self.names, "airflow-start", "postgres"])

    def stop(self, services: Sequence[str]) -> None:
        """Stop the services that :meth:`up` said it had started, and nothing else."""
        with self._alone():
            self._stop(services)

    def _stop(self, services: Sequence[str]) -> list[str]:
        """Stop services: first who would act on the others' end, then the pods, then what all of them use."""
        stopped = stop_all(
            [self.process(name) for name in services if name.startswith("airflow-")], within_s=_AIRFLOW_STOP_S
        )
        if "minicluster" in services and self.process("minicluster").find():
            # A cluster that does not answer is stopped all the same.
            with suppress(FfdlError, OSError):
                stop_pods(kubeconfig(self.home))
        rest = [name for name in services if name in self.names and not name.startswith("airflow-")]
        stopped += stop_all([self.process(name) for name in rest], within_s=_STOP_S)
        if "postgres" in services and self.postgres.stop():
            stopped.append("postgres")
        return stopped

    @contextmanager
    def databases(self) -> Iterator[None]:
        """PostgreSQL for the block: the one that runs, else started and stopped again, while nothing else of the platform is up.

        :raises UserError: when another `up` or `down` works on this home.
        """
        if self.postgres.process is not None:
            yield
            return
        with self._alone():
            self.postgres.start()
            try:
                yield
            finally:
                self.postgres.stop()

    # -- helpers ---------------------------------------------------------------------------------------------------
    def _step(self, what: str, do: Callable[[], None]) -> None:
        started = time.monotonic()
        do()
        self.say(f"{what:<12} up  {time.monotonic() - started:5.1f} s")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One `up` or `down` of a home at a time."""
        import fcntl

        close_home(self.home)
        with (self.home / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"Another `ffdl up`, `down` or `run` works on {self.home} now; wait for it.") from None
            yield
