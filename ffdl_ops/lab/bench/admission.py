"""How long the scheduler decides: whole passes over a snapshot, and single events over an index that is kept.

Loads are made up (`load`): sizes of jobs as the Philly study found them, eight tenants in one cohort, 160 users, two GPU
types. The timed passes run alternately, after one that is not counted, with the garbage collector as it is in the platform;
memory is measured in a pass of its own.
"""

from __future__ import annotations

import argparse
import json as json_module
import math
import random
import statistics
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ffdl_ops.core.scheduling.decide import decide, run
from ffdl_ops.core.scheduling.index import Index
from ffdl_ops.core.scheduling.model import NodeView
from ffdl_ops.core.scheduling.policy import Policy
from ffdl_ops.lab.bench.load import NOW, Load, make_load, make_request

__all__ = ["main", "measure"]

TARGET_PASS_MS, TARGET_EVENT_US = 250.0, 100.0
_GROWTH = (1, 3, 10)
_EVENTS = 500


def main(argv: list[str] | None = None) -> int:
    """`ffdl bench admission`: 0 when the targets are met, 1 when not."""
    parser = argparse.ArgumentParser(prog="ffdl bench admission", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--jobs", type=int, default=10_000, help="jobs in the queue")
    parser.add_argument("--nodes", type=int, default=2_000, help="nodes of eight GPUs")
    parser.add_argument("--rounds", type=int, default=5, help="counted passes of each kind")
    given = parser.parse_args(argv)
    if min(given.jobs, given.nodes, given.rounds) < 1:
        parser.error("--jobs, --nodes and --rounds must be at least 1")
    result = measure(given.jobs, given.nodes, given.rounds, say=None if given.json else _say)
    sys.stdout.write(json_module.dumps(result, indent=2) + "\n" if given.json else _table(result))
    return 0 if result["met"] else 1


def measure(jobs: int, nodes: int, rounds: int, *, say: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Measure everything.

    :param say: is told what is measured next.
    :returns: `pass_ms_median` and its spread for the nearly full cluster, then each part with its own.
    """
    say = say or (lambda text: None)
    loads = {
        "full": make_load(jobs, nodes, full=True),
        "idle": make_load(jobs, nodes, full=False),
    }
    say(f"passes over {jobs:,} jobs and {nodes:,} nodes ...")
    times: dict[str, list[float]] = {name: [] for name in loads}
    for number in range(rounds + 1):
        for name in loads if number % 2 else reversed(loads):
            taken = _pass_ms(loads[name])
            if number:
                times[name].append(taken)
    parts = {name: {**_spread(times[name]), **_outcome(load)} for name, load in loads.items()}
    say("memory ...")
    peak = _peak_mib(loads["full"])
    say("growth ...")
    growth = {str(jobs * factor): _median_pass(jobs * factor, nodes) for factor in _GROWTH}
    say("events ...")
    events = _events(loads["full"])
    full = parts["full"]
    return {
        "jobs": jobs,
        "nodes": nodes,
        "rounds": rounds,
        "pass_ms_median": full["median_ms"],
        "pass_ms_min": full["min_ms"],
        "pass_ms_max": full["max_ms"],
        "peak_mib": round(peak, 1),
        "full": full,
        "idle": parts["idle"],
        "growth_ms": growth,
        "growth_exponent": _exponent(growth),
        "event_us": events,
        "event_us_median": max(one["median_us"] for one in events.values()),
        "target_pass_ms": TARGET_PASS_MS,
        "target_event_us": TARGET_EVENT_US,
        "met": full["median_ms"] <= TARGET_PASS_MS
        and max(one["median_us"] for one in events.values()) <= TARGET_EVENT_US,
    }


def _pass_ms(load: Load) -> float:
    began = time.perf_counter()
    decide(load.snapshot, load.queue, load.tenants, Policy(), NOW)
    return 1e3 * (time.perf_counter() - began)


def _median_pass(jobs: int, nodes: int) -> float:
    load = make_load(jobs, nodes, full=True)
    return round(statistics.median(_pass_ms(load) for _ in range(3)), 1)


def _outcome(load: Load) -> dict[str, int]:
    """How many decisions of each kind a pass takes."""
    found = Counter(type(one).__name__.lower() for one in decide(load.snapshot, load.queue, load.tenants, Policy(), NOW))
    return {"held": len(load.snapshot.grants), **dict(sorted(found.items()))}


def _peak_mib(load: Load) -> float:
    tracemalloc.start()
    try:
        decide(load.snapshot, load.queue, load.tenants, Policy(), NOW)
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def _events(load: Load) -> dict[str, dict[str, float]]:
    """Microseconds from an event to the end of the pass that it causes, where that starts nothing."""
    index = Index(load.tenants, Policy(reserve_after_s=None), load.snapshot, load.queue, NOW)
    run(index, NOW)
    source = random.Random(2)
    held = [grant for grant in index.grants.values() if grant.tenant in index.tenants]
    views = list(index.nodes.values())
    taken: dict[str, list[float]] = {"job_came": [], "job_left": [], "job_ended": [], "node_changed": []}
    for number in range(_EVENTS):
        # As large as a node, so that it has to wait whatever is free; the job that ended is put back as it was.
        request = replace(make_request(number, source), job_id=f"new-{number}", gpus=8, learners_min=2, learners_max=2)
        taken["job_came"].append(_timed(index, partial(index.came, request, NOW)))
        taken["job_left"].append(_timed(index, partial(index.left, request.job_id)))
    # Nobody who waits fits a single GPU: what ends frees too little.
    large = [request for request in index.queue.requests.values() if request.gpus < 8]
    for request in large:
        index.left(request.job_id)
    run(index, NOW)
    small = [grant for grant in held if grant.gpus == 1]
    for number in range(_EVENTS):
        grant = small[number % len(small)]
        taken["job_ended"].append(_timed(index, partial(index.released, grant.job_id)))
        if grant.job_id not in index.grants:
            index.granted(grant)
        # A little less than it had, so that there is something to be seen to and nothing to start.
        views[number % len(views)] = view = _smaller(views[number % len(views)])
        taken["node_changed"].append(_timed(index, partial(index.node_changed, view)))
    return {name: {"median_us": round(statistics.median(one), 1), "max_us": round(max(one), 1)} for name, one in taken.items()}


def _smaller(view: NodeView) -> NodeView:
    return replace(view, memory_bytes=view.memory_bytes - 1)


def _timed(index: Index, event: Callable[[], object]) -> float:
    began = time.perf_counter()
    event()
    run(index, NOW)
    return 1e6 * (time.perf_counter() - began)


def _spread(times: Sequence[float]) -> dict[str, float]:
    return {
        "median_ms": round(statistics.median(times), 1),
        "min_ms": round(min(times), 1),
        "max_ms": round(max(times), 1),
    }


def _exponent(growth: dict[str, float]) -> float:
    """The power of the queue's length that the time grows with, from the shortest queue to the longest."""
    (first, first_ms), *_, (last, last_ms) = ((int(jobs), ms) for jobs, ms in growth.items())
    return round(math.log(last_ms / first_ms) / math.log(last / first), 2)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _table(result: dict[str, Any]) -> str:
    lines = [f"{result['jobs']:,} jobs wait, {result['nodes']:,} nodes of eight GPUs; milliseconds a pass"]
    for name, said in (("full", "nearly full"), ("idle", "idle")):
        one = result[name]
        lines.append(
            f"  {said:<12}{one['median_ms']:>9} ({one['min_ms']} … {one['max_ms']})   "
            f"{one.get('admit', 0):,} start, {one.get('wait', 0):,} wait"
        )
    lines.append(f"  peak of memory {result['peak_mib']} MiB")
    lines += [f"  {int(jobs):>9,} jobs {ms:>9}" for jobs, ms in result["growth_ms"].items()]
    lines.append(f"  grows with the power {result['growth_exponent']} of the queue's length")
    lines.append("microseconds an event that starts nothing")
    lines += [f"  {name:<14}{one['median_us']:>9} (max {one['max_us']})" for name, one in result["event_us"].items()]
    verdict = "met" if result["met"] else "not met"
    lines.append(f"targets: {TARGET_PASS_MS:.0f} ms a pass, {TARGET_EVENT_US:.0f} µs an event at the median: {verdict}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
