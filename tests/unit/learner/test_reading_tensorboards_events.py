"""Event files become metric events, whatever else lies beside them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ffdl_ops.pod.learner.emetrics import metrics_place_of
from ffdl_ops.pod.learner.tfevents import EventFiles, scalars_of

PROGRAM = """
import sys
import tensorflow as tf
v1 = tf.compat.v1
# As PyTorch's SummaryWriter and TensorFlow's first version write.
with tf.Graph().as_default():
    writer = v1.summary.FileWriter(sys.argv[1] + "/simple")
    for step in range(3):
        value = v1.Summary.Value(tag="loss", simple_value=1 / (step + 1))
        writer.add_event(v1.Event(wall_time=2000.5 + step, step=step, summary=v1.Summary(value=[value])))
    writer.close()
# As TensorFlow's second version does.
scalar = v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"})
with tf.summary.create_file_writer(sys.argv[1] + "/tensors/train").as_default():
    for step in range(3):
        tf.summary.write("loss", tf.constant(1 / (step + 1)), step=step, metadata=scalar)
        tf.summary.write("rate", tf.constant(0.25, tf.float64), step=step, metadata=scalar)
    tf.summary.write("note", tf.constant("hello"), step=1)
    tf.summary.write("weights", tf.constant([1.0, 2.0]), step=1)
"""
LOSS = [(0, 1.0), (1, 0.5), (2, 0.3333)]
RATE = [(0, 0.25), (1, 0.25), (2, 0.25)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories with event files that TensorFlow has written."""
    directory = tmp_path_factory.mktemp("events")
    subprocess.run([sys.executable, "-c", PROGRAM, str(directory)], check=True, capture_output=True, timeout=300)
    return directory


def series(events: list[dict[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for one in events:
        found.setdefault(one["key"], []).append((one["step"], round(one["value"], 4)))
    return found


@pytest.mark.parametrize(
    ("kind", "scalars"), [("simple", {"loss": LOSS}), ("tensors", {"train/loss": LOSS, "train/rate": RATE})]
)
def test_scalars_of_both_kinds_are_read_once_and_nothing_else_is(
    written: Path, tmp_path: Path, kind: str, scalars: dict[str, list[tuple[int, float]]]
) -> None:
    reader = EventFiles(str(tmp_path))
    shutil.copytree(written / kind, tmp_path, dirs_exist_ok=True)
    events = reader.news()
    assert series(events) == scalars
    assert all(one["time"] > 1000 for one in events)
    assert reader.news() == []
    assert EventFiles(str(tmp_path)).news() == []


def test_a_record_that_is_half_written_is_read_when_it_is_whole(written: Path, tmp_path: Path) -> None:
    content = next((written / "simple").iterdir()).read_bytes()
    growing = tmp_path / "events.out.tfevents.1"
    reader = EventFiles(str(tmp_path))
    events: list[dict[str, Any]] = []
    for end in range(0, len(content) + 7, 7):
        growing.write_bytes(content[:end])
        events += reader.news()
    assert series(events) == {"loss": LOSS}


def test_what_is_no_event_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "noise.tfevents").write_bytes(b"\xff" * 100)
    (tmp_path / "wrong.tfevents").write_bytes((3).to_bytes(8, "little") + b"0000" + b"\x0f\xff\xff" + b"0000")
    (tmp_path / "link.tfevents").symlink_to("/proc/self/environ")
    (tmp_path / "folder.tfevents").mkdir()
    reader = EventFiles(str(tmp_path / "absent"))
    assert reader.news() == []
    reader = EventFiles(str(tmp_path))
    (tmp_path / "later.tfevents").write_bytes(b"\xff" * 100)
    assert reader.news() == []
    with pytest.raises(ValueError, match="cut off"):
        scalars_of(b"\x2a\x7f")


def test_the_directory_is_the_manifests_or_below_the_logs(tmp_path: Path) -> None:
    env = {"LOG_DIR": "/logs", "FFDL_METRICS_SPEC": json.dumps({"type": "tensorboard"})}
    assert metrics_place_of(env, "tensorboard") == "/logs/tensorboard"
    assert metrics_place_of(env, "emetrics_file") is None
    env["FFDL_METRICS_SPEC"] = json.dumps({"type": "tensorboard", "in": "$LOG_DIR/tb"})
    assert metrics_place_of(env, "tensorboard") == "/logs/tb"
