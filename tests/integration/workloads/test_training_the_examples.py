"""The digits examples learn, alone and as a gang of two; stopped or crashed, they go on at the very step."""

from __future__ import annotations

import json
import re
import time
import zipfile

import pytest

from tests.unit.learner.pods import Job, Learner, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

FRAMEWORKS = ("pytorch", "tensorflow")
STEPS_PER_EPOCH = 22


def gang(job: Job, framework: str, learners: int, flags: str = "", attempt: int = 1) -> list[Learner]:
    command, port = f"python3 digits_{framework}.py {flags}", str(free_port())
    return [
        job.start(command, rank=rank, learners=learners, attempt=attempt, FFDL_BASE_PORT=port)
        for rank in range(learners)
    ]


def ends(learners: list[Learner]) -> list[int]:
    return [learner.wait(200) for learner in learners]


def resumed_at(learner: Learner) -> int:
    return next(int(found[1]) for line in learner.lines if (found := re.match(r"resumed from .* at step=(\d+)", line)))


def steps(learner: Learner) -> list[int]:
    return [int(found[1]) for line in learner.lines if (found := re.match(r"step=(\d+) epoch=", line))]


@pytest.mark.parametrize("learners", [1, 2])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_example_learns_to_tell_digits_in_under_a_minute(job: Job, framework: str, learners: int) -> None:
    started = time.monotonic()
    running = gang(job, framework, learners)
    assert ends(running) == [0] * learners
    took = time.monotonic() - started
    metrics = json.loads((job.root / "results/metrics.json").read_text())
    assert metrics["test_accuracy"] >= 95
    assert metrics["learners"] == learners
    assert running[0].lines[-1] == f"step={metrics['steps']} test_accuracy={metrics['test_accuracy']:.2f}"
    assert all(re.search(r"loss=\d+\.\d+ accuracy=\d+\.\d+$", line) for line in running[0].lines if "epoch=" in line)
    for other in running[1:]:
        assert steps(other) == []
    model = job.root / "results" / ("model.pt" if framework == "pytorch" else "model.weights.h5")
    assert zipfile.is_zipfile(model) if framework == "pytorch" else model.read_bytes()[:4] == b"\x89HDF"
    assert took < 60


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_gang_that_is_stopped_saves_and_goes_on_at_the_very_step(job: Job, framework: str) -> None:
    first = gang(job, framework, 2, "--epochs 500 --sleep-per-step 0.02")
    first[0].wait_line("epoch=1 ", within_s=120)
    for learner in first:
        learner.stop()
    assert ends(first) == [143, 143]
    saved = {line for learner in first for line in learner.lines if line.startswith("stopped and saved")}
    assert len(saved) == 1, "all learners stop at one step"
    stopped_at = int(saved.pop().rpartition("=")[2])
    assert [learner.report["killed_after_grace"] for learner in first] == [False, False]
    last_epoch = stopped_at // STEPS_PER_EPOCH + 2
    second = gang(job, framework, 2, f"--epochs {last_epoch}", attempt=2)
    assert ends(second) == [0, 0]
    assert [resumed_at(learner) for learner in second] == [stopped_at, stopped_at]
    assert steps(second[0]) == [(last_epoch - 1) * STEPS_PER_EPOCH, last_epoch * STEPS_PER_EPOCH]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_gang_of_another_size_goes_on_from_the_same_checkpoint(job: Job, framework: str) -> None:
    assert ends(gang(job, framework, 1, "--epochs 2")) == [0]
    second = gang(job, framework, 2, "--epochs 3", attempt=2)
    assert ends(second) == [0, 0]
    assert resumed_at(second[0]) == 2 * STEPS_PER_EPOCH
    assert steps(second[0]) == [3 * STEPS_PER_EPOCH]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_crash_leaves_a_traceback_and_the_next_attempt_goes_on_from_the_last_epoch(job: Job, framework: str) -> None:
    flags = "--epochs 2 --crash-at-step 30"
    [crashed] = gang(job, framework, 1, flags)
    assert ends([crashed]) == [1]
    assert crashed.report["last_traceback"].endswith("RuntimeError: told to crash at step 30")
    [second] = gang(job, framework, 1, flags, attempt=2)
    assert ends([second]) == [0]
    assert resumed_at(second) == STEPS_PER_EPOCH
    assert not list((job.root / "checkpoints").glob("*.tmp"))


def test_a_resumed_training_takes_the_steps_that_it_would_have_taken(job: Job) -> None:
    """Stopped in the middle of an epoch or not, the same data in the same order: the same loss."""
    [whole] = gang(job, "pytorch", 1, "--epochs 3")
    assert ends([whole]) == [0]
    for path in (job.root / "checkpoints").iterdir():
        path.unlink()
    [first] = gang(job, "pytorch", 1, "--epochs 3 --sleep-per-step 0.05", attempt=2)
    first.wait_line("epoch=1 ", within_s=120)
    first.stop()
    assert ends([first]) == [143]
    [second] = gang(job, "pytorch", 1, "--epochs 3", attempt=3)
    assert ends([second]) == [0]
    assert resumed_at(second) % STEPS_PER_EPOCH != 0, "stopped within an epoch"
    assert second.lines[-2:] == whole.lines[-2:]
