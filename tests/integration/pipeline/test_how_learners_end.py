"""Each way a learner may end, and what becomes of its gang."""

from __future__ import annotations

import pytest

from tests.support.rig import Rig, eventually

pytestmark = pytest.mark.slow


def test_a_pod_that_ends_before_anybody_watches_gives_the_same_result(rig: Rig) -> None:
    """Pitfall 10: the pod finishes before the task defers and its result is lost."""
    run = rig.probe(flags="--steps 0")
    assert rig.wait_job(run, {"COMPLETED", "FAILED", "HALTED"}).state == "COMPLETED", rig.story(run)
    failing = rig.probe(flags="--steps 1 --exit-at-step 1 --exit-code 9 --seconds-per-step 0")
    job = rig.wait_job(failing, {"COMPLETED", "FAILED", "HALTED"})
    assert job.state == "FAILED", rig.story(failing)


def test_an_evicted_learner_is_replaced_by_a_new_pod_and_its_evidence_is_kept(rig: Rig) -> None:
    """Pitfall 3: an evicted pod that was kept is used again by the retry."""
    run = rig.probe(flags="--steps 40 --seconds-per-step 0.4")
    rig.wait_job(run, {"PROCESSING"})
    rig.faults.evict("ffdl-vision", f"{run.job_id}-a1-l0", "The node was low on resource: memory.")
    job = rig.wait_job(run, {"COMPLETED", "FAILED", "HALTED"}, within_s=150)
    assert job.state == "COMPLETED", rig.story(run)
    first, second = rig.ledger.attempts(run.job_id)
    assert (first.failure or {})["class"] == "evicted"
    assert "low on resource" in str((first.failure or {})["evidence"])
    assert first.pods[0]["uid"] != second.pods[0]["uid"]


def test_a_job_past_its_deadline_is_stopped_and_holds_nothing(rig: Rig) -> None:
    """Pitfall 7: a time-out leaves the pod burning its GPU."""
    run = rig.probe(flags="--steps 1000 --seconds-per-step 0.5", deadline="20s", gpus=1, gpu_type="V100")
    job = rig.wait_job(run, {"COMPLETED", "FAILED", "HALTED"}, within_s=120)
    assert job.state == "FAILED", rig.story(run)
    assert "deadline" in str(job.failure)
    assert rig.pods(run) == []
    assert rig.ledger.lease(run.job_id) is None


def test_a_gang_that_does_not_start_is_confirmed_gone_before_the_job_fails(rig: Rig) -> None:
    """Pitfall 8: the start-up time-out fails the task, and the pod later runs to its end."""
    manifest = """
name: no such image
learners: 1
gpus: 0
framework: {name: custom, version: "nowhere/nothing:1", command: "true"}
retry: {image: 0}
"""
    run = rig.submit(manifest=manifest)
    job = rig.wait_job(run, {"COMPLETED", "FAILED", "HALTED"}, within_s=180)
    assert job.state == "FAILED", rig.story(run)
    assert (job.failure or {})["class"] == "image"
    assert rig.pods(run) == []


def test_out_of_memory_is_told_with_the_container_and_its_limit(rig: Rig) -> None:
    """Pitfall 20: OOMKilled is told as "returned a failure"."""
    run = rig.probe(flags="--steps 60 --allocate-mb 900", memory="512Mi")
    job = rig.wait_job(run, {"COMPLETED", "FAILED", "HALTED"}, within_s=120)
    assert job.state == "FAILED", rig.story(run)
    failure = job.failure or {}
    assert failure["class"] == "oom"
    assert failure["evidence"][0]["container_reason"] == "OOMKilled"
    assert int(failure["evidence"][0]["memory_limit"]) == 512 << 20


def test_marking_the_run_failed_ends_every_learner_within_its_grace_and_is_never_retried(rig: Rig) -> None:
    """Pitfalls 5 and 6: the pod lives on, or the task goes to up_for_retry, after a person's cancel."""
    run = rig.probe(flags="--steps 1000 --seconds-per-step 0.5", learners=2)
    rig.wait_job(run, {"PROCESSING"})
    rig.wait_task(run, "learners", {"deferred"})
    rig.airflow.mark_run_failed(run.dag_id, run.run_id)
    eventually("no pod of the gang", lambda: not rig.pods(run), within_s=40)
    assert rig.wait_run(run) == "failed"
    assert rig.wait_job(run, {"HALTED"}).state == "HALTED"
    assert rig.task(run, "learners") == "failed"
    assert len(rig.ledger.attempts(run.job_id)) == 1
