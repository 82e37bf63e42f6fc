"""What of a wait one person is told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ffdl_ops.core.jobs.states import JobState
from ffdl_ops.core.scheduling.decisions import Holder, WaitCause
from ffdl_ops.ui.story import tell
from tests.support.gangs import START
from tests.support.waiting import HOLDERS, everybody, own_tenant, queued, stored, wait

LATER = START + timedelta(minutes=5)


def story(state: JobState = JobState.QUEUED, **changes: Any) -> Any:
    """The story of vision's job that waits for what vision and speech hold, as its own people read it."""
    facts: dict[str, Any] = {"queued": queued(), "waits": [wait()], "holds": False, "may_read": own_tenant, "now": LATER}
    facts |= changes
    return tell(stored(state), facts.pop("queued"), facts.pop("waits"), **facts)


def test_another_tenants_holder_is_its_tenant_gpus_and_until_alone():
    told = story()
    speech, vision = told.holders
    assert (speech.tenant, speech.gpus, speech.until) == ("speech", 4, HOLDERS[0].until)
    assert (speech.job_id, speech.user) == (None, None)
    assert (vision.job_id, vision.user) == ("job-00000000b0", "ben")
    assert "a job of speech (4 GPU, until about 2026-01-01 14:00 UTC)" in told.message
    assert "job-00000000b0 of vision (4 GPU, ben)" in told.message
    assert "job-00000000a0" not in repr(told)
    assert "sally" not in repr(told)


def test_who_may_read_that_dag_too_is_told_its_job_and_user():
    told = story(may_read=everybody)
    assert (told.holders[0].job_id, told.holders[0].user) == ("job-00000000a0", "sally")
    assert "job-00000000a0 of speech" in told.message


def test_the_ledgers_own_sentence_is_never_passed_on():
    told = story(waits=[wait(message="Held by: job-00000000a0 of speech (4 GPU, sally).")])
    assert "sally" not in repr(told)


@pytest.mark.parametrize("cause", list(WaitCause))
def test_every_cause_has_a_sentence_and_a_meaning(cause: WaitCause):
    told = story(waits=[wait(cause=cause)])
    assert told.cause == cause.value
    assert told.meaning
    assert told.message
    assert "sally" not in repr(told)
    assert told.go_first == (cause in (WaitCause.ORDER, WaitCause.RESERVATION))


def test_a_holder_that_should_have_ended_is_overdue():
    late = wait(holders=[Holder("job-00000000b0", "vision", 4, "ben", START)])
    assert [one.overdue for one in story(waits=[late]).holders] == [True]
    assert [one.overdue for one in story().holders] == [False, False]


def test_waits_are_added_up_by_cause_the_open_one_until_now():
    first = wait(cause=WaitCause.QUOTA, until=START + timedelta(seconds=60))
    second = wait(cause=WaitCause.CAPACITY, at=START + timedelta(seconds=60))
    told = story(waits=[first, second])
    assert told.seconds_by_cause == {"quota": 60.0, "capacity": 240.0}
    assert told.waited_s == 300.0
    assert [(one.cause, one.seconds) for one in told.intervals] == [("quota", 60.0), ("capacity", 240.0)]


@pytest.mark.parametrize(
    ("state", "in_queue", "holds", "phase", "moving"),
    [
        (JobState.DOWNLOADING, False, False, "not_yet", True),
        (JobState.QUEUED, True, False, "waits", True),
        (JobState.QUEUED, False, True, "granted", True),
        (JobState.QUEUED, False, False, "not_yet", True),
        (JobState.RESUMED, False, False, "not_yet", True),
        (JobState.DEPLOYING, False, True, "runs", False),
        (JobState.PROCESSING, False, True, "runs", False),
        (JobState.PROCESSING, True, False, "waits", True),
        (JobState.STORING, False, False, "stores", False),
        (JobState.COMPLETED, False, False, "ended", False),
        (JobState.HALTED, False, False, "ended", False),
    ],
)
def test_it_is_looked_at_again_while_that_may_show_something_new(
    state: JobState, in_queue: bool, holds: bool, phase: str, moving: bool
):
    told = story(state, queued=queued() if in_queue else None, holds=holds)
    assert told.phase == phase
    assert (told.refresh_s is not None) == moving


def test_a_wait_that_is_over_is_no_present_cause():
    told = story(JobState.PROCESSING, queued=None, waits=[wait(until=LATER)], holds=True)
    assert (told.cause, told.message, told.position, told.holders) == (None, None, None, ())


def test_before_the_first_pass_there_is_no_cause():
    told = story(waits=[])
    assert (told.phase, told.cause, told.position) == ("waits", None, 2)
