"""A job's run in a real MLflow server. MLflow's own client says what a person would see."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ffdl_ops.adapters.tracking.points import MAX_KEYS, Point
from ffdl_ops.adapters.tracking.runs import JobFacts, RunRef, Tracker

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

pytestmark = pytest.mark.slow

WRITERS = 8


@pytest.fixture
def tracker(mlflow_uri: str) -> Tracker:
    return Tracker(mlflow_uri, budget_s=60)


@pytest.fixture
def client(mlflow_uri: str) -> MlflowClient:
    from mlflow.tracking import MlflowClient

    return MlflowClient(mlflow_uri)


@pytest.fixture
def job(tenant: str) -> JobFacts:
    return JobFacts(
        job_id="job-0123456789",
        tenant=tenant,
        name="digits",
        framework="pytorch",
        framework_version="2.14",
        model="digits-net",
        learners=2,
        gpus=1,
        gpu_type="V100",
        user="ada",
        dag_id=f"train__{tenant}",
        run_id="manual__1",
        params={"command": "python3 train.py", "memory": "2Gi"},
    )


def at_once(work: Callable[[], RunRef]) -> list[RunRef]:
    """The same work by several threads that begin together."""
    gate = threading.Barrier(WRITERS)

    def one(_: int) -> RunRef:
        gate.wait()
        return work()

    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(one, range(WRITERS)))


def runs_of(client: MlflowClient, ref: RunRef) -> list[str]:
    return [run.info.run_id for run in client.search_runs([ref.experiment_id])]


def test_a_run_says_what_its_job_is(tracker: Tracker, client: MlflowClient, job: JobFacts) -> None:
    ref = tracker.ensure_run(job)
    run = client.get_run(ref.run_id)
    assert client.get_experiment(ref.experiment_id).name == f"ffdl/{job.tenant}"
    assert run.info.run_name == "digits-012345"
    assert run.info.status == "RUNNING"
    assert run.data.tags["mlflow.user"] == "ada"
    own = {key.removeprefix("ffdl."): value for key, value in run.data.tags.items() if key.startswith("ffdl.")}
    assert own == {
        "job_id": "job-0123456789",
        "tenant": job.tenant,
        "name": "digits",
        "framework": "pytorch",
        "model": "digits-net",
        "gpu_type": "V100",
        "learners": "2",
        "gpus": "1",
        "user": "ada",
        "dag_id": f"train__{job.tenant}",
        "run_id": "manual__1",
    }
    assert run.data.params == {
        "command": "python3 train.py",
        "memory": "2Gi",
        "framework": "pytorch",
        "framework_version": "2.14",
        "learners": "2",
        "gpus": "1",
        "gpu_type": "V100",
    }
    assert tracker.url(ref).endswith(f"/#/experiments/{ref.experiment_id}/runs/{ref.run_id}")


def test_many_who_create_one_experiment_at_once_all_get_it(
    mlflow_uri: str, client: MlflowClient, job: JobFacts
) -> None:
    """Pitfall 37: N workers create one experiment."""
    numbers = iter(range(WRITERS))
    jobs = [replace(job, job_id=f"job-{number:010d}") for number in range(WRITERS)]
    refs = at_once(lambda: Tracker(mlflow_uri, budget_s=60).ensure_run(jobs[next(numbers)]))
    assert len({ref.experiment_id for ref in refs}) == 1
    assert len(set(runs_of(client, refs[0]))) == WRITERS


def test_a_deleted_experiment_comes_back_for_the_next_job(
    tracker: Tracker, client: MlflowClient, job: JobFacts
) -> None:
    """Pitfall 37: its name is taken for ever, so creating it again would fail for ever."""
    first = tracker.ensure_run(job)
    client.delete_experiment(first.experiment_id)
    second = tracker.ensure_run(replace(job, job_id="job-9999999999"))
    assert second.experiment_id == first.experiment_id
    assert client.get_experiment(first.experiment_id).lifecycle_stage == "active"


def test_a_retry_with_other_facts_is_not_rejected(tracker: Tracker, client: MlflowClient, job: JobFacts) -> None:
    """Pitfall 38: a changed parameter is refused by MLflow; the first stands, an attempt's facts are tags."""
    ref = tracker.ensure_run(job)
    again = replace(job, learners=4, params={"command": "other", "memory": "2Gi", "late": "new"})
    assert tracker.ensure_run(again) == ref
    for node in ("node-1", "node-2"):
        tracker.tag_attempt(ref.run_id, 1, {"nodes": node, "generation": None})
    tracker.tag_attempt(ref.run_id, 2, {"nodes": "node-3"})
    data = client.get_run(ref.run_id).data
    assert (data.params["learners"], data.params["command"], data.params["late"]) == ("2", "python3 train.py", "new")
    assert (data.tags["ffdl.attempt.1.nodes"], data.tags["ffdl.attempt.2.nodes"]) == ("node-2", "node-3")
    assert "ffdl.attempt.1.generation" not in data.tags


def test_a_resumed_job_goes_on_in_its_run_and_logs_each_step_once(
    tracker: Tracker, client: MlflowClient, job: JobFacts
) -> None:
    """Pitfall 39: killed at step 5, resumed from the checkpoint of step 3, it prints steps 4 and 5 again."""
    ref = tracker.ensure_run(job)
    tracker.tag_attempt(ref.run_id, 1, {})
    tracker.log_batch(ref.run_id, [Point("loss", 1.0, step, 1000 + step) for step in range(1, 6)])
    tracker.close(ref.run_id, "KILLED")

    assert tracker.ensure_run(job) == ref
    tracker.reopen(ref.run_id)
    assert client.get_run(ref.run_id).info.status == "RUNNING"
    tracker.tag_attempt(ref.run_id, 2, {"restored_generation": 3})
    for _ in range(2):
        tracker.log_batch(ref.run_id, [Point("loss", 0.5, step, 2000 + step) for step in range(4, 9)])
    tracker.close(ref.run_id, "FINISHED")

    history = client.get_metric_history(ref.run_id, "loss")
    assert sorted(metric.step for metric in history) == list(range(1, 9))
    assert client.get_run(ref.run_id).info.status == "FINISHED"
    assert client.get_run(ref.run_id).data.tags["ffdl.attempts"] == "2"
    assert len(runs_of(client, ref)) == 1


def test_what_an_earlier_attempt_had_left_unwritten_fills_the_gaps_and_no_more(
    tracker: Tracker, client: MlflowClient, job: JobFacts
) -> None:
    ref = tracker.ensure_run(job)
    for attempt, steps in ((1, (1, 2, 3)), (2, (7, 8)), (3, (9, 10))):
        tracker.tag_attempt(ref.run_id, attempt, {})
        tracker.log_batch(ref.run_id, [Point("loss", 0.5, step, 1000 * attempt + step) for step in steps])
    late = [Point("loss", 0.7, step, 1500 + step) for step in range(1, 9)] + [Point("accuracy", 0.1, 4, 1504)]
    for _ in range(2):
        logged: dict[str, set[int]] = {}
        tracker.log_absent(ref.run_id, late[:5], logged)
        tracker.log_absent(ref.run_id, late[5:], logged)

    points = {(metric.step, metric.value) for metric in client.get_metric_history(ref.run_id, "loss")}
    assert points == {(step, 0.7 if step in (4, 5, 6) else 0.5) for step in range(1, 11)}
    assert len(client.get_metric_history(ref.run_id, "loss")) == 10
    assert [metric.step for metric in client.get_metric_history(ref.run_id, "accuracy")] == [4]
    assert client.get_run(ref.run_id).data.metrics["loss"] == 0.5


def test_the_same_lines_read_twice_are_logged_once(tracker: Tracker, client: MlflowClient, job: JobFacts) -> None:
    """Pitfall 39: a follower that starts anew reads a little of the log again."""
    ref = tracker.ensure_run(job)
    points = [Point("loss", 1 / (step + 1), step, 1000 + step) for step in range(50)]
    for part in (points, points[25:], points + points):
        tracker.log_batch(ref.run_id, part)
    assert len(client.get_metric_history(ref.run_id, "loss")) == 50


def test_thousands_of_points_go_in_few_requests_and_none_is_lost(
    tracker: Tracker, mlflow_uri: str, client: MlflowClient, job: JobFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pitfall 40: parallel single writes end in "database is locked"; one writer sends 1,000 at a time."""
    ref = tracker.ensure_run(job)
    sent: list[str] = []
    post = tracker._api.post
    monkeypatch.setattr(tracker._api, "post", lambda path, body: (sent.append(path), post(path, body))[1])
    assert tracker.log_batch(ref.run_id, [Point("loss", 1.0, step, step) for step in range(2500)]) == 2500
    assert sent == ["runs/log-batch"] * 3
    assert len(tracker.series(ref.run_id, "loss")) == 2500
    assert len(client.get_metric_history(ref.run_id, "loss")) == 2500


def test_the_writers_of_many_jobs_do_not_lose_to_each_other(
    mlflow_uri: str, client: MlflowClient, job: JobFacts
) -> None:
    """Pitfall 40: one writer per run, several runs at once."""
    numbers = iter(range(WRITERS))
    jobs = [replace(job, job_id=f"job-{number:010d}") for number in range(WRITERS)]

    def one() -> RunRef:
        own = Tracker(mlflow_uri, budget_s=60)
        ref = own.ensure_run(jobs[next(numbers)])
        for start in range(0, 100, 20):
            own.log_batch(ref.run_id, [Point("loss", 1.0, step, step) for step in range(start, start + 20)])
        return ref

    for ref in at_once(one):
        assert len(client.get_metric_history(ref.run_id, "loss")) == 100


def test_a_create_that_is_repeated_leaves_no_ghost(mlflow_uri: str, client: MlflowClient, job: JobFacts) -> None:
    """Pitfall 41: the answer to a create was lost and it is repeated: one run stays, the oldest, for all."""
    tracker = Tracker(mlflow_uri, budget_s=60)
    first = tracker.ensure_run(job)
    ghost = client.create_run(first.experiment_id, tags={"ffdl.job_id": job.job_id}, start_time=2**41)
    assert tracker.ensure_run(job) == first
    assert runs_of(client, first) == [first.run_id]
    assert client.get_run(ghost.info.run_id).info.lifecycle_stage == "deleted"


def test_many_who_create_one_run_at_once_all_get_the_same(mlflow_uri: str, client: MlflowClient, job: JobFacts) -> None:
    """Pitfall 41: whoever asks afterwards, too, finds that one."""
    at_once(lambda: Tracker(mlflow_uri, budget_s=60).ensure_run(job))
    ref = Tracker(mlflow_uri).ensure_run(job)
    assert runs_of(client, ref) == [ref.run_id]


def test_a_job_id_in_another_tenants_experiment_is_another_run(tracker: Tracker, job: JobFacts) -> None:
    """Pitfall 41: the tag identifies the job within its tenant."""
    assert tracker.find_run(job.tenant, job.job_id) is None
    first = tracker.ensure_run(job)
    second = tracker.ensure_run(replace(job, tenant=f"{job.tenant}x"))
    assert first.experiment_id != second.experiment_id
    found = tracker.find_run(job.tenant, job.job_id)
    assert found is not None
    assert found.ref == first


def test_files_stay_in_the_object_store_and_their_addresses_are_logged(
    tracker: Tracker, client: MlflowClient, job: JobFacts
) -> None:
    """Pitfall 42: big artefacts through MLflow's proxy fail."""
    ref = tracker.ensure_run(job)
    tracker.tag_uris(ref.run_id, {"model": "s3://team-a/jobs/job-0123456789/results/", "logs": "s3://team-a/l/"})
    assert client.get_run(ref.run_id).data.tags["ffdl.model_uri"] == "s3://team-a/jobs/job-0123456789/results/"
    assert client.list_artifacts(ref.run_id) == []


def test_a_program_with_thousands_of_metrics_keeps_its_first(
    tracker: Tracker, client: MlflowClient, job: JobFacts
) -> None:
    ref = tracker.ensure_run(job)
    tracker.log_batch(ref.run_id, [Point("loss", 1.0, 1, 1)])
    tracker.log_batch(ref.run_id, [Point(f"k{number}", 1.0, 1, 1) for number in range(3000)])
    tracker.log_batch(ref.run_id, [Point(f"z{number}", 1.0, 1, 1) for number in range(3000)])
    data = client.get_run(ref.run_id).data
    assert len(data.metrics) == MAX_KEYS
    assert "loss" in data.metrics
    assert f"at most {MAX_KEYS} metrics" in data.tags["ffdl.metrics_dropped"]


def test_odd_values_and_keys_are_kept_as_near_as_can_be(tracker: Tracker, client: MlflowClient, job: JobFacts) -> None:
    ref = tracker.ensure_run(job)
    odd = [("nan", math.nan), ("inf", math.inf), ("../Genauigkeit (%)", 1.0), ("ffdl.seconds.admit", 9.0)]
    tracker.log_batch(ref.run_id, [Point(key, value, 2**53, 1) for key, value in odd])
    metrics = client.get_run(ref.run_id).data.metrics
    assert math.isnan(metrics.pop("nan"))
    assert metrics.pop("inf") > 1e308
    assert metrics == {"Genauigkeit _": 1.0, "user.ffdl.seconds.admit": 9.0}


def test_the_seconds_of_each_stage_are_metrics_and_a_repeat_adds_none(
    tracker: Tracker, client: MlflowClient, job: JobFacts
) -> None:
    ref = tracker.ensure_run(job)
    for _ in range(2):
        tracker.log_durations(ref.run_id, {"admit": 0.5, "learners": 30.25})
    tracker.log_durations(ref.run_id, {"admit": 0.25})
    assert client.get_run(ref.run_id).data.metrics == {"ffdl.seconds.admit": 0.25, "ffdl.seconds.learners": 30.25}
    assert len(client.get_metric_history(ref.run_id, "ffdl.seconds.learners")) == 1


@pytest.mark.parametrize("status", ["FINISHED", "FAILED", "KILLED"])
def test_a_run_is_closed_once_and_opened_again(
    tracker: Tracker, client: MlflowClient, job: JobFacts, status: str
) -> None:
    ref = tracker.ensure_run(job)
    tracker.close(ref.run_id, status)
    ended = client.get_run(ref.run_id).info
    time.sleep(0.01)
    tracker.close(ref.run_id, status)
    assert ended.status == status
    assert client.get_run(ref.run_id).info.end_time == ended.end_time
    for _ in range(2):
        tracker.reopen(ref.run_id)
    assert client.get_run(ref.run_id).info.status == "RUNNING"
    tracker.close(ref.run_id, "FINISHED")
    assert client.get_run(ref.run_id).info.end_time > ended.end_time
