"""The launcher's lines, and what is none of them."""

from __future__ import annotations

import pytest

from ffdl_ops.adapters.tracking.lines import MAX_TEXT, parse_line, stamp_ms

STAMP = "2026-01-02T03:04:05.678901Z"
STAMP_MS = 1767323045679


def test_a_line_gives_time_learner_and_text() -> None:
    line = parse_line(f"{STAMP} [learner 3] loss=0.5 [learner 9]")
    assert line is not None
    assert (line.timestamp_ms, line.learner, line.text, line.event) == (STAMP_MS, 3, "loss=0.5 [learner 9]", None)


def test_a_structured_line_gives_event_and_payload() -> None:
    line = parse_line(f'{STAMP} [learner 1] ffdl:progress {{"step": 7}}')
    assert line is not None
    assert (line.event, line.payload) == ("progress", {"step": 7})


@pytest.mark.parametrize("text", ["ffdl:progress {broken", "ffdl:progress [1]", "ffdl:progress " + "[" * 3000, "ffdl:"])
def test_a_broken_structured_line_is_plain_text(text: str) -> None:
    line = parse_line(f"{STAMP} [learner 1] {text}")
    assert line is not None
    assert line.event is None


@pytest.mark.parametrize(
    "line",
    ["", "loss=0.5", "[learner 1] x", f"{STAMP} x", "2026-13-40T99:04:05Z [learner 1] x", f"{STAMP} [learner x] y"],
)
def test_anything_else_is_no_line(line: str) -> None:
    assert parse_line(line) is None


def test_a_long_line_is_cut() -> None:
    line = parse_line(f"{STAMP} [learner 1] " + "x" * 100_000)
    assert line is not None
    assert len(line.text) == MAX_TEXT


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.5, 1500),
        ("1970-01-01T00:00:02", 2000),
        ("1970-01-01T01:00:02+01:00", 2000),
        ("yesterday", None),
        (None, None),
        (True, None),
        (1e300, None),
        (-5, 0),
    ],
)
def test_moments_come_in_several_forms(value: object, expected: int | None) -> None:
    assert stamp_ms(value) == expected
