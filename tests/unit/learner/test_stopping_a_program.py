"""SIGTERM: the program saves and ends within its grace, and the learner exits with 143."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from tests.unit.learner.pods import Job, alive, eventually

SAVER = """
import signal, sys, time
def save(number, frame):
    time.sleep(0.6)
    open("saved", "w").close()
    sys.exit(int(sys.argv[1]))
signal.signal(signal.SIGTERM, save)
print("ready")
while True:
    time.sleep(0.05)
"""


def test_a_program_that_saves_has_not_succeeded(job: Job) -> None:
    (job.root / "code" / "saver.py").write_text(SAVER)
    learner = job.start("exec python3 saver.py 0")
    learner.wait_line("ready")
    learner.stop()
    assert learner.wait() == 143
    assert (job.root / "code" / "saved").exists()
    report = learner.report
    assert (report["exit_code"], report["program_exit_code"]) == (143, 0)
    assert (report["terminated_by_platform"], report["killed_after_grace"]) == (True, False)


def test_a_program_may_go_on_saving_when_its_shell_has_died(job: Job) -> None:
    """The shell gets the same SIGTERM, and does not wait for its child."""
    (job.root / "code" / "saver.py").write_text(SAVER)
    learner = job.start("cd . && python3 saver.py 143; echo never")
    learner.wait_line("ready")
    learner.stop()
    assert learner.wait() == 143
    assert (job.root / "code" / "saved").exists()
    assert "never" not in learner.lines


def test_a_program_that_does_not_end_is_killed_within_the_grace(job: Job) -> None:
    learner = job.start('trap "" TERM; echo $$; while :; do sleep 0.2; done', FFDL_GRACE_SECONDS="2")
    eventually("it runs", lambda: learner.lines)
    started = time.monotonic()
    learner.stop()
    assert learner.wait() == 143
    assert time.monotonic() - started < 2.5
    assert learner.report["killed_after_grace"] is True
    assert not alive(int(learner.lines[0]))


def test_stopping_twice_is_stopping_once(job: Job) -> None:
    command = (
        """trap 'n=$((n+1)); echo got $n' TERM; echo ready; i=0; while [ $i -lt 12 ]; do sleep 0.1; i=$((i+1)); done"""
    )
    learner = job.start(command)
    learner.wait_line("ready")
    learner.stop()
    learner.wait_line("got 1")
    learner.stop()
    assert learner.wait() == 143
    assert [line for line in learner.lines if line.startswith("got")] == ["got 1"]


def test_a_stop_while_waiting_for_the_others_ends_the_wait(job: Job) -> None:
    learner = job.start("echo never", learners=2)
    eventually("it waits", lambda: (job.root / "state/rendezvous/attempt-1/rank-0").exists())
    learner.stop()
    assert learner.wait(10) == 143
    assert learner.report["terminated_by_platform"] is True
    assert learner.lines == []


def test_a_stop_that_comes_after_success_changes_nothing(job: Job) -> None:
    """The program has ended; the launcher still hands its last lines to a slow reader."""
    learner = job.start("true")
    learner.wait()
    environment = {name: value for name, value in os.environ.items() if name == "PATH"} | {
        "TRAINING_COMMAND": "seq 20000", "LOG_DIR": str(learner.log_dir), "LEARNER_ID": "1",
    }  # fmt: skip
    argv = [sys.executable, "-I", "-S", str(job.launcher)]
    report = learner.log_dir / "learner-1.exit.json"
    report.unlink()
    process = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, cwd=job.root)
    try:
        eventually("the program has ended", report.exists)
        process.terminate()
        out, _ = process.communicate(timeout=20)
        assert process.returncode == 0
        assert out.count(b"\n") == 20_003
    finally:
        process.kill()
        process.wait()
