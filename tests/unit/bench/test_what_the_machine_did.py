"""Other load on the training's CPUs is told apart from the arm's own; what the kernel doesn't tell is left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from ffdl_ops.lab.bench.overhead import machine
from ffdl_ops.lab.bench.overhead.machine import Load, facts

CPU = max(os.sched_getaffinity(0))
BURN = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); print('up', flush=True)\nwhile True: pass"


@pytest.fixture
def burn() -> Iterator[Callable[[], int]]:
    """Starts a process that uses all that it can get of the CPU."""
    started = []

    def begin() -> int:
        one = subprocess.Popen([sys.executable, "-c", BURN, str(CPU)], stdout=subprocess.PIPE, text=True)
        started.append(one)
        assert one.stdout is not None and one.stdout.readline() == "up\n"
        return one.pid

    yield begin
    for one in started:
        one.kill()
        one.wait()


def foreign(own: Callable[[], list[int]]) -> float:
    load = Load([CPU], own)
    time.sleep(1.0)
    share = load.share()
    assert share is not None and 0 <= share.stolen <= 1
    return share.foreign


def test_the_arms_own_work_is_not_foreign(burn: Callable[[], int]) -> None:
    """By comparison, since this machine may have other work: the same burner as somebody else's, then as the arm's own."""
    pid = burn()
    as_others, as_own = foreign(list), foreign(lambda: [pid])
    assert as_others - as_own > 0.2


def test_of_two_that_share_the_cpu_only_the_other_is_foreign(burn: Callable[[], int]) -> None:
    own, _ = burn(), burn()
    assert foreign(lambda: [own]) > 0.2


def test_a_process_that_comes_meanwhile_is_the_arms_own(burn: Callable[[], int]) -> None:
    pids: list[int] = []
    load = Load([CPU], lambda: pids)
    pids.append(burn())
    time.sleep(1.0)
    mine = load.share()
    assert mine is not None
    assert foreign(list) - mine.foreign > 0.2


def test_a_process_that_has_gone_does_not_end_the_measurement() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert 0 <= foreign(lambda: [gone.pid]) <= 1


def test_cpus_that_are_not_there_are_not_told_of() -> None:
    load = Load([CPU, 10_000], list)
    assert load.share() is None


def test_the_facts_are_plain_json_and_need_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads(json.dumps(facts([CPU])))
    assert found["training_cpus"] == [CPU] and found["model"] and len(found["load"]) == 3
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "gpus" not in facts([CPU])


def test_steal_is_counted_apart_from_work(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    ticks = machine._TICKS

    class Stat:
        lines = ["cpu 0", f"cpu{CPU} 0 0 0 0 0 0 0 0 0 0"]

        def read_text(self) -> str:
            return "\n".join(self.lines)

    stat = Stat()
    monkeypatch.setattr(machine, "Path", lambda name: stat if name == "/proc/stat" else None)
    load = Load([CPU], list)
    # user, nice, system, idle, iowait, irq, softirq, steal, guest (within user)
    stat.lines[1] = f"cpu{CPU} {2 * ticks} {ticks} {ticks} 50 60 0 0 {3 * ticks} {ticks} 0"
    now = machine._times([CPU])
    assert now is not None and (now.busy_s, now.stolen_s) == (4.0, 3.0)
    assert load.share() is not None
