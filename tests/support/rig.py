"""What the integration tests do to a platform and ask of it, in their own words."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ffdl_ops.adapters.cluster.client import Cluster
from ffdl_ops.adapters.cluster.embedded import AdminClient
from ffdl_ops.core.jobs.ids import dag_id, job_id, namespace

if TYPE_CHECKING:
    from ffdl_ops.adapters.airflow_api import AirflowApi
    from ffdl_ops.adapters.ledger import JobRecord, Ledger
    from ffdl_ops.adapters.settings import Settings

__all__ = ["Rig", "Run", "eventually"]

T = TypeVar("T")


def eventually(what: str, look: Callable[[], T], *, within_s: float = 60.0, every_s: float = 0.2) -> T:
    """The first truthy answer of a look; fails, with the last answer, when none comes in time."""
    deadline = time.monotonic() + within_s
    while True:
        answer = look()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {within_s:.0f} s; last seen: {answer!r}")
        time.sleep(every_s)


@dataclass(frozen=True)
class Run:
    """One job that a test has submitted."""

    dag_id: str
    run_id: str
    job_id: str
    tenant: str


class Rig:
    """A platform in a test's hands."""

    def __init__(self, settings: Settings) -> None:
        from ffdl_ops.adapters.airflow_api import AirflowApi
        from ffdl_ops.adapters.ledger import Ledger

        self.settings = settings
        self.airflow: AirflowApi = AirflowApi.from_settings(settings)
        self.ledger: Ledger = Ledger(settings.ledger_url)
        self.cluster = Cluster(settings.kubeconfig)

    def submit(self, tenant: str = "vision", **form: Any) -> Run:
        """Trigger a tenant's DAG with form values."""
        run_id = f"test-{uuid.uuid4().hex[:10]}"
        target = dag_id(tenant)
        self.airflow.trigger(target, run_id, form)
        return Run(target, run_id, job_id(target, run_id), tenant)

    def probe(self, tenant: str = "vision", flags: str = "", **form: Any) -> Run:
        """Submit the tiny probe program with flags."""
        command = f"python3 probe.py {flags}".strip()
        return self.submit(tenant, example="probe", command=command, **form)

    @property
    def faults(self) -> AdminClient:
        """The embedded cluster's faults."""
        return AdminClient.from_kubeconfig(str(self.settings.kubeconfig))

    def job(self, run: Run) -> JobRecord | None:
        """The job's record, if it is stored."""
        return self.ledger.job(run.job_id)

    def wait_job(self, run: Run, states: Collection[str], *, within_s: float = 90.0) -> JobRecord:
        """Wait until the job is in one of the states."""

        def look() -> JobRecord | None:
            job = self.job(run)
            return job if job is not None and job.state in states else None

        return self._told(run, lambda: eventually(f"{run.job_id} in {sorted(states)}", look, within_s=within_s))

    def wait_run(self, run: Run, *, within_s: float = 120.0) -> str:
        """Wait until the DAG run has ended; its state."""

        def look() -> str | None:
            state = self.airflow.run_state(run.dag_id, run.run_id)
            return state if state in ("success", "failed") else None

        return self._told(run, lambda: eventually(f"run of {run.job_id} ended", look, within_s=within_s))

    def wait_task(self, run: Run, task: str, states: Collection[str | None], *, within_s: float = 60.0) -> None:
        """Wait until a task of the run is in one of the states."""
        self._told(
            run,
            lambda: eventually(f"{task} in {states}", lambda: self.task(run, task) in states, within_s=within_s),
        )

    def task(self, run: Run, task: str) -> str | None:
        """A task's state now."""
        return self.airflow.task_states(run.dag_id, run.run_id).get(task)

    def pods(self, run: Run) -> list[str]:
        """Names of the job's pods that the cluster still has."""
        found = self.cluster.pods(namespace(run.tenant), f"ffdl.dev/job={run.job_id}")
        return sorted(pod.metadata.name for pod in found)

    def generations(self, run: Run) -> list[int]:
        """The complete generations in the bucket of the job's tenant."""
        from ffdl_ops.adapters.storage.checkpoints import list_generations
        from ffdl_ops.adapters.storage.store import ObjectStore

        store = ObjectStore(self.settings.store_config(run.tenant))
        bucket = self.settings.tenants[run.tenant].bucket
        return [one.number for one in list_generations(store, bucket, run.job_id) if one.complete]

    def story(self, run: Run) -> str:
        """What is known of a run, for a failing test's message."""
        job, states = self.job(run), self.airflow.task_states(run.dag_id, run.run_id)
        lines = [f"tasks: {states}", f"pods: {self.pods(run)}"]
        if job is not None:
            lines.append(f"job: {job.state} outcome={job.outcome} failure={job.failure}")
            lines += [f"  {one}" for one in self.ledger.transitions(run.job_id)]
            lines += [f"  {one}" for one in self.ledger.attempts(run.job_id)]
        for task, state in states.items():
            if state in ("failed", "up_for_retry", "deferred", "running"):
                log = self.airflow.task_log(run.dag_id, run.run_id, task)
                lines.append(f"--- log of {task} ({state}):\n{log[-2000:]}")
        return "\n".join(lines)

    def _told(self, run: Run, wait: Callable[[], T]) -> T:
        """The wait's answer; if it fails, with the run's story."""
        try:
            return wait()
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story(run)}") from None
