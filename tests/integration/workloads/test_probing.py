"""The probe fails, hangs, stops and resumes as its flags say: the other tests rely on it."""

from __future__ import annotations

import json
import time

import pytest

from tests.unit.learner.pods import Job, eventually

pytestmark = pytest.mark.slow


def test_the_probe_counts_steps_and_tells_its_progress(job: Job) -> None:
    learner = job.run("python3 probe.py --steps 3 --seconds-per-step 0.01")
    assert learner.wait() == 0
    assert learner.lines[0].startswith("first-step-at=")
    assert learner.lines[1:] == ["step=1 loss=1.0000", "step=2 loss=0.5000", "step=3 loss=0.3333"]
    assert learner.report["step"] == 3
    assert json.loads((job.root / "results/probe.json").read_text()) == {"steps": 3, "resumed": False}


def test_the_probe_crashes_once_and_resumes(job: Job) -> None:
    command = "python3 probe.py --steps 4 --seconds-per-step 0.01 --crash-at-step 3"
    first = job.run(command)
    assert (first.wait(), first.report["last_traceback"].splitlines()[-1]) == (
        1, "RuntimeError: the probe was told to crash at step 3",
    )  # fmt: skip
    second = job.run(command, attempt=2)
    assert second.wait() == 0
    assert [line.split()[0] for line in second.lines[1:]] == ["resumed", "step=3", "step=4"]


def test_the_probe_saves_when_it_is_stopped(job: Job) -> None:
    learner = job.start("python3 probe.py --steps 1000 --seconds-per-step 30 --checkpoint-every 100")
    learner.wait_line("step=1 ")
    learner.stop()
    assert learner.wait(10) == 143
    assert learner.lines[-1] == "stopped and saved at step=1"
    assert json.loads((job.root / "checkpoints/probe-0.json").read_text()) == {"step": 1}


def test_the_probe_hangs_and_ignores_being_stopped_when_told_to(job: Job) -> None:
    learner = job.start("python3 probe.py --steps 9 --hang-at-step 2 --ignore-sigterm --seconds-per-step 0.01",
                        FFDL_GRACE_SECONDS="1")  # fmt: skip
    learner.wait_line("step=2 ")
    time.sleep(0.5)
    learner.stop()
    assert learner.wait(10) == 143
    assert learner.report["killed_after_grace"] is True
    assert learner.lines[-1].startswith("step=2 ")


def test_one_rank_alone_fails_as_told(job: Job) -> None:
    flags = "--steps 3 --seconds-per-step 0.01 --exit-at-step 2 --exit-code 7 --only-rank 1"
    gang = [job.start(f"python3 probe.py {flags}", rank=rank, learners=2) for rank in (0, 1)]
    assert [learner.wait() for learner in gang] == [0, 7]


def test_the_probe_takes_memory_as_told(job: Job) -> None:
    learner = job.start("python3 probe.py --steps 2 --seconds-per-step 0.1 --allocate-mb 150")
    assert learner.wait() == 0
    assert learner.report["peak_rss_bytes"] > 150 << 20


def test_the_probe_runs_without_any_of_a_pods_directories(job: Job) -> None:
    nowhere = dict.fromkeys(("CHECKPOINT_DIR", "RESULT_DIR", "JOB_STATE_DIR"), "/nowhere/at/all")
    command = " ".join(f"{name}={value}" for name, value in nowhere.items())
    learner = job.run(f"{command} python3 probe.py --steps 1")
    assert learner.wait() == 0
    assert eventually("its step", lambda: learner.lines[1:] == ["step=1 loss=1.0000"])
