"""What a run says, and which points are written: the rules that need no server."""

from __future__ import annotations

import math

import pytest

from ffdl_ops.adapters.tracking import record
from ffdl_ops.adapters.tracking.points import MAX_KEYS, Point, clean_key, wire_value
from ffdl_ops.adapters.tracking.runs import JobFacts, RunRef, RunView


def view(tags: dict[str, str] | None = None, *latest: Point) -> RunView:
    return RunView(RunRef("1", "r"), "RUNNING", tags or {}, {}, {one.key: one for one in latest})


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("loss", "loss"),
        ("val/top-1 acc", "val/top-1 acc"),
        ("a@b!c", "a_b_c"),
        ("/abs/../path//x/", "abs/path/x"),
        ("..", None),
        ("", None),
        ("///", None),
        ("é", None),
        ("ffdl.seconds.admit", "user.ffdl.seconds.admit"),
        ("x" * 500, "x" * 120),
    ],
)
def test_keys_are_made_fit_for_the_record(key: str, expected: str | None) -> None:
    assert clean_key(key) == expected


def test_values_that_json_has_not_are_written_as_the_record_wants_them() -> None:
    assert wire_value(math.nan) == "NaN"
    assert wire_value(math.inf) == -float(wire_value(-math.inf)) > 1e308


def test_a_run_keeps_so_many_metrics_and_no_more() -> None:
    """Pitfall 43: thousands of columns make the comparison unusable."""
    points = [Point(f"k{number}", 1.0, 1, 1) for number in range(MAX_KEYS + 50)]
    kept, refused = record.admitted(points, view(None, Point("old", 1.0, 1, 1), Point("ffdl.seconds.x", 1.0, 0, 1)))
    assert len(kept) == MAX_KEYS - 1
    assert len(refused) == 51
    assert str(MAX_KEYS) in record.dropped_message(refused)


def test_the_same_point_twice_is_one() -> None:
    point = Point("loss", 0.5, 1, 1)
    assert record.admitted([point, point], view())[0] == [point]


def test_steps_of_an_earlier_attempt_are_not_written_again() -> None:
    """Pitfall 39: after a restart from a checkpoint the steps since then are trained, and printed, again."""
    before = record.logged_steps({"loss": Point("loss", 1.0, 45, 9), "acc": Point("acc", 1.0, 0, 9)})
    marked = view({"ffdl.attempts": "2", record.logged_tag(2): before})
    points = [Point("loss", 0.5, step, 100 + step) for step in (31, 45, 46)] + [Point("acc", 1.0, 0, 100)]
    kept, _ = record.admitted(points, marked)
    assert [(one.key, one.step) for one in kept] == [("loss", 46), ("acc", 0)]


def test_how_far_many_metrics_had_come_still_fits_a_tag() -> None:
    latest = {f"{'k' * 100}{number}": Point(f"{'k' * 100}{number}", 1.0, number, 1) for number in range(200)}
    text = record.logged_steps(latest)
    assert len(text) <= 8000
    marked = view({"ffdl.attempts": "3", record.logged_tag(3): text})
    kept, _ = record.admitted([Point("other", 1.0, 199, 1), Point("other", 1.0, 200, 1)], marked)
    assert [one.step for one in kept] == [200]


def test_a_spoiled_mark_hides_no_metric() -> None:
    marked = view({"ffdl.attempts": "2", record.logged_tag(2): "{not json"})
    assert len(record.admitted([Point("loss", 1.0, 1, 1)], marked)[0]) == 1


def test_a_run_is_named_after_its_job() -> None:
    assert record.run_name("digits", "job-0123456789") == "digits-012345"
    assert len(record.run_name("x" * 900, "job-0123456789")) <= 250


def test_a_users_tags_cannot_take_the_place_of_the_platforms() -> None:
    job = JobFacts("job-1", "team-a", "n", "pytorch", 1, 0, tags={"ffdl.job_id": "job-2", "mine": "x"})
    tags = record.job_tags(job)
    assert (tags["ffdl.job_id"], tags["mine"], tags["ffdl.model"]) == ("job-1", "x", "n")
    assert "ffdl.gpu_type" not in tags
