"""The queue, what is granted from it, and the waits that are kept."""

from __future__ import annotations

import pytest

from ffdl_ops.adapters.ledger import LeaseLost, Refused
from ffdl_ops.core.jobs.states import JobState
from ffdl_ops.core.scheduling.decisions import Admit, Wait, WaitCause
from ffdl_ops.core.scheduling.model import Placement
from tests.support.gangs import FIFO, Limits, gang, later, limits, node

NODES = [node("n1")]
TENANTS = limits(Limits("a", {"V100": 8}), Limits("b", {"V100": 8}))


def run_pass(ledger, seconds, nodes=NODES, tenants=TENANTS):
    return {one.job_id: one for one in ledger.admission_pass(nodes, tenants, FIFO, later(seconds))}


@pytest.fixture
def holding(ledger, new_job):
    """`job-1` holds all of n1."""
    new_job()
    ledger.enqueue(gang("job-1", 2, 2), later(0))
    assert isinstance(run_pass(ledger, 1)["job-1"], Admit)
    return ledger.lease("job-1")


def test_a_gang_that_fits_is_granted_with_its_places(ledger, holding):
    assert holding.placements == (Placement(0, "n1"), Placement(1, "n1"))
    assert (holding.gpus, holding.gpus_total, holding.gpu_type) == (2, 4, "V100")
    assert (holding.granted_at, holding.released_at) == (later(1), None)
    assert ledger.holds("job-1", holding.epoch)
    assert ledger.live_leases() == [holding]
    assert ledger.queue() == []
    assert ledger.waits("job-1") == [], "it was granted without waiting"


def test_an_empty_queue_is_decided_at_once(ledger):
    assert run_pass(ledger, 1) == {}


def test_what_is_held_is_not_granted_again_until_it_is_released(ledger, holding, new_job):
    """Pitfall 33: the release lets the next one in at the next pass."""
    new_job("job-2", tenant="b")
    ledger.enqueue(gang("job-2", 1, 1, tenant="b"), later(2))
    assert isinstance(run_pass(ledger, 3)["job-2"], Wait)
    assert ledger.lease("job-2") is None
    ledger.release_lease("job-1", holding.epoch, "done", later(4))
    assert isinstance(run_pass(ledger, 5)["job-2"], Admit)
    assert ledger.lease("job-2").epoch > holding.epoch


def test_a_lease_is_released_once_and_only_under_its_own_epoch(ledger, holding):
    assert ledger.release_lease("job-1", holding.epoch + 1, "wrong", later(2)) is False
    assert ledger.release_lease("job-1", holding.epoch, "done", later(3)) is True
    assert ledger.release_lease("job-1", holding.epoch, "again", later(4)) is False
    (past,) = ledger.leases("job-1")
    assert (past.released_at, past.release_reason) == (later(3), "done")
    assert ledger.lease("job-1") is None
    assert not ledger.holds("job-1", holding.epoch)


def test_a_late_release_of_an_old_lease_leaves_the_new_one(ledger, holding):
    ledger.release_lease("job-1", holding.epoch, "restart", later(2))
    ledger.enqueue(gang("job-1", 2, 2), later(3))
    run_pass(ledger, 4)
    new = ledger.lease("job-1")
    assert ledger.release_lease("job-1", holding.epoch, "late", later(5)) is False
    assert ledger.holds("job-1", new.epoch)


def test_a_job_that_holds_a_lease_is_not_queued(ledger, holding):
    assert ledger.enqueue(gang("job-1", 2, 2), later(2)) is False
    assert ledger.queue() == []


def test_queued_twice_a_job_keeps_its_place_and_takes_the_newer_request(ledger, new_job):
    new_job()
    assert ledger.enqueue(gang("job-1", 2, 1), later(0)) is True
    assert ledger.enqueue(gang("job-1", 2, 1, excluded=("n7",)), later(5)) is True
    (entry,) = ledger.queue()
    assert entry.enqueued_at == later(0)
    assert entry.request == gang("job-1", 2, 1, excluded=("n7",), queued_at=later(0))


def test_a_job_that_has_ended_or_is_to_halt_is_not_queued(ledger, new_job):
    new_job("job-1")
    new_job("job-2")
    ledger.transition("job-1", JobState.FAILED, now=later(1))
    ledger.request_halt("job-2", "bob", later(1))
    with pytest.raises(Refused, match="job-1 is FAILED"):
        ledger.enqueue(gang("job-1"), later(2))
    with pytest.raises(Refused, match="halted by bob"):
        ledger.enqueue(gang("job-2"), later(2))


@pytest.mark.parametrize("how", ["halt", "end", "dequeue"])
def test_a_job_that_leaves_the_queue_is_granted_nothing_and_its_wait_is_closed(ledger, holding, new_job, how):
    new_job("job-2")
    ledger.enqueue(gang("job-2"), later(1))
    run_pass(ledger, 2)
    if how == "halt":
        ledger.request_halt("job-2", "bob", later(6))
    elif how == "end":
        ledger.transition("job-2", JobState.FAILED, now=later(6))
    else:
        assert ledger.dequeue("job-2", later(6), "gone") is True
        assert ledger.dequeue("job-2", later(7), "gone") is False
    ledger.release_lease("job-1", holding.epoch, "done", later(7))
    assert run_pass(ledger, 8) == {}
    assert ledger.lease("job-2") is None
    (wait,) = ledger.waits("job-2")
    assert wait.ended_at == later(6)


def test_a_wait_is_one_record_while_cause_and_holders_stay_the_same(ledger, holding, new_job):
    new_job("job-2", tenant="b")
    ledger.enqueue(gang("job-2", 1, 4, tenant="b"), later(2))
    for seconds in (3, 4, 5):
        run_pass(ledger, seconds)
    run_pass(ledger, 6, nodes=[node("n1", gpus=5)])
    (wait,) = ledger.waits("job-2")
    assert (wait.cause, wait.started_at, wait.ended_at) == (WaitCause.CAPACITY, later(2), None)
    assert [holder.job_id for holder in wait.holders] == ["job-1"]
    assert wait.numbers["free_gpus"] == 1, "the numbers are the last ones"
    assert "1 GPUs are free on 1 V100 node" in wait.message


def test_another_cause_or_holder_begins_another_record_and_the_grant_closes_the_last(ledger, holding, new_job):
    new_job("job-2", tenant="b")
    new_job("job-3", tenant="b")
    ledger.enqueue(gang("job-2", 1, 4, tenant="b", at=2), later(2))
    ledger.enqueue(gang("job-3", 1, 4, tenant="b", at=3), later(3))
    run_pass(ledger, 4)
    assert [(one.position, one.cause) for one in ledger.queue()] == [(1, WaitCause.CAPACITY), (2, WaitCause.ORDER)]
    ledger.release_lease("job-1", holding.epoch, "done", later(10))
    run_pass(ledger, 11)
    ledger.release_lease("job-2", ledger.lease("job-2").epoch, "done", later(20))
    run_pass(ledger, 21)
    kept = [(wait.cause, wait.started_at, wait.ended_at) for wait in ledger.waits("job-3")]
    assert kept == [
        (WaitCause.ORDER, later(3), later(11)),
        (WaitCause.CAPACITY, later(11), later(21)),
    ]
    assert ledger.lease("job-3") is not None


def test_the_queue_shows_each_tenants_own_positions(ledger, holding, new_job):
    for name, tenant, at in (("job-2", "a", 1), ("job-3", "b", 2), ("job-4", "a", 3)):
        new_job(name, tenant=tenant)
        ledger.enqueue(gang(name, tenant=tenant, at=at), later(at))
    assert [(one.request.job_id, one.position, one.cause) for one in ledger.queue()] == [
        ("job-2", 1, None),
        ("job-3", 1, None),
        ("job-4", 2, None),
    ]


def test_one_waiting_job_is_told_as_the_whole_queue_tells_it(ledger, holding, new_job):
    jobs = (("job-2", "a", 1, 50), ("job-3", "b", 2, 50), ("job-4", "a", 1, 50), ("job-5", "a", 9, 60))
    for name, tenant, at, priority in jobs:
        new_job(name, tenant=tenant)
        ledger.enqueue(gang(name, 1, 4, tenant=tenant, at=at, priority=priority), later(at))
    run_pass(ledger, 10)
    assert [one.position for one in ledger.queue()] == [1, 2, 3, 1]
    assert [ledger.queued(one.request.job_id) for one in ledger.queue()] == ledger.queue()
    assert ledger.queued("job-1") is None, "it holds its places"


def test_an_attempt_runs_under_a_live_lease_alone(ledger, holding):
    with pytest.raises(LeaseLost, match="does not hold lease"):
        ledger.begin_attempt("job-1", holding.epoch + 7, 2, 20_000, None, later(2))
    first = ledger.begin_attempt("job-1", holding.epoch, 2, 20_000, 3, later(2))
    assert (first.number, first.restored_generation, first.pods) == (1, 3, {})
    assert ledger.begin_attempt("job-1", holding.epoch, 2, 20_000, 3, later(9)) == first
    ledger.release_lease("job-1", holding.epoch, "lost", later(3))
    ledger.enqueue(gang("job-1", 2, 2), later(3))
    run_pass(ledger, 4)
    with pytest.raises(LeaseLost, match="still open under lease"):
        ledger.begin_attempt("job-1", ledger.lease("job-1").epoch, 2, 20_000, None, later(5))


def test_the_wait_for_places_is_over_before_the_clock_of_an_attempts_start_begins(ledger, holding, new_job):
    """Pitfall 15: waiting for capacity counts against the start-up time-out."""
    new_job("job-2")
    ledger.enqueue(gang("job-2", 1, 4), later(2))
    assert isinstance(run_pass(ledger, 3)["job-2"], Wait)
    with pytest.raises(LeaseLost):
        ledger.begin_attempt("job-2", 1, 1, 20_000, None, later(4))
    ledger.release_lease("job-1", holding.epoch, "done", later(3_000))
    run_pass(ledger, 3_001)
    lease = ledger.lease("job-2")
    attempt = ledger.begin_attempt("job-2", lease.epoch, 1, 20_000, None, later(3_002))
    assert (lease.granted_at, attempt.started_at) == (later(3_001), later(3_002))


def test_attempts_count_up_and_keep_their_pods_and_first_end(ledger, holding, new_job):
    ledger.begin_attempt("job-1", holding.epoch, 2, 20_000, None, later(2))
    ledger.record_pods("job-1", 1, {0: ("p0", "u0", "n1")})
    ledger.record_pods("job-1", 1, {0: ("p0", "u0", "n1"), 1: ("p1", "u1", None)})
    assert ledger.open_attempt("job-1").pods == {
        0: {"pod": "p0", "uid": "u0", "node": "n1"},
        1: {"pod": "p1", "uid": "u1", "node": None},
    }
    assert ledger.end_attempt("job-1", 1, "failed", {"class": "oom"}, later(3)) is True
    assert ledger.end_attempt("job-1", 1, "succeeded", None, later(4)) is False
    assert ledger.open_attempt("job-1") is None
    assert ledger.begin_attempt("job-1", holding.epoch, 2, 20_000, None, later(5)).number == 2
    first, _ = ledger.attempts("job-1")
    assert (first.outcome, first.failure, first.ended_at) == ("failed", {"class": "oom"}, later(3))


def test_the_restart_budget_is_stored_with_the_job_and_counts_this_incarnation(ledger, holding):
    """Pitfall 36: nothing but a resume by a person resets it."""
    for number, cls in enumerate(("oom", "node_lost", "oom"), start=1):
        ledger.begin_attempt("job-1", holding.epoch, 2, 20_000, None, later(number))
        ledger.end_attempt("job-1", number, "failed", {"class": cls}, later(number))
    ledger.begin_attempt("job-1", holding.epoch, 2, 20_000, None, later(8))
    ledger.end_attempt("job-1", 4, "stopped", None, later(8))
    assert ledger.failure_counts("job-1") == {"oom": 2, "node_lost": 1}
    ledger.transition("job-1", JobState.FAILED, now=later(9))
    ledger.resume_job("job-1", later(9))
    assert ledger.failure_counts("job-1") == {}
    assert ledger.begin_attempt("job-1", holding.epoch, 2, 20_000, None, later(10)).resume_count == 1


def test_a_job_with_a_live_lease_is_not_deleted(ledger, holding):
    ledger.transition("job-1", JobState.HALTED, now=later(2))
    with pytest.raises(Refused, match="may hold GPUs"):
        ledger.delete_job("job-1", "ann", later(9))
