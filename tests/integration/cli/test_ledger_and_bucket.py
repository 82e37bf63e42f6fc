"""The installed console script on a real ledger and a real bucket, without the rest of the platform."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ffdl_ops.adapters.ledger import CheckpointRecord, Ledger, NewJob
from ffdl_ops.core.jobs.states import JobState
from ffdl_ops.core.scheduling.model import GangRequest, NodeView
from ffdl_ops.core.tenancy.tenants import Tenants
from tests.conformance.bench import MiniClusterProcess
from tests.support.gangs import FIFO
from tests.support.postgres import TestPostgres, running_postgres
from tests.support.s3 import S3Server, running_s3

pytestmark = pytest.mark.slow

T = datetime(2026, 1, 1, 12, tzinfo=UTC)
DONE, WAITING = "job-d000000001", "job-e000000001"
GIB = 2**30


class Place:
    """A ledger, a bucket, and the environment that names them."""

    def __init__(self, postgres: TestPostgres, s3: S3Server, folder: Path) -> None:
        self.postgres, self.s3 = postgres, s3
        self.url = postgres.url(postgres.create_database())
        self.ledger = Ledger(self.url)
        self.ledger.migrate()
        config = folder / "config"
        config.mkdir(exist_ok=True)
        (config / "tenants.yaml").write_text(
            "tenants:\n- {name: vision, gpu_quota: {V100: 4}, bucket: vision-bucket}\n"
        )
        connection = {
            "conn_type": "aws", "login": s3.config.access_key, "password": s3.config.secret_key,
            "extra": {"endpoint_url": s3.endpoint, "region_name": "us-east-1"},
        }  # fmt: skip
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("FFDL_", "MLFLOW_", "KUBECONFIG"))
        }
        self.environment = kept | {
            "FFDL_HOME": str(folder / "home"),
            "FFDL_CONFIG_DIR": str(config),
            "FFDL_LEDGER_URL": self.url,
            "MLFLOW_TRACKING_URI": "http://127.0.0.1:9",
            "FFDL_AIRFLOW_URL": "http://127.0.0.1:9",
            "FFDL_AIRFLOW_USERNAME": "ann",
            "FFDL_AIRFLOW_PASSWORD": "secret-word",
            "AIRFLOW_CONN_FFDL_S3_VISION": json.dumps(connection),
            "COLUMNS": "200",
        }

    def ffdl(self, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        script = Path(sys.executable).with_name("ffdl")
        done = subprocess.run(
            [script, *args], env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == code, f"{args} ended with {done.returncode}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestPostgres, S3Server]]:
    with running_postgres() as postgres, running_s3(tmp_path_factory.mktemp("s3")) as s3:
        s3.bucket("vision-bucket")
        yield postgres, s3


@pytest.fixture
def place(servers: tuple[TestPostgres, S3Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A job that is done and one that waits for the GPUs that a third one holds."""
    place = Place(*servers, tmp_path)
    monkeypatch.chdir(tmp_path)
    ledger = place.ledger
    for number, job_id in enumerate((DONE, WAITING, "job-f000000001")):
        manifest = {"name": "digits", "example": "digits-pytorch", "learners": 2, "gpus": 2, "gpu_type": "V100"}
        new = NewJob(
            job_id, "vision", "train__vision", f"run-{number}", "ann", "digits", manifest, "pytorch", 2, 2, "V100"
        )
        ledger.create_job(new, T)
    nodes = [NodeView("node-a", "V100", 4, 32_000, 64 * GIB)]
    tenants = {one.name: one for one in Tenants.load({"tenants": [{"name": "vision", "gpu_quota": {"V100": 4}}]})}
    for job_id in ("job-f000000001", WAITING):
        ledger.enqueue(GangRequest(job_id, "vision", 2, 2, 2, "V100", 500, GIB, 50, T), T)
        ledger.admission_pass(nodes, tenants, FIFO, T)
    ledger.stage_started(DONE, "plan", T, 1)
    ledger.stage_ended(DONE, "plan", T + timedelta(seconds=2), "success")
    ledger.record_checkpoint(DONE, CheckpointRecord(1, 1, 10, 5, 1, True, False, T))
    ledger.transition(DONE, JobState.COMPLETED, reason="done", now=T + timedelta(seconds=60))
    root = f"jobs/{DONE}"
    manifest = {
        "generation": 1, "created": "2026-01-01T12:00:00Z", "attempt": 1, "step": 10, "rank": None, "ranks": 1,
        "files": [{"path": "a b.pt", "size": 5, "sha256": "0" * 64, "key": f"{root}/checkpoints/gen-000001/a b.pt"}],
    }  # fmt: skip
    place.s3.put(
        "vision-bucket",
        {
            f"{root}/results/model.pt": b"weights",
            f"{root}/results/deep/er/it's $HOME.txt": b"quoted",
            f"{root}/logs/attempt-1/learner-1.log": b"2026-01-01T12:00:01.000000Z [learner 1] step=1\n",
            f"{root}/logs/attempt-1/learner-2.log": b"2026-01-01T12:00:00.500000Z [learner 2] step=0\n",
            f"{root}/checkpoints/gen-000001/a b.pt": b"state",
            f"{root}/checkpoints/gen-000001/MANIFEST.json": json.dumps(manifest).encode(),
        },
    )
    yield place
    ledger.close()


def test_jobs_are_listed_shown_and_explained(place: Place) -> None:
    assert DONE in place.ffdl("list").stdout
    told = json.loads(place.ffdl("show", "job-d", "--json").stdout)
    assert (told["state"], told["stage_seconds"], told["checkpoints"][0]["step"]) == ("COMPLETED", {"plan": 2.0}, 10)
    shown = place.ffdl("show", WAITING).stdout
    assert "job-f000000001 (vision: 4)" in shown
    queue = json.loads(place.ffdl("queue", "--json").stdout)
    assert [one["request"]["job_id"] for one in queue["waiting"]] == [WAITING]
    assert [one["job_id"] for one in queue["holding"]] == ["job-f000000001"]
    assert "node-a" in place.ffdl("queue").stdout


def test_logs_and_files_come_from_the_bucket(place: Place) -> None:
    lines = place.ffdl("logs", DONE).stdout.splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == ["step=0", "step=1"]
    place.ffdl("download", DONE, "model", "--to", "out")
    assert Path("out/model.pt").read_bytes() == b"weights"
    assert Path("out/deep/er/it's $HOME.txt").read_bytes() == b"quoted"
    place.ffdl("download", DONE, "checkpoint", "--to", "state")
    assert Path("state/a b.pt").read_bytes() == b"state"
    place.ffdl("download", DONE, "model", "--to", "out", code=3)


def test_a_halt_is_kept_though_airflow_is_away_and_the_code_says_which_service(place: Place) -> None:
    said = place.ffdl("halt", WAITING, code=69).stderr
    assert "Airflow at http://127.0.0.1:9" in said
    assert "secret-word" not in said
    record = place.ledger.job(WAITING)
    assert record is not None
    assert record.halt_requested_by
    assert place.ledger.queue() == []


def test_where_no_cluster_is_configured_nothing_is_deleted_and_that_is_said(place: Place) -> None:
    assert "KUBECONFIG is not set" in place.ffdl("delete", DONE, code=2).stderr
    assert len(list(place.s3.store.list("vision-bucket", f"jobs/{DONE}/"))) == 6
    assert not json.loads(place.ffdl("show", DONE, "--json").stdout)["deleted_at"]
    place.environment["KUBECONFIG"] = "absent.yaml"
    assert "absent.yaml" in place.ffdl("delete", DONE, code=2).stderr


@pytest.fixture
def cluster(place: Place, tmp_path: Path) -> Iterator[None]:
    """A cluster with the tenants' namespaces."""
    server = MiniClusterProcess(tmp_path / "minicluster")
    server.start("--stop-pods")
    try:
        place.environment["KUBECONFIG"] = str(server.kubeconfig)
        place.ffdl("tenants", "apply")
        yield
    finally:
        server.stop()


@pytest.mark.usefixtures("cluster")
def test_deleting_empties_the_jobs_prefix_and_marks_its_record(place: Place) -> None:
    place.ffdl("delete", WAITING, code=3)
    told = json.loads(place.ffdl("delete", DONE, "--json").stdout)
    assert told["objects"] == 6
    assert list(place.s3.store.list("vision-bucket", f"jobs/{DONE}/")) == []
    assert json.loads(place.ffdl("show", DONE, "--json").stdout)["deleted_at"]
    assert "was deleted" in place.ffdl("resume", DONE, code=3).stderr


def test_a_backup_brings_back_what_was_lost(place: Place) -> None:
    place.ffdl("backup", "saved", "--only", "ledger")
    place.ledger.delete_job(DONE, "ann", T + timedelta(hours=1))
    assert "There is no job" in place.ffdl("show", DONE, code=2).stderr
    assert "--replace" in place.ffdl("restore", "saved", "--only", "ledger", code=3).stderr
    place.ledger.close()
    place.ffdl("restore", "saved", "--only", "ledger", "--replace")
    assert json.loads(place.ffdl("show", DONE, "--json").stdout)["state"] == "COMPLETED"


def test_a_ledger_that_is_away_is_said_without_its_password(place: Place) -> None:
    place.environment["FFDL_LEDGER_URL"] = "postgresql+psycopg2://ann:hunter2@127.0.0.1:9/ledger"
    said = place.ffdl("list", code=69)
    assert "127.0.0.1" in said.stderr
    assert "hunter2" not in said.stderr + said.stdout


def test_a_reader_that_has_enough_ends_the_output_quietly(place: Place) -> None:
    script = Path(sys.executable).with_name("ffdl")
    pipe = subprocess.run(
        f"set -o pipefail; {script} schema | head -n 1 >/dev/null", shell=True, executable="/bin/bash",
        env=place.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert pipe.stderr == ""


@pytest.mark.parametrize(
    ("args", "limit_s"),
    [(["--help"], 0.3), (["validate", "--example", "digits-pytorch"], 1.0)],
    ids=["help", "validate"],
)
def test_a_command_starts_quickly(place: Place, args: list[str], limit_s: float) -> None:
    """In processor time, which a busy machine changes little; the best of seven."""
    taken = []
    for _ in range(7):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        place.ffdl(*args)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(taken) < limit_s, taken
