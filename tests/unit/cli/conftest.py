"""A command line whose ledger, Airflow, stores and MLflow are in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ffdl_ops.adapters.airflow_api import AirflowApiError
from ffdl_ops.adapters.ledger import AuditRecord, JobRecord, TransitionRecord, WaitRecord
from ffdl_ops.adapters.storage.config import StoreConfig
from ffdl_ops.adapters.storage.store import ObjectInfo
from ffdl_ops.cli.main import main
from ffdl_ops.cli.session import Session
from ffdl_ops.core.errors import FfdlError
from ffdl_ops.core.jobs.states import TERMINAL, JobState
from ffdl_ops.core.platform import PlatformConfig
from ffdl_ops.core.scheduling.decisions import Holder, WaitCause
from ffdl_ops.core.tenancy.tenants import Tenants

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def later(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def make_job(job_id: str = "job-aaaa000001", **changes: Any) -> JobRecord:
    """A job that has completed."""
    record = JobRecord(
        job_id=job_id,
        tenant="vision",
        dag_id="train__vision",
        run_id=f"run-of-{job_id}",
        user="ann",
        name="digits",
        manifest={"name": "digits", "example": "digits-pytorch"},
        framework="pytorch",
        learners=2,
        gpus=1,
        gpu_type="V100",
        priority=50,
        state=JobState.COMPLETED,
        outcome="completed",
        failure=None,
        halt_requested_by=None,
        halt_requested_at=None,
        created_at=START,
        updated_at=later(90),
        resume_count=0,
        mlflow_run_id="run1",
        mlflow_experiment_id="7",
        code_uri=None,
        dataset_key=None,
        dataset=None,
        excluded_nodes=(),
    )
    return replace(record, **changes)


class FakeLedger:
    """Jobs in memory; `script` holds the states that a job goes through, one each time it is read."""

    def __init__(self) -> None:
        self.by_id: dict[str, JobRecord] = {}
        self.script: dict[str, list[JobRecord | None]] = {}
        self.rows: dict[str, dict[str, list[Any]]] = {}
        self.cursors: dict[tuple[str, str], dict[str, Any]] = {}
        self.halts: list[tuple[str, str]] = []
        self.waiting: list[Any] = []
        self.held: list[Any] = []
        self.lines: list[AuditRecord] = []
        self.told: list[tuple[str, str]] = []
        self.closure: str | None = None

    def add(self, *jobs: JobRecord) -> None:
        self.by_id |= {job.job_id: job for job in jobs}

    def job(self, job_id: str) -> JobRecord | None:
        if self.script.get(job_id):
            following = self.script[job_id].pop(0)
            if following is not None:
                self.by_id[job_id] = following
            return following
        return self.by_id.get(job_id)

    def jobs(self, tenant: str | None = None, states: Any = None, limit: int = 100) -> list[JobRecord]:
        found = [job for job in self.by_id.values() if tenant in (None, job.tenant)]
        return [job for job in found if states is None or job.state in states][:limit]

    def request_halt(self, job_id: str, who: str, now: datetime) -> None:
        self.halts.append((job_id, who))

    def cursor(self, job_id: str, name: str) -> dict[str, Any] | None:
        return self.cursors.get((job_id, name))

    def save_cursor(self, job_id: str, name: str, value: dict[str, Any], epoch: int) -> bool:
        self.cursors[job_id, name] = value
        return True

    def queue(self) -> list[Any]:
        return self.waiting

    def reservations(self) -> list[Any]:
        return []

    def live_leases(self) -> list[Any]:
        return self.held

    def audit(self, actor: str, action: str, now: datetime, words: str, **of: Any) -> None:
        self.lines.append(AuditRecord(now, actor, action, of.get("tenant"), of.get("job_id"), words))

    def audit_lines(self, *, job_id: str | None = None, limit: int = 100) -> list[AuditRecord]:
        return [line for line in self.lines if job_id in (None, line.job_id)][-limit:]

    def order_preemption(self, job_id: str, why: str, actor: str, now: datetime) -> bool:
        self.told.append((job_id, why))
        self.held = [replace(one, preempted_at=now) if one.job_id == job_id else one for one in self.held]
        return True

    def closed(self) -> str | None:
        return self.closure

    def close_platform(self, reason: str, actor: str, now: datetime) -> None:
        self.closure = reason
        self.audit(actor, "close", now, reason)

    def open_platform(self, actor: str, now: datetime) -> bool:
        was, self.closure = self.closure, None
        return was is not None

    def stage_seconds(self, job_id: str) -> dict[str, float]:
        return {"plan": 0.5, "learners": 61.0}

    def _of(self, job_id: str, what: str) -> list[Any]:
        return self.rows.get(job_id, {}).get(what, [])

    def __getattr__(self, what: str) -> Callable[[str], list[Any]]:
        if what not in ("stages", "transitions", "attempts", "waits", "leases", "checkpoints"):
            raise AttributeError(what)
        return lambda job_id: self._of(job_id, what)


class FakeAirflow:
    """Keeps what it was asked for."""

    def __init__(self, ledger: FakeLedger) -> None:
        self.ledger = ledger
        self.states: list[str | None] = []
        self.unplanned: dict[tuple[str, str], str] = {}
        self.hidden: set[str] = set()
        self.triggered: list[tuple[str, str, dict[str, Any]]] = []
        self.failed: list[str] = []
        self.cleared: list[str] = []
        self.log = ""
        self.tasks: dict[str, str | None] = {}
        self.on_trigger: Callable[[str, str], None] = lambda dag_id, run_id: None

    def trigger(self, dag_id: str, run_id: str, conf: dict[str, Any]) -> str:
        self.triggered.append((dag_id, run_id, conf))
        self.on_trigger(dag_id, run_id)
        return "queued"

    def run_state(self, dag_id: str, run_id: str) -> str | None:
        """As a test says, one after the other; else as the job of this run stands."""
        self._seen(dag_id)
        if self.unplanned:
            return self.unplanned.get((dag_id, run_id))
        if self.states:
            return self.states.pop(0)
        jobs = [job for job in self.ledger.by_id.values() if job.run_id == run_id]
        return "failed" if jobs and jobs[0].state in TERMINAL else "running"

    def active_runs(self, dag_id: str) -> list[tuple[str, str]]:
        self._seen(dag_id)
        runs = [(run_id, state) for (dag, run_id), state in self.unplanned.items() if dag == dag_id]
        return [(run_id, state) for run_id, state in runs if state in ("queued", "running")]

    def _seen(self, dag_id: str) -> None:
        if dag_id in self.hidden:
            raise AirflowApiError("Forbidden", status=403)

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        return self.tasks

    def task_log(self, dag_id: str, run_id: str, task: str) -> str:
        return self.log

    def mark_run_failed(self, dag_id: str, run_id: str) -> str:
        self.failed.append(run_id)
        if (dag_id, run_id) in self.unplanned:
            self.unplanned[dag_id, run_id] = "failed"
        return "failed"

    def clear_run(self, dag_id: str, run_id: str) -> None:
        self.cleared.append(run_id)

    def run_url(self, dag_id: str, run_id: str) -> str:
        return f"http://airflow/dags/{dag_id}/runs/{run_id}"


class FakeStore:
    """Objects in memory, by bucket and key."""

    def __init__(self) -> None:
        self.config = StoreConfig(None, "key", "secret")
        self.objects: dict[tuple[str, str], bytes] = {}
        self.puts: list[str] = []

    def put(self, bucket: str, key: str, content: bytes = b"x") -> None:
        self.objects[bucket, key] = content

    def put_bytes(self, bucket: str, key: str, content: bytes, content_type: str = "") -> None:
        self.puts.append(key)
        self.put(bucket, key, content)

    def size(self, bucket: str, key: str) -> int | None:
        content = self.objects.get((bucket, key))
        return None if content is None else len(content)

    def list(self, bucket: str, prefix: str = "") -> Iterator[ObjectInfo]:
        for (where, key), content in sorted(self.objects.items()):
            if where == bucket and key.startswith(prefix):
                yield ObjectInfo(key, len(content), "etag")

    def get_file(self, bucket: str, key: str, path: Path) -> int:
        return path.write_bytes(self.objects[bucket, key])

    def get_json(self, bucket: str, key: str) -> Any:
        import json

        return json.loads(self.objects[bucket, key])

    def delete_many(self, bucket: str, keys: Iterable[str]) -> int:
        names = list(keys)
        for key in names:
            del self.objects[bucket, key]
        return len(names)


class FakeTracker:
    """Links, and one run's points."""

    def __init__(self) -> None:
        self.view: Any = None
        self.points: dict[str, list[Any]] = {}

    def url(self, run: Any) -> str:
        return f"http://mlflow/#/experiments/{run.experiment_id}/runs/{run.run_id}"

    def run(self, run_id: str) -> Any:
        return self.view

    def find_run(self, tenant: str, job_id: str) -> Any:
        return self.view

    def series(self, run_id: str, key: str) -> list[Any]:
        return self.points[key]


class FakeCluster:
    """Nodes, by name whether they take new pods; and how many files each job has on the volume."""

    def __init__(self) -> None:
        self.schedulable = {"v100-a": True, "v100-b": True}
        self.files: dict[str, int] = {}
        self.fault: Exception | None = None

    def remove_files(self, job_id: str) -> int:
        if self.fault is not None:
            raise self.fault
        return self.files.pop(job_id, 0)

    def nodes(self) -> list[Any]:
        return [
            SimpleNamespace(
                metadata=SimpleNamespace(name=name), spec=SimpleNamespace(unschedulable=not allowed or None)
            )
            for name, allowed in self.schedulable.items()
        ]

    def let_schedule(self, node: str, allowed: bool) -> bool:
        self.schedulable[node] = allowed
        return True


class FakeSession(Session):
    """A session over fakes, at a fixed time."""

    def __init__(self, tenants: dict[str, Any] | None = None) -> None:
        two = {"tenants": [{"name": "vision", "gpu_quota": {"V100": 4}}, {"name": "speech"}]}
        self.fake_ledger = FakeLedger()
        self.fake_airflow = FakeAirflow(self.fake_ledger)
        self.fake_store, self.fake_tracker, self.fake_cluster = FakeStore(), FakeTracker(), FakeCluster()
        settings = SimpleNamespace(
            home=Path("no-home"),
            platform=PlatformConfig.load({}),
            tenants=Tenants.load(tenants or two),
            mlflow_uri="http://mlflow",
            mlflow_login=None,
            kubeconfig=None,
            ledger_url="postgresql://ledger",
            endpoints={"mlflow_database_url": "postgresql://mlflow"},
        )
        self.__dict__ |= {
            "settings": settings,
            "ledger": self.fake_ledger,
            "airflow": self.fake_airflow,
            "tracker": self.fake_tracker,
            "cluster": self.fake_cluster,
            "user": "ann",
        }

    def store(self, tenant: str) -> Any:
        return self.fake_store

    def remove_files(self, job: JobRecord) -> int:
        return self.fake_cluster.remove_files(job.job_id)

    def now(self) -> datetime:
        return later(120)


class Cli:
    """Runs command lines over one session."""

    def __init__(self) -> None:
        self.session = FakeSession()
        self.ledger, self.airflow = self.session.fake_ledger, self.session.fake_airflow
        self.store, self.tracker = self.session.fake_store, self.session.fake_tracker
        self.cluster = self.session.fake_cluster

    def run(self, *args: str, input: str | None = None) -> Result:
        return CliRunner().invoke(main, list(args), obj=self.session, input=input)

    def ok(self, *args: str, input: str | None = None) -> Result:
        result = self.run(*args, input=input)
        assert result.exit_code == 0, result.output
        return result

    def refused(self, code: int, *args: str, input: str | None = None) -> str:
        """What is said on standard error by a command that ends with this code, without a traceback."""
        result = self.run(*args, input=input)
        assert result.exit_code == code, (result.exit_code, result.output)
        assert "Traceback" not in result.output
        return result.stderr


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """A command line in an empty directory, with nothing set in its environment."""
    for name in ("FFDL_TENANT", "FFDL_USER", "FFDL_DEBUG", "FFDL_MLFLOW_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ffdl_ops.cli.follow._POLL_S", 0.0)
    monkeypatch.setattr("ffdl_ops.cli.logs._POLL_S", 0.0)
    monkeypatch.setattr("ffdl_ops.cli.nodes._POLL_S", 0.0)
    return Cli()


@pytest.fixture
def job() -> Callable[..., JobRecord]:
    """Makes jobs that have completed, with changes."""
    return make_job


@pytest.fixture
def story() -> Callable[..., list[TransitionRecord]]:
    """Makes transitions, one a second."""

    def make(job_id: str, *states: str, resume_count: int = 0) -> list[TransitionRecord]:
        return [
            TransitionRecord(job_id, None, JobState(state), f"because {state}", later(second), resume_count)
            for second, state in enumerate(states)
        ]

    return make


@pytest.fixture
def wait() -> Callable[..., WaitRecord]:
    """Makes an open wait for quota."""

    def make(job_id: str, message: str = "needs 2 V100, 1 is free") -> WaitRecord:
        holders = (Holder("job-bbbb000001", "speech", 3),)
        return WaitRecord(job_id, WaitCause.QUOTA, message, holders, {}, START, None, None)

    return make


@pytest.fixture
def fault() -> type[FfdlError]:
    """The root of the project's errors."""
    return FfdlError
