"""Whatever a person's clear left out that the job still needs is cleared too."""

from __future__ import annotations

from ffdl_ops.pipeline.reopening import FINISHING, TRAINING, to_clear

ALL = (*TRAINING, *FINISHING)
HALTED_IN_LEARNERS: dict[str, str | None] = {
    **dict.fromkeys(TRAINING, "success"),
    **dict.fromkeys(FINISHING, "success"),
    "learners": "failed",
    "monitor": "failed",
    "conclude": "failed",
}


def test_only_failed_after_a_halt_in_learners_adds_the_teardowns() -> None:
    states = {**HALTED_IN_LEARNERS, "learners": None, "monitor": None, "conclude": None}
    assert to_clear(states, trained=False, current="learners") == ["release", "checkpoint", "store_results"]


def test_only_failed_after_a_halt_before_admission_adds_the_skipped_stages() -> None:
    skipped = dict.fromkeys(("admit", "preflight", "learners", "monitor"), "skipped")
    states = {**HALTED_IN_LEARNERS, **skipped, "fetch_data": None, "conclude": "running"}
    added = to_clear(states, trained=False, current="conclude")
    assert added == ["admit", "preflight", "learners", "monitor", "release", "checkpoint", "store_results"]


def test_one_teardown_alone_brings_the_training_back() -> None:
    states = {**HALTED_IN_LEARNERS, "store_results": "running"}
    added = to_clear(states, trained=False, current="store_results")
    assert set(added) == {"learners", "monitor", "release", "checkpoint", "conclude"}


def test_a_job_that_has_trained_only_concludes_again() -> None:
    states = {**dict.fromkeys(ALL, "success"), "store_results": "running"}
    assert to_clear(states, trained=True, current="store_results") == ["conclude"]


def test_what_runs_anyway_is_never_cleared_again() -> None:
    states: dict[str, str | None] = dict.fromkeys(ALL)
    assert to_clear(states, trained=False, current="plan") == []
