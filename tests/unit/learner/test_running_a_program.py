"""A plain program, run as a learner: what it sees, what is seen of it, and that nothing outlives it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ffdl_ops.pod.learner.processes import descendants
from tests.unit.learner.pods import Job, alive, eventually


def seen_environment(job: Job, **env: str) -> dict[str, str]:
    return json.loads(job.run("python3 -c 'import json,os; print(json.dumps(dict(os.environ)))'", **env).lines[0])


def test_a_program_sees_ffdls_variables_and_its_place_in_the_gang(job: Job) -> None:
    env = seen_environment(job, FFDL_BASE_PORT="23456", POD_IP="10.1.2.3", MY_OWN="x")
    assert env["CHECKPOINT_DIR"] == str(job.root / "checkpoints")
    assert (env["LEARNER_ID"], env["NUM_LEARNERS"], env["TRAINING_ID"]) == ("1", "1", "job-0123456789")
    assert (env["RANK"], env["WORLD_SIZE"], env["LOCAL_RANK"], env["MASTER_ADDR"]) == ("0", "1", "0", "10.1.2.3")
    assert (env["MY_OWN"], env["PYTHONUNBUFFERED"]) == ("x", "1")
    assert "TF_CONFIG" not in env
    assert "GLOO_SOCKET_IFNAME" not in env


def test_a_program_sees_no_credentials_and_nothing_of_the_platforms_own(job: Job) -> None:
    env = seen_environment(
        job, FFDL_S3_SECRET_ACCESS_KEY="secret", FFDL_DATA_S3_ACCESS_KEY_ID="k", FFDL_RESTORED_STEP="5"
    )
    assert {name for name in env if name.startswith("FFDL_")} == {"FFDL_ATTEMPT", "FFDL_RESTORED_STEP"}
    assert "secret" not in env.values()


def test_on_loopback_gloo_is_told_its_interface_unless_the_user_chose_one(job: Job) -> None:
    assert seen_environment(job, POD_IP="127.9.8.7")["GLOO_SOCKET_IFNAME"] == "lo"
    assert seen_environment(job, POD_IP="127.9.8.7", GLOO_SOCKET_IFNAME="eth7")["GLOO_SOCKET_IFNAME"] == "eth7"


def test_a_program_runs_in_its_code_with_its_directories_there_and_no_input(job: Job) -> None:
    learner = job.run('pwd && test -d "$RESULT_DIR" -a -d "$CHECKPOINT_DIR" -a -d "$LOG_DIR" && cat && echo all there')
    assert learner.lines == [str(job.root / "code"), "all there"]


def test_output_and_errors_come_as_lines_of_the_learner_in_log_file_and_standard_output(job: Job) -> None:
    learner = job.run("echo out; echo err >&2; echo more")
    assert learner.lines == ["out", "err", "more"]
    assert (learner.log_dir / "learner-1.log").read_text() == learner.out.read_text()


def test_time_stamps_rise_strictly_even_for_many_lines_at_once(job: Job) -> None:
    learner = job.run("seq 20000")
    stamps = [line.split(" ", 1)[0] for line in learner.out.read_text().splitlines()]
    assert learner.lines == [str(number) for number in range(1, 20001)]
    assert all(a < b for a, b in zip(stamps, stamps[1:], strict=False))


@pytest.mark.parametrize(
    ("command", "code", "number"),
    [
        ("true", 0, None),
        ("exit 3", 3, None),
        ("kill -SEGV $$", 139, 11),
        ("sh -c 'kill -KILL $$'; exit $?", 137, 9),
        ("no-such-command-here", 127, None),
    ],
)
def test_the_programs_end_is_the_learners(job: Job, command: str, code: int, number: int | None) -> None:
    learner = job.run(command)
    assert (learner.wait(), learner.report["exit_code"], learner.report["signal"]) == (code, code, number)
    assert learner.report["terminated_by_platform"] is False


def test_code_that_is_not_there_is_told(job: Job) -> None:
    (job.root / "code").rmdir()
    (job.root / "code").write_text("a file")
    learner = job.run("true")
    assert learner.wait() == 74
    assert str(job.root / "code") in learner.report["reason"]


def test_what_a_program_leaves_behind_ends_with_it(job: Job) -> None:
    """Also in a session of its own, as torchrun's workers are, and when it ignores signals."""
    learner = job.run("""
        sh -c 'trap "" TERM HUP INT; echo $$; while :; do sleep 60; done' &
        setsid sh -c 'echo $$; exec sleep 60' &
        sleep 0.4; exit 5""")
    assert learner.wait() == 5
    pids = [int(line) for line in learner.lines]
    assert len(pids) == 2
    assert not any(alive(pid) for pid in pids)


def test_nothing_outlives_a_launcher_that_is_killed(job: Job) -> None:
    learner = job.start("cd /; setsid sh -c 'echo $$; exec sleep 60' & sh -c 'echo $$; exec sleep 60'; true")
    eventually("both run", lambda: len(learner.lines) == 2)
    pids = [int(line) for line in learner.lines]
    assert all(alive(pid) for pid in pids)
    learner.kill()
    eventually("all of it is gone", lambda: not any(alive(pid) for pid in pids))


def test_a_program_ends_with_the_process_that_keeps_it(job: Job) -> None:
    """Something kills the keeper: the launcher notices, ends the rest, and tells of a SIGKILL."""
    learner = job.start("setsid sh -c 'echo $$; exec sleep 60' & sh -c 'echo $$; exec sleep 60'; true")
    eventually("both run", lambda: len(learner.lines) == 2)
    pids = [int(line) for line in learner.lines]
    keeper = descendants(learner.process.pid)[0]
    os.kill(keeper, signal.SIGKILL)
    assert learner.wait() == 137
    assert learner.report["signal"] == 9
    assert not any(alive(pid) for pid in pids)


def test_a_program_that_closes_its_output_is_still_waited_for(job: Job) -> None:
    learner = job.run("echo one; exec >&- 2>&-; sleep 0.3; exit 6")
    assert (learner.wait(), learner.lines) == (6, ["one"])


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("FFDL_RANK", "two", "FFDL_RANK='two' must be a whole number from 0 on"),
        ("FFDL_RANK", "1", "FFDL_RANK=1 must be less than NUM_LEARNERS=1"),
        ("FFDL_GRACE_SECONDS", "soon", "FFDL_GRACE_SECONDS='soon' must be a number of seconds"),
        ("TRAINING_COMMAND", "  ", "TRAINING_COMMAND is empty"),
    ],
)
def test_a_wrong_environment_is_named(job: Job, variable: str, value: str, words: str) -> None:
    learner = job.run("true", **{variable: value})
    assert learner.wait() == 78
    assert words in json.loads(learner.termination.read_text())["reason"]
    assert words in learner.out.read_text()


def test_the_launcher_costs_a_start_little(job: Job, launcher: Path) -> None:
    """Less than 100 ms of processor time over a bare Python's, taken as the least of several."""

    def least(run: object) -> float:
        taken = []
        for _ in range(4):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            run()  # type: ignore[operator]
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(taken)

    bare = least(lambda: subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True))
    assert least(lambda: job.run("true")) - bare < 0.1
