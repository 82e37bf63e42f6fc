"""A job moves forward only; a terminal state is left by a resume alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffdl_ops.core.jobs.states import TERMINAL, JobState, TransitionRefused, allowed, next_or_raise

ORDER = ["NOT_STARTED", "PENDING", "DOWNLOADING", "QUEUED", "DEPLOYING", "PROCESSING", "STORING"]
states = st.sampled_from(list(JobState))


def test_the_usual_way_is_allowed() -> None:
    way = [*ORDER, "COMPLETED"]
    assert all(allowed(JobState(a), JobState(b)) for a, b in zip(way, way[1:], strict=False))


@given(st.integers(0, 6), st.integers(0, 6))
def test_forward_may_skip_and_backward_only_a_restart_goes(frm: int, to: int) -> None:
    restart = (ORDER[frm], ORDER[to]) in {
        ("DEPLOYING", "QUEUED"),
        ("PROCESSING", "DEPLOYING"),
        ("PROCESSING", "QUEUED"),
    }
    assert allowed(JobState(ORDER[frm]), JobState(ORDER[to])) == (to >= frm or restart)


@given(st.sampled_from(sorted(TERMINAL)), states)
def test_only_a_resume_leaves_an_end(end: JobState, to: JobState) -> None:
    assert allowed(end, to) == (to in (end, JobState.RESUMED))


@given(states)
def test_a_resume_follows_an_end_only(frm: JobState) -> None:
    assert allowed(frm, JobState.RESUMED) == (frm in TERMINAL or frm is JobState.RESUMED)


@given(states)
def test_a_resumed_job_goes_on_anywhere_but_to_its_beginning(to: JobState) -> None:
    assert allowed(JobState.RESUMED, to) == (to is not JobState.NOT_STARTED)


@given(st.lists(states, max_size=30))
def test_late_messages_never_bring_an_ended_job_back(messages: list[JobState]) -> None:
    state = JobState.COMPLETED
    for message in messages:
        if message is JobState.RESUMED:
            continue
        if allowed(state, message):
            state = next_or_raise(state, message)
    assert state is JobState.COMPLETED


def test_a_refusal_says_from_where_to_where_and_why() -> None:
    with pytest.raises(TransitionRefused, match=r"STORING can't become QUEUED.*forward only") as refused:
        next_or_raise(JobState.STORING, JobState.QUEUED)
    assert (refused.value.frm, refused.value.to) == (JobState.STORING, JobState.QUEUED)
    with pytest.raises(TransitionRefused, match="only a resume"):
        next_or_raise(JobState.FAILED, JobState.PROCESSING)
