"""A pair on a platform of its own: all arms by turns, a planted slowdown found in its feature, nothing left whatever happens."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
import yaml

from ffdl_ops.adapters.airflow_api import AirflowApi
from ffdl_ops.adapters.cluster.client import Cluster
from ffdl_ops.core.errors import UserError
from ffdl_ops.core.jobs.ids import dag_id
from ffdl_ops.lab.bench.overhead.measure import PairFailed, clean_up, measure_pair
from ffdl_ops.lab.bench.overhead.records import Arm, Configuration, Pair, Turn
from ffdl_ops.lab.bench.overhead.whole import read_by_pattern
from ffdl_ops.local.services.seed import seed_digits
from tests.support.platform import REPOSITORY, Platform, new_platform
from tests.support.rig import eventually

pytestmark = pytest.mark.slow
BURNT = 0.4
# In the helper's image alone, and there in the side-car's process alone: a part of a core that nobody asked for.
PLANTED = f"""
import sys, threading, time
def burn():
    while True:
        until = time.thread_time() + {BURNT} / 20
        while time.thread_time() < until:
            pass
        time.sleep({1 - BURNT} / 20)
if sys.orig_argv[-1] == "sidecar":
    threading.Thread(target=burn, daemon=True).start()
"""
EVERY_ARM = [arm for arm in Arm if arm is not Arm.SHARED]
TINY = Configuration("standin", "pytorch", data="memory")


@pytest.fixture(scope="module")
def planted() -> Iterator[Platform]:
    """A platform whose side-cars burn CPU."""
    with new_platform() as platform:
        place = platform.home / "planted"
        place.mkdir()
        (place / "sitecustomize.py").write_text(PLANTED)
        table = platform.config / "images.yaml"
        images = yaml.safe_load(table.read_text())
        images["images"]["ffdl/helper:*"]["env"]["PYTHONPATH"] = f"{place}:{REPOSITORY}"
        table.write_text(yaml.safe_dump(images, sort_keys=False))
        shutil.copy(REPOSITORY / "tests" / "support" / "standin.py", platform.home / "standin.py")
        for path in (place, place / "sitecustomize.py", platform.home / "standin.py"):
            path.chmod(0o755)
        platform.stack.up()
        for dag in (dag_id("vision"), "bench_plain_pod"):
            platform.stack.wait_for_dag(dag)
        seed_digits(platform.settings, "vision")
        yield platform


def measure(
    platform: Platform, arms: list[Arm], *flags: str, configuration: Configuration = TINY, **changes: Any
) -> Pair:
    program = " ".join(["python3", str(platform.home / "standin.py"), *flags])
    given = {
        "number": 1,
        "seed": 7,
        "rounds": 4,
        "save_rounds": 0,
        "turn_s": 1.5,
        "tenant": "vision",
        "memory": "256Mi",
    }
    return measure_pair(platform.settings, configuration, arms, program=program, **{**given, **changes})


def left(platform: Platform) -> dict[str, Any]:
    """What lives of measurements."""
    settings = platform.settings
    airflow = AirflowApi.from_settings(settings)
    running = [
        one["dag_run_id"]
        for dag in (dag_id("vision"), "bench_plain_pod")
        for one in airflow.tasks_in_state(dag, "running")
    ]
    programs = [
        one.pid
        for one in psutil.process_iter(["cmdline"])
        if str(platform.home / "standin.py") in (one.info["cmdline"] or [])
    ]
    pods = [pod.metadata.name for pod in Cluster(settings.kubeconfig).pods("ffdl-vision", "")]
    records = [one.name for one in (settings.home / "bench" / "overhead").glob("*.json")]
    return {"pods": pods, "programs": programs, "running": running, "records": records}


NOTHING = {"pods": [], "programs": [], "running": [], "records": []}


def alone(turn: Turn) -> float:
    """Images per second as if nothing else had been on the CPU: other tests, and other machines on the same host."""
    return turn.images_per_s / (1 - (turn.foreign or 0.0) - (turn.stolen or 0.0))


def slower(pair: Pair, arm: Arm, than: Arm) -> float:
    """By what part an arm is slower than another, at the median of the rounds in which both had a turn."""
    one, other = pair.run(arm), pair.run(than)
    assert one is not None and other is not None
    rates = {turn.round: alone(turn) for turn in other.turns if not turn.saves}
    return statistics.median(1 - alone(turn) / rates[turn.round] for turn in one.turns if turn.round in rates)


def test_a_planted_slowdown_shows_in_the_platforms_arm_and_vanishes_without_its_feature(planted: Platform) -> None:
    said: list[str] = []
    data = "ffdl-vision/datasets/digits"
    pair = measure(planted, EVERY_ARM, "--needs-data", rounds=6, save_rounds=1, data=data, say=said.append)
    assert [run.arm for run in pair.runs] == EVERY_ARM
    assert Pair.from_dict(json.loads(json.dumps(pair.as_dict()))).as_dict() == pair.as_dict()
    told = {run.arm: round(statistics.median(turn.images_per_s for turn in run.turns), 1) for run in pair.runs}
    assert slower(pair, Arm.PLATFORM, Arm.NO_SIDECAR) > 0.4 * BURNT, told
    assert slower(pair, Arm.NO_FOLLOW, Arm.NO_SIDECAR) > 0.4 * BURNT, told
    assert abs(slower(pair, Arm.NO_SIDECAR, Arm.POD)) < 0.25 * BURNT, told
    assert abs(slower(pair, Arm.POD, Arm.BARE)) < 0.25 * BURNT, told
    assert abs(slower(pair, Arm.BARE_AGAIN, Arm.BARE)) < 0.25 * BURNT, told
    saves = {run.arm: sum(turn.saves for turn in run.turns) for run in pair.runs}
    saving = {Arm.PLATFORM, Arm.NO_SIDECAR, Arm.NO_FOLLOW}
    assert saves == {arm: int(arm in saving) for arm in EVERY_ARM}
    for run in pair.runs:
        steady = [turn for turn in run.turns if not turn.saves]
        assert len(steady) == 6 and len({turn.steps for turn in steady}) == 1
        assert all(turn.foreign is not None and turn.stolen is not None for turn in run.turns)
        assert run.start_s["warm_up"] > 0 and run.where and (run.peak_rss_bytes or 0) > 1 << 20
    assert pair.machine["control_cpus"] == [0] or len(os.sched_getaffinity(0)) != 2
    assert left(planted) == NOTHING


def test_the_arm_that_shares_its_cpus_is_the_same_job_with_turns_of_its_own(
    planted: Platform,
) -> None:
    pair = measure(planted, [Arm.PLATFORM, Arm.SHARED])
    of_both = [pair.run(arm) for arm in (Arm.PLATFORM, Arm.SHARED)]
    assert [len(run.turns) for run in of_both if run] == [4, 4]
    assert of_both[0] and of_both[1] and of_both[0].where == of_both[1].where
    assert left(planted) == NOTHING


@pytest.mark.parametrize("arm", [Arm.BARE, Arm.POD, Arm.PLATFORM])
def test_an_arm_that_dies_ends_the_pair_with_its_name_and_log_and_nothing_is_left(planted: Platform, arm: Arm) -> None:
    with pytest.raises(PairFailed, match=rf"standin-.*: {arm}: .*in turn \d+[\s\S]*the stand-in was told to die"):
        measure(planted, [Arm.BARE, Arm.POD, Arm.PLATFORM], "--die-at-turn", "4", "--only-arm", arm, "--loops", "2000")
    assert left(planted) == NOTHING


def test_an_arm_whose_program_does_not_start_is_named(planted: Platform) -> None:
    with pytest.raises(
        PairFailed, match=r"platform: it has not come to its first turn: its run has ended \(failed\); job .* is FAILED"
    ):
        measure(planted, [Arm.PLATFORM], "--needs-data")
    assert left(planted) == NOTHING


_KILLED = """
import sys
from pathlib import Path
from ffdl_ops.adapters.settings import Settings
from ffdl_ops.lab.bench.overhead.measure import measure_pair
from ffdl_ops.lab.bench.overhead.records import Arm, Configuration
home, config = map(Path, sys.argv[1:])
measure_pair(Settings.load(home, config), Configuration("standin", "pytorch", data="memory"), [Arm.BARE, Arm.POD, Arm.PLATFORM],
    number=1, seed=1, rounds=100, save_rounds=0, turn_s=2, tenant="vision", memory="256Mi",
    program=f"python3 {home}/standin.py", say=lambda line: print(line, flush=True))
"""


def test_what_a_killed_measurement_left_is_ended_by_the_next(planted: Platform) -> None:
    command = [sys.executable, "-c", _KILLED, str(planted.home), str(planted.config)]
    measuring = subprocess.Popen(command, env=planted.environment, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert measuring.stdout is not None and "turns of" in measuring.stdout.readline()
    with pytest.raises(Exception, match="Another measurement"):
        measure(planted, [Arm.BARE])
    measuring.kill()
    measuring.wait()
    assert len(left(planted)["pods"]) == 2 and sorted(left(planted)["records"]) == ["cpus.json", "started.json"]
    eventually("the bare program has gone with its parent", lambda: len(left(planted)["programs"]) == 2)
    said: list[str] = []
    assert measure(planted, [Arm.BARE], say=said.append).runs
    assert said[0] == "Ended what an earlier measurement had left."
    assert left(planted) == NOTHING
    assert clean_up(planted.settings) == 0


def test_a_gang_runs_whole_in_every_arm(planted: Platform) -> None:
    gang = Configuration("standin", "pytorch", learners=2, data="memory")
    pair = measure(planted, [Arm.BARE, Arm.POD, Arm.PLATFORM, Arm.NO_SIDECAR], configuration=gang, rounds=2)
    assert [run.arm for run in pair.runs] == [Arm.BARE, Arm.POD, Arm.PLATFORM, Arm.NO_SIDECAR] and not pair.machine[
        "turns"
    ]
    for run in pair.runs:
        [turn] = run.turns
        assert turn.round == 0 and turn.images > 0 and 2.9 < turn.elapsed_s < 30
    with pytest.raises(UserError, match="platform-shared-cpus is measured by turns alone"):
        measure(planted, [Arm.SHARED], configuration=gang)
    assert left(planted) == NOTHING


def test_a_users_program_runs_whole_and_its_throughput_is_read_by_its_pattern(planted: Platform) -> None:
    command = "for n in 1 2 3 4 5 6; do echo speed $n.5 img/s; sleep 0.1; done"
    manifest = {"name": "theirs", "framework": {"name": "pytorch", "command": command}, "memory": "64Mi"}
    theirs = Configuration("theirs", "pytorch", manifest=manifest, pattern=r"speed ([\d.]+) img/s")
    pair = measure(planted, [Arm.POD, Arm.PLATFORM], configuration=theirs)
    expected = read_by_pattern([f"speed {n}.5 img/s" for n in range(1, 7)], theirs.pattern or "")
    assert expected is not None
    assert [run.turns[0].images_per_s for run in pair.runs] == [expected.images_per_s] * 2
    with pytest.raises(UserError, match="bare can't be had with a user's program"):
        measure(planted, [Arm.BARE, Arm.POD], configuration=theirs)
    assert left(planted) == NOTHING
