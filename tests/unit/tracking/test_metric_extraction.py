"""Which lines of a learner are metrics, with which step and time."""

from __future__ import annotations

import time

import pytest

from ffdl_ops.adapters.tracking.metrics import MetricExtractor, Point

STAMP = "2026-01-02T03:04:05.678901Z"
STAMP_MS = 1767323045679


def feed(extractor: MetricExtractor, *texts: str, learner: int = 1) -> list[Point]:
    return [one for text in texts for one in extractor.feed(f"{STAMP} [learner {learner}] {text}")]


def values(points: list[Point]) -> dict[str, tuple[float, int]]:
    return {one.key: (one.value, one.step) for one in points}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("step=30 loss=0.1 accuracy=97.2", {"loss": (0.1, 30), "accuracy": (97.2, 30)}),
        ("loss=1e-3, step=4/100, accuracy=97.2%", {"loss": (0.001, 4), "accuracy": (97.2, 4)}),
        ("epoch=2 step=30 my_own_thing=-4", {"my_own_thing": (-4.0, 30)}),
        ("epoch=2 val_accuracy=0.5", {"val_accuracy": (0.5, 2)}),
        ("Epoch 3/10 - loss: 0.25 - val_loss: 0.5 - time: 12", {"loss": (0.25, 3), "val_loss": (0.5, 3)}),
        ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.300000", {"Loss": (2.3, 1)}),
        ("{'loss': 0.5, 'learning_rate': 1e-05, 'epoch': 0.5}", {"loss": (0.5, 0), "learning_rate": (1e-05, 0)}),
        ('{"step": 12, "loss": 0.5, "anything": 3}', {"loss": (0.5, 12), "anything": (3.0, 12)}),
        ("Iteration 100, loss = 0.5", {"loss": (0.5, 100)}),
        ("batch=7 loss=0.5", {"loss": (0.5, 7)}),
        ("images_per_sec=812.5", {"images_per_sec": (812.5, 0)}),
    ],
)
def test_printed_values_are_read_with_their_step(text: str, expected: dict[str, tuple[float, int]]) -> None:
    assert values(feed(MetricExtractor(), text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "listening on port=8080 pid=33",
        "torch version=2.14.1 accuracy=unknown",
        "loss=1.2.3",
        "took time: 12 s",
        "https://host:8080/loss=0.5x",
        "no metric here",
        "step=3",
    ],
)
def test_what_is_no_metric_is_left(text: str) -> None:
    assert feed(MetricExtractor(), text) == []


def test_a_line_without_a_step_takes_the_last_one() -> None:
    extractor = MetricExtractor()
    points = feed(extractor, "step=30 loss=1", "epoch=2 val_loss=1", "accuracy=97")
    assert points[-1] == Point("accuracy", 97.0, 30, STAMP_MS)


def test_a_line_that_only_counts_gives_the_step_of_the_next() -> None:
    assert values(feed(MetricExtractor(), "Epoch 3/10", "57/57 - loss: 0.5")) == {"loss": (0.5, 3)}


def test_progress_of_the_launcher_gives_the_step() -> None:
    assert values(feed(MetricExtractor(), 'ffdl:progress {"step": 55}', "loss=0.5")) == {"loss": (0.5, 55)}


def test_points_carry_the_learners_own_time() -> None:
    """Pitfall 39: reading a log again gives the very same points, which MLflow keeps once."""
    first, again = (feed(MetricExtractor(), "step=1 loss=0.5") for _ in range(2))
    assert first == again == [Point("loss", 0.5, 1, STAMP_MS)]


def test_only_the_first_learner_reports() -> None:
    extractor = MetricExtractor()
    assert feed(extractor, "step=1 loss=0.5", 'ffdl:metric {"key": "a", "value": 1}', learner=2) == []
    assert len(feed(extractor, "step=1 loss=0.5")) == 1


def test_an_event_of_another_learner_counts_when_it_says_whose_it_is() -> None:
    event = 'ffdl:metric {"key": "a", "value": 1, "step": 2, "subid": "worker-1"}'
    assert values(feed(MetricExtractor(), event, learner=2)) == {"a.worker-1": (1.0, 2)}


def test_metric_events_count_with_their_own_time_under_every_type() -> None:
    for kind in ("logger", "emetrics_file", "tensorboard"):
        event = 'ffdl:metric {"key": "a", "value": "1.5", "step": 2, "time": "1970-01-01T00:00:01Z"}'
        assert feed(MetricExtractor({"type": kind}), event) == [Point("a", 1.5, 2, 1000)]


def test_ffdls_own_records_are_understood() -> None:
    event = (
        'ffdl:metric {"grouplabel": "train", "etimes": {"iteration": {"type": "INT", "value": "7"}},'
        ' "values": {"loss": {"type": "FLOAT", "value": "0.5"}, "note": {"type": "STRING", "value": "x"}}}'
    )
    assert feed(MetricExtractor({"type": "emetrics_file"}), event) == [Point("loss", 0.5, 7, STAMP_MS)]


def test_a_metrics_file_silences_what_is_printed() -> None:
    assert feed(MetricExtractor({"type": "emetrics_file"}), "step=1 loss=0.5") == []


def test_a_step_too_large_for_the_record_is_none() -> None:
    assert values(feed(MetricExtractor(), 'ffdl:metric {"key": "a", "value": 1, "step": 1e30}')) == {"a": (1.0, 0)}


@pytest.mark.parametrize("piece", ["a", "a=", "loss: ", "a.", "step ", "= ", "'a' ", "1", "-", '"'])
def test_hostile_lines_cost_no_more_than_others(piece: str) -> None:
    extractor = MetricExtractor()
    began = time.process_time()
    for _ in range(20):
        feed(extractor, piece * 20_000)
    assert time.process_time() - began < 1.0
