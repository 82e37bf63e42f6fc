"""FfDL's regex groups: macros, references, several lines, and patterns that would run for ever."""

from __future__ import annotations

import os
import re
import time
from typing import Any

import pytest

from ffdl_ops.adapters.tracking.matcher import Matcher
from ffdl_ops.adapters.tracking.metrics import MetricExtractor, Point
from ffdl_ops.adapters.tracking.patterns import MACROS, expand
from ffdl_ops.core.errors import UserError

STAMP = "2026-01-02T03:04:05.678901Z"
STAMP_MS = 1767323045679


def spec(**changes: Any) -> dict[str, Any]:
    group: dict[str, Any] = {
        "regex": r"iteration {{INT:iteration}}, loss = {{FLOAT:loss}}",
        "scalars": {"loss": {"type": "FLOAT", "value": "$loss"}},
        "etimes": {"iteration": {"type": "INT", "value": "$iteration"}},
    }
    return {"type": "regex_extractor", "groups": {"train": {**group, **changes}}}


def feed(extractor: MetricExtractor, *texts: str, learner: int = 1) -> list[Point]:
    return [one for text in texts for one in extractor.feed(f"{STAMP} [learner {learner}] {text}")]


def test_a_group_gives_its_scalars_at_its_iteration() -> None:
    points = feed(MetricExtractor(spec()), "noise", "iteration 3, loss = 1.5e-2", "step=4 accuracy=5")
    assert points == [Point("loss", 0.015, 3, STAMP_MS)]


def test_ffdls_older_spelling_works_alike() -> None:
    older = spec(regex=r"iteration %{INT:iteration}, loss = %{FLOAT:loss}")
    older["groups"]["train"]["values"] = older["groups"]["train"].pop("scalars")
    assert feed(MetricExtractor(older), "iteration 3, loss = 2") == [Point("loss", 2.0, 3, STAMP_MS)]


def test_a_pattern_may_span_lines_and_what_matched_is_used_up() -> None:
    extractor = MetricExtractor(spec(regex=r"iteration {{INT:iteration}}.*loss = {{FLOAT:loss}}"))
    points = feed(extractor, "iteration 3", "some", "loss = 2", "loss = 9", "iteration 4", "loss = 1")
    assert [(one.step, one.value) for one in points] == [(3, 2.0), (4, 1.0)]


def test_lines_further_apart_than_the_lookahead_do_not_match() -> None:
    extractor = MetricExtractor(
        spec(regex=r"iteration {{INT:iteration}}.*loss = {{FLOAT:loss}}") | {"line_lookahead": 2}
    )
    assert feed(extractor, "iteration 3", "some", "loss = 2") == []


def test_the_time_may_be_what_matched() -> None:
    regex = r"{{TIMESTAMP:when}} iteration {{INT:iteration}}, loss = {{FLOAT:loss}}"
    extractor = MetricExtractor(spec(regex=regex, meta={"time": "$when"}))
    points = feed(extractor, "1970-01-01 00:00:05,5 iteration 3, loss = 2")
    assert points == [Point("loss", 2.0, 3, 5500)]


def test_a_subid_takes_every_learner_and_tells_them_apart() -> None:
    """FfDL's own way: a literal names the learner, a reference what matched."""
    line = "iteration 3, loss = 2"
    literal = MetricExtractor(spec(meta={"subid": "all"}))
    keys = [feed(literal, line, learner=number)[0].key for number in (1, 2)]
    assert keys == ["loss.learner-1", "loss.learner-2"]
    regex = r"(?P<who>\w+) iteration {{INT:iteration}}, loss = {{FLOAT:loss}}"
    matched = MetricExtractor(spec(regex=regex, meta={"subid": "$who"}))
    assert feed(matched, f"ps0 {line}", learner=2)[0].key == "loss.ps0"


def test_without_a_subid_only_the_first_learner_counts() -> None:
    assert feed(MetricExtractor(spec()), "iteration 3, loss = 2", learner=2) == []


@pytest.mark.parametrize(
    ("macro", "text"),
    [
        ("INT", "-12"),
        ("FLOAT", "1.5e-7"),
        ("FLOAT", ".5"),
        ("FLOAT", "nan"),
        ("HEX", "0xFFab"),
        ("INT_ANY", "0x1f"),
        ("TIMESTAMP", "2026-01-02T03:04:05.678Z"),
        ("GLOG_STAMP", "I0102 03:04:05.678901"),
    ],
)
def test_a_macro_takes_all_of_its_kind(macro: str, text: str) -> None:
    found = re.search(expand("{{" + macro + ":it}}"), f"x {text} y")
    assert found is not None
    assert found["it"] == text


def test_an_unknown_macro_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"groups\.train\.regex.*FLOTE.*" + "FLOAT"):
        MetricExtractor(spec(regex="{{FLOTE}}"))
    assert "FLOAT" in MACROS


def test_the_macros_are_those_that_manifests_may_use() -> None:
    from ffdl_ops.core.jobs.metrics import MACRO_NAMES

    assert set(MACROS) == set(MACRO_NAMES)


def test_a_manifests_section_is_taken_as_the_manifest_gives_it() -> None:
    from ffdl_ops.core.jobs.metrics import EvaluationMetrics

    section = EvaluationMetrics.model_validate(spec()).model_dump(mode="json", by_alias=True)
    assert feed(MetricExtractor(section), "iteration 3, loss = 2") == [Point("loss", 2.0, 3, STAMP_MS)]


@pytest.mark.parametrize("regex", ["", "x" * 5000])
def test_a_pattern_of_impossible_length_is_refused(regex: str) -> None:
    with pytest.raises(UserError, match=r"groups\.train\.regex"):
        MetricExtractor(spec(regex=regex))


def test_a_broken_pattern_is_named() -> None:
    extractor = MetricExtractor(spec(regex="(unclosed"))
    with pytest.raises(UserError, match=r"groups\.train\.regex: missing \)"):
        feed(extractor, "x")


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|a)*$", r"(?:.*.*.*.*.*)=x", r"(a|aa)+\1$"])
def test_a_pattern_that_runs_for_ever_is_switched_off_and_reported(pattern: str) -> None:
    matcher = Matcher({"slow": pattern, "good": r"a(?P<b>b)"}, limit_s=0.2)
    hostile = "a" * 2000 + "b"
    began = time.monotonic()
    for _ in range(5):
        assert matcher.search("slow", hostile) is None
    assert time.monotonic() - began < 5.0
    assert len(matcher.problems) == 1
    assert "groups.slow.regex" in matcher.problems[0]
    assert matcher.search("good", "ab") == {"1": "b", "b": "b"}
    matcher.close()


def test_other_threads_go_on_while_a_pattern_runs() -> None:
    """The reason for a child process: `re` would hold the interpreter's lock for all of a match."""
    import threading

    matcher = Matcher({"slow": r"(a+)+$"}, limit_s=0.5)
    worker = threading.Thread(target=matcher.search, args=("slow", "a" * 2000 + "b"))
    worker.start()
    turns = 0
    while worker.is_alive():
        turns += 1
        time.sleep(0.005)
    assert turns > 20
    matcher.close()


def test_the_child_ends_with_its_matcher() -> None:
    matcher = Matcher({"x": "x"})
    matcher.search("x", "x")
    child = matcher._child
    assert child is not None
    os.kill(child.pid, 0)
    del matcher
    assert child.poll() is not None


def test_a_child_that_died_is_replaced() -> None:
    matcher = Matcher({"x": "x"})
    matcher.search("x", "x")
    child = matcher._child
    assert child is not None
    child.kill()
    child.wait()
    matcher.search("x", "x")
    assert matcher.search("x", "x") == {}
    assert matcher.problems == []
    matcher.close()
