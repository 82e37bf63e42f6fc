"""What else is kept of a job: checkpoints, the stages' times, how far its readers have come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ffdl_ops.adapters.ledger import CheckpointRecord, NotInLedger, Refused
from ffdl_ops.core.jobs.states import JobState
from tests.support.gangs import later


@pytest.fixture(autouse=True)
def _job(new_job):
    new_job()


def generation(number, *, complete=True, promoted=False):
    return CheckpointRecord(number, 1, 10 * number, 1000, 2, complete, promoted, later(number))


def test_a_partial_checkpoint_is_never_promoted(ledger):
    ledger.record_checkpoint("job-1", generation(1, complete=False))
    with pytest.raises(Refused, match="not complete"):
        ledger.promote_checkpoint("job-1", 1)
    with pytest.raises(NotInLedger, match="generation 2"):
        ledger.promote_checkpoint("job-1", 2)
    assert not ledger.checkpoints("job-1")[0].promoted


def test_one_generation_is_promoted_and_a_late_call_does_not_go_back(ledger):
    for number in (1, 2):
        ledger.record_checkpoint("job-1", generation(number))
    assert ledger.promote_checkpoint("job-1", 1) is True
    assert ledger.promote_checkpoint("job-1", 2) is True
    assert ledger.promote_checkpoint("job-1", 2) is True
    assert ledger.promote_checkpoint("job-1", 1) is False
    assert [one.promoted for one in ledger.checkpoints("job-1")] == [False, True]
    assert ledger.forget_checkpoint("job-1", 2) is True
    assert ledger.promote_checkpoint("job-1", 1) is True, "what is gone from the store stands in nobody's way"


def test_a_generation_told_again_grows_and_stays_complete_and_promoted(ledger):
    ledger.record_checkpoint("job-1", replace(generation(1, complete=False), files=1, bytes=500))
    ledger.record_checkpoint("job-1", generation(1))
    ledger.promote_checkpoint("job-1", 1)
    ledger.record_checkpoint("job-1", replace(generation(1, complete=False), files=1, bytes=500))
    ledger.record_checkpoint("job-1", generation(1))
    assert ledger.checkpoints("job-1") == [generation(1, promoted=True)]


def test_a_record_that_says_promoted_is_promoted(ledger):
    ledger.record_checkpoint("job-1", generation(1, promoted=True))
    ledger.record_checkpoint("job-1", generation(2, promoted=True))
    assert [one.promoted for one in ledger.checkpoints("job-1")] == [False, True]


def test_a_forgotten_generation_is_gone(ledger):
    ledger.record_checkpoint("job-1", generation(1))
    assert ledger.forget_checkpoint("job-1", 1) is True
    assert ledger.forget_checkpoint("job-1", 1) is False
    assert ledger.checkpoints("job-1") == []


def test_a_stage_that_comes_back_from_waiting_runs_on(ledger):
    assert ledger.stage_started("job-1", "admit", later(0), 1) is True
    assert ledger.stage_started("job-1", "admit", later(30), 1) is False
    assert ledger.stage_ended("job-1", "admit", later(40), "success") is True
    assert ledger.stage_ended("job-1", "admit", later(50), "failed") is False
    assert ledger.stage_seconds("job-1") == {"admit": 40.0}
    assert [(one.try_number, one.outcome) for one in ledger.stages("job-1")] == [(1, "success")]


def test_a_try_whose_worker_was_lost_ends_where_the_next_begins(ledger):
    ledger.stage_started("job-1", "learners", later(0), 1)
    assert ledger.stage_started("job-1", "learners", later(10), 2) is True
    assert ledger.stage_started("job-1", "learners", later(11), 1) is False, "a late message of the first try"
    ledger.stage_ended("job-1", "learners", later(15), "success")
    assert [(one.try_number, one.outcome) for one in ledger.stages("job-1")] == [(1, "lost"), (2, "success")]
    assert ledger.stage_seconds("job-1") == {"learners": 15.0}


def test_what_was_stopped_takes_no_longer_than_until_then(ledger):
    for stage in ("learners", "monitor", "release"):
        ledger.stage_started("job-1", stage, later(0), 1)
    ledger.stage_ended("job-1", "release", later(5), "success")
    assert ledger.stages_stopped("job-1", {"monitor"}, later(10)) == ["learners"]
    assert ledger.stages_stopped("job-1", set(), later(12)) == ["monitor"]
    assert ledger.stages_stopped("job-1", set(), later(20)) == []
    assert [one.outcome for one in ledger.stages("job-1")] == ["stopped", "stopped", "success"]
    assert ledger.stage_started("job-1", "learners", later(5000), 2) is True, "resumed after a long time"
    ledger.stage_ended("job-1", "learners", later(5003), "success")
    assert ledger.stage_seconds("job-1") == {"learners": 13.0, "monitor": 12.0, "release": 5.0}


def test_stages_run_again_after_a_resume_and_are_told_apart(ledger):
    ledger.stage_started("job-1", "plan", later(0), 3)
    ledger.transition("job-1", JobState.FAILED, now=later(1))
    ledger.resume_job("job-1", later(2))
    assert ledger.stage_started("job-1", "plan", later(3), 1) is True
    assert [(one.resume_count, one.outcome) for one in ledger.stages("job-1")] == [(0, "lost"), (1, None)]


def test_one_follower_at_a_time_and_the_next_after_its_time_is_over(ledger):
    """Pitfall 40: one writer per run."""
    first = ledger.claim_follower("job-1", "one", later(0), 15)
    assert first is not None
    assert ledger.claim_follower("job-1", "two", later(14), 15) is None
    assert ledger.claim_follower("job-1", "one", later(14), 15) == first, "it goes on under its epoch"
    assert ledger.claim_follower("job-1", "two", later(28), 15) is None
    second = ledger.claim_follower("job-1", "two", later(29), 15)
    assert second is not None
    assert second > first
    assert ledger.claim_follower("job-1", "one", later(30), 15) is None


def test_a_follower_that_lost_its_place_saves_nothing(ledger):
    first = ledger.claim_follower("job-1", "one", later(0), 1)
    assert ledger.save_cursor("job-1", "metrics", {"at": 1}, first) is True
    second = ledger.claim_follower("job-1", "two", later(2), 1)
    assert ledger.save_cursor("job-1", "metrics", {"at": 99}, first) is False, "also before the second has saved"
    assert ledger.save_cursor("job-1", "metrics", {"at": 2}, second) is True
    assert ledger.cursor("job-1", "metrics") == {"at": 2}


def test_a_mark_that_belongs_to_no_follower_is_saved_by_anyone(ledger):
    assert ledger.cursor("job-1", "done:store") is None
    ledger.claim_follower("job-1", "one", later(0), 15)
    assert ledger.save_cursor("job-1", "done:store", {"attempt": 1}, 0) is True
    assert ledger.save_cursor("job-1", "done:store", {"attempt": 2}, 0) is True
    assert ledger.cursor("job-1", "done:store") == {"attempt": 2}


def test_a_followers_cursor_is_not_overwritten_by_what_has_no_epoch(ledger):
    epoch = ledger.claim_follower("job-1", "one", later(0), 15)
    ledger.save_cursor("job-1", "metrics", {"at": 5}, epoch)
    assert ledger.save_cursor("job-1", "metrics", {}, 0) is False
    assert ledger.cursor("job-1", "metrics") == {"at": 5}
