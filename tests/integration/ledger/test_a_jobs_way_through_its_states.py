"""A job's record: stored once, moved forward only, re-opened by a resume alone."""

from __future__ import annotations

import pytest

from ffdl_ops.adapters.ledger import NotInLedger, Refused
from ffdl_ops.core.jobs.states import TERMINAL, JobState, TransitionRefused, allowed
from tests.support.gangs import gang, later


def test_a_job_is_stored_once_and_keeps_its_first_facts(ledger, new_job):
    first = new_job(manifest={"name": "digits", "learners": {"min": 1, "max": 4}})
    again = new_job(name="other")
    assert again == first == ledger.job("job-1")
    assert (first.state, first.outcome, first.resume_count) == (JobState.NOT_STARTED, None, 0)
    assert first.manifest == {"name": "digits", "learners": {"min": 1, "max": 4}}
    assert len(ledger.transitions("job-1")) == 1


def test_an_id_never_stands_for_two_runs(ledger, new_job):
    new_job()
    with pytest.raises(Refused, match="can't be other-run"):
        new_job(run_id="other-run")


def test_a_job_that_is_not_there_is_said_by_name(ledger):
    assert ledger.job("job-9") is None
    assert ledger.transitions("job-9") == []
    for write in (
        lambda: ledger.transition("job-9", JobState.PENDING, now=later(0)),
        lambda: ledger.resume_job("job-9", later(0)),
        lambda: ledger.record_outcome("job-9", "failed", None, later(0)),
        lambda: ledger.enqueue(gang("job-9"), later(0)),
        lambda: ledger.stage_started("job-9", "plan", later(0), 1),
        lambda: ledger.claim_follower("job-9", "me", later(0), 5),
    ):
        with pytest.raises(NotInLedger, match="job-9"):
            write()


def test_every_transition_is_kept_with_its_time_and_reason(ledger, new_job):
    new_job()
    ledger.transition("job-1", JobState.PENDING, reason="planned", now=later(1))
    job = ledger.transition("job-1", JobState.QUEUED, reason="asked", now=later(2))
    assert (job.state, job.updated_at) == (JobState.QUEUED, later(2))
    kept = [(one.from_state, one.to_state, one.reason, one.at) for one in ledger.transitions("job-1")]
    assert kept[1:] == [
        (JobState.NOT_STARTED, JobState.PENDING, "planned", later(1)),
        (JobState.PENDING, JobState.QUEUED, "asked", later(2)),
    ]


def test_the_same_state_again_is_nothing_new(ledger, new_job):
    new_job()
    ledger.transition("job-1", JobState.PENDING, now=later(1))
    job = ledger.transition("job-1", JobState.PENDING, reason="told twice", now=later(9))
    assert job.updated_at == later(1)
    assert len(ledger.transitions("job-1")) == 2


@pytest.mark.parametrize("end", sorted(TERMINAL))
def test_a_late_message_moves_no_job_backwards_or_out_of_its_end(ledger, new_job, end):
    """Pitfall 13: a message that comes twice, or late, changes nothing."""
    new_job()
    ledger.transition("job-1", JobState.STORING, now=later(1))
    with pytest.raises(TransitionRefused):
        ledger.transition("job-1", JobState.PROCESSING, now=later(2))
    ledger.transition("job-1", end, now=later(3))
    before = ledger.transitions("job-1")
    for late in JobState:
        if late not in (end, JobState.RESUMED):
            assert not allowed(end, late)
            with pytest.raises(TransitionRefused):
                ledger.transition("job-1", late, now=later(4))
    assert ledger.transitions("job-1") == before
    assert ledger.job("job-1").state == end


def test_a_resume_opens_a_new_incarnation_and_keeps_the_past(ledger, new_job):
    new_job()
    ledger.request_halt("job-1", "bob", later(1))
    ledger.record_outcome("job-1", "halted", {"class": "unknown"}, later(2))
    ledger.transition("job-1", JobState.HALTED, now=later(2))
    job = ledger.resume_job("job-1", later(3))
    assert (job.state, job.outcome, job.failure, job.halt_requested_by) == (JobState.RESUMED, None, None, None)
    assert job.resume_count == 1
    assert ledger.resume_job("job-1", later(4)) == job, "called twice it is resumed once"
    last = ledger.transitions("job-1")[-1]
    assert (last.from_state, last.to_state, last.resume_count) == (JobState.HALTED, JobState.RESUMED, 1)
    assert ledger.transition("job-1", JobState.PENDING, now=later(5)).state == JobState.PENDING
    assert ledger.record_outcome("job-1", "completed", None, later(6)) is True


def test_a_job_that_has_not_ended_is_not_resumed(ledger, new_job):
    new_job()
    ledger.transition("job-1", JobState.PROCESSING, now=later(1))
    assert ledger.resume_job("job-1", later(2)).state == JobState.PROCESSING
    with pytest.raises(TransitionRefused):
        ledger.transition("job-1", JobState.RESUMED, now=later(2))
    assert ledger.job("job-1").resume_count == 0


def test_the_first_outcome_of_an_incarnation_stays(ledger, new_job):
    new_job()
    assert ledger.record_outcome("job-1", "failed", {"class": "oom"}, later(1)) is True
    assert ledger.record_outcome("job-1", "completed", None, later(2)) is False
    job = ledger.job("job-1")
    assert (job.outcome, job.failure) == ("failed", {"class": "oom"})


def test_the_first_to_ask_for_a_halt_is_kept(ledger, new_job):
    new_job()
    ledger.request_halt("job-1", "bob", later(1))
    job = ledger.request_halt("job-1", "eve", later(2))
    assert (job.halt_requested_by, job.halt_requested_at) == ("bob", later(1))


def test_an_ended_job_is_not_halted(ledger, new_job):
    new_job()
    ledger.transition("job-1", JobState.COMPLETED, now=later(1))
    assert ledger.request_halt("job-1", "bob", later(2)).halt_requested_by is None


def test_facts_are_kept_and_others_refused(ledger, new_job):
    new_job()
    ledger.set_facts("job-1", mlflow_run_id="r", dataset={"bucket": "b"}, excluded_nodes={"n2", "n1"})
    job = ledger.set_facts("job-1", dataset_key="k")
    assert (job.mlflow_run_id, job.dataset, job.dataset_key) == ("r", {"bucket": "b"}, "k")
    assert job.excluded_nodes == ("n1", "n2")
    with pytest.raises(Refused, match="Not facts of a job: state"):
        ledger.set_facts("job-1", state="COMPLETED")


def test_jobs_are_listed_newest_first_by_tenant_and_state(ledger, new_job):
    for name, tenant in (("job-1", "a"), ("job-2", "a"), ("job-3", "b")):
        new_job(name, tenant=tenant)
    ledger.transition("job-2", JobState.PENDING, now=later(1))
    assert [job.job_id for job in ledger.jobs(tenant="a")] == ["job-1", "job-2"]
    assert [job.job_id for job in ledger.jobs(states=[JobState.PENDING])] == ["job-2"]
    assert [job.job_id for job in ledger.jobs(states=[])] == []
    assert len(ledger.jobs(limit=2)) == 2


def test_what_no_database_takes_is_replaced_instead_of_losing_the_write(ledger, new_job):
    new_job(name="nul\x00 and half \ud800", manifest={"lr": float("nan"), "seen": float("inf"), "tags": {"b", "a"}})
    ledger.record_outcome(
        "job-1", "failed", {"class": "user_error", "traceback": "a\x00b\udcff", 3: later(0)}, later(1)
    )
    ledger.transition("job-1", JobState.FAILED, reason="x\x00y" * 1000, now=later(2))
    job = ledger.job("job-1")
    assert job.name.startswith("nul\ufffd and half ")
    assert job.manifest == {"lr": None, "seen": None, "tags": ["a", "b"]}
    assert job.failure["traceback"].startswith("a\ufffdb")
    assert job.failure["3"] == str(later(0))


def test_only_an_ended_job_that_holds_nothing_is_deleted_with_all_it_owns(ledger, new_job):
    new_job()
    ledger.stage_started("job-1", "plan", later(0), 1)
    with pytest.raises(Refused, match="halt it first"):
        ledger.delete_job("job-1", "ann", later(9))
    ledger.transition("job-1", JobState.HALTED, now=later(1))
    assert ledger.delete_job("job-1", "ann", later(9)) is True
    assert ledger.delete_job("job-1", "ann", later(9)) is False
    assert ledger.job("job-1") is None
    assert ledger.stages("job-1") == ledger.transitions("job-1") == []


def test_who_halts_resumes_and_forgets_a_job_is_in_the_audit_once(ledger, new_job):
    new_job()
    ledger.request_halt("job-1", "ann", later(1))
    ledger.request_halt("job-1", "bob", later(2))
    ledger.transition("job-1", JobState.HALTED, now=later(3))
    ledger.request_halt("job-1", "bob", later(4))
    ledger.resume_job("job-1", later(5))
    ledger.resume_job("job-1", later(6))
    ledger.transition("job-1", JobState.FAILED, now=later(7))
    ledger.delete_job("job-1", "bob", later(8))
    ledger.delete_job("job-1", "bob", later(9))
    lines = ledger.audit_lines(job_id="job-1")
    assert [(one.actor, one.action) for one in lines] == [("ann", "halt"), ("airflow", "reopen"), ("bob", "forget")]
    assert [one.at for one in lines] == [later(1), later(5), later(8)]
