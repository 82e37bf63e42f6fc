"""What is held is what lives."""

from __future__ import annotations

from datetime import timedelta

from ffdl_ops.core.scheduling.reconcile import Correction, HeldLease, LivingPod, Standing, What, corrections
from tests.support.gangs import later

PATIENCE = timedelta(seconds=60)
RUNS = Standing(False, later(0))
OVER = Standing(True, later(0))
LEASE = HeldLease("j", 7, later(0))
POD = LivingPod("j", "ns/j-a1-l0", later(0))


def found(leases=(), pods=(), queued=(), jobs=None, at: float = 100) -> list[tuple[What, str]]:
    """What is to be done for which job, at so many seconds."""
    return [(one.what, one.job_id) for one in corrections(leases, pods, queued, jobs or {}, later(at), PATIENCE)]


def test_a_job_that_runs_under_its_lease_is_left_alone():
    assert found([LEASE], [POD], ["q"], {"j": RUNS, "q": RUNS}) == []
    assert found([LEASE], [], [], {"j": RUNS}) == [], "its pods may be about to be created"


def test_a_lease_of_a_job_that_has_ended_is_given_back_once_nothing_of_it_lives():
    assert found([LEASE], [], [], {"j": OVER}) == [(What.RELEASE, "j")]
    assert found([LEASE], [POD], [], {"j": OVER}) == [(What.STOP, "j")], "first its pods go; the GPU is held until then"


def test_pods_that_hold_gpus_without_a_lease_are_stopped():
    assert found([], [POD], [], {"j": RUNS}) == [(What.STOP, "j")]
    assert found([], [POD], [], {}) == [(What.STOP, "j")], "nobody knows the job"


def test_what_is_young_may_be_put_right_by_its_own_stage():
    assert found([LEASE], [], [], {"j": Standing(True, later(80))}) == []
    assert found([], [POD], [], {"j": RUNS}, at=30) == []


def test_a_job_that_was_told_to_stop_and_was_not_is_stopped():
    told = HeldLease("j", 7, later(0), preempted_at=later(10))
    assert found([told], [POD], [], {"j": RUNS}) == [(What.STOP, "j")]
    assert found([told], [POD], [], {"j": RUNS}, at=60) == []


def test_a_job_that_has_ended_waits_no_more():
    assert found([], [], ["j"], {"j": OVER}) == [(What.DEQUEUE, "j")]


def test_each_correction_says_what_was_found():
    (one,) = corrections([LEASE], [], [], {"j": OVER}, later(100), PATIENCE)
    words = "lease 7 was held though the job has ended and nothing of it lives"
    assert one == Correction(What.RELEASE, "j", words, 7)
