"""Many jobs of four tenants at once: do all end as they should, is no GPU promised twice, and how long do those wait that fit.

The jobs are trivial, so that what is measured is the platform. GPUs are counted from the pods that the cluster had, not from
our ledger. `--idle` measures on a quiet platform instead: one job holds all GPUs, another waits for them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.airflow_api import AirflowApi
from ffdl_ops.core.jobs.ids import dag_id, job_id
from ffdl_ops.core.jobs.states import TERMINAL
from ffdl_ops.lab.bench.latencies import Started, fits_at, summary
from ffdl_ops.lab.bench.observer import SETTLED_S, Observer, tell
from ffdl_ops.lab.bench.ownplatform import own_platform

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.adapters.settings import Settings

__all__ = ["FOUR", "main", "measure", "steps"]

FOUR = ("north", "east", "south", "west")
QUOTA = 2
_FORM = {"example": "probe", "gpus": 1, "gpu_type": "V100", "cpus": "0.1", "memory": "128Mi"}
_SUBMITTERS = 8
_LOOK_S = 2.0
_TOLD_EVERY_S = 15.0
_SETTLE_S = 4.0


def measure(
    settings: Settings, tenants: Sequence[str], jobs: int, *, seconds: float = 1.0, limit_s: float = 7200.0
) -> dict[str, Any]:
    """Submit so many jobs at once on the platform that is up, by turns for each tenant, and watch them to their ends.

    :param seconds: how long a job trains.
    :param limit_s: when to give up waiting.
    :returns: see docs/benchmarks.md.
    """
    form = {**_FORM, "command": f"python3 probe.py --steps 2 --seconds-per-step {seconds / 2:g}"}
    with Observer(settings) as observer:
        started = time.time()
        runs = _submit(settings, [tenants[number % len(tenants)] for number in range(jobs)], form)
        submitted_s = time.time() - started
        tell(f"{jobs} runs triggered in {submitted_s:.0f} s")
        records = _await(observer, runs, started, limit_s)
        time.sleep(_SETTLE_S)
        observer.stop()
        ends = [job.updated_at.timestamp() for job in records.values() if job.state in TERMINAL]
        took_s = max(ends, default=time.time()) - started
        return {
            "jobs": jobs,
            "tenants": list(tenants),
            "cores": os.cpu_count(),
            "seconds": round(took_s, 1),
            "submitted_s": round(submitted_s, 1),
            "states": _states(runs, records),
            "all_completed": all(run in records and records[run].state == "COMPLETED" for run in runs),
            "jobs_per_minute": round(60 * len(ends) / took_s, 2),
            "attempts_of_a_job_max": max((len(observer.ledger.attempts(job)) for job in records), default=0),
            "preemptions": sum(one.preempted_at is not None for job in records for one in observer.ledger.leases(job)),
            "steps_s": steps(observer, list(records)),
            "waiting_max": observer.most_waiting,
            "slots_of_waiting_jobs_max": observer.most_slots_of_waiting,
            "slots_looks": observer.slots_looks,
            "settled_after_s": SETTLED_S,
            "load_max": round(observer.peak_load, 1),
            "pods": _pods(observer),
        }


def steps(observer: Observer, jobs: Sequence[str]) -> dict[str, dict[str, float | int | None]]:
    """Seconds by step of all starts of these jobs; the lease's time is that of the pass that wrote it."""
    starts = [one for job in jobs for one in _starts(observer, job)]
    gangs = observer.book.gangs
    ends: dict[str, list[tuple[float, int]]] = {}
    gone: dict[str, list[tuple[float, int]]] = {}
    for start in starts:
        times = gangs.get((start.job, start.attempt))
        for found, seen in ((ends, times.ended if times else {}), (gone, times.gone if times else {})):
            # A gang gives all of its places back when its last pod is over; one that never had pods, with its lease.
            freed = max(seen.values()) if len(seen) >= len(start.nodes) else None if times else start.released_at
            if freed is not None:
                for node in start.nodes:
                    found.setdefault(node, []).append((freed, start.gpus))
    sizes = observer.book.sizes
    by_end = list(zip(starts, fits_at(starts, ends, sizes), strict=True))
    by_gone = list(zip(starts, fits_at(starts, gone, sizes), strict=True))
    ran = [(start, fits) for start, (fits, _) in by_end if start.created_at and start.running_at]
    return {
        "fits_to_lease": summary(start.granted_at - fits for start, (fits, _) in by_end),
        "pods_over_to_lease": summary(start.granted_at - fits for start, (fits, waited) in by_end if waited),
        "pods_gone_to_lease": summary(start.granted_at - fits for start, (fits, waited) in by_gone if waited),
        "lease_to_pods": summary(start.created_at - start.granted_at for start, _ in ran if start.created_at),
        "pods_to_running": summary(
            start.running_at - start.created_at for start, _ in ran if start.running_at and start.created_at
        ),
        "fits_to_pods": summary(start.created_at - fits for start, fits in ran if start.created_at),
        "fits_to_running": summary(start.running_at - fits for start, fits in ran if start.running_at),
    }


def _starts(observer: Observer, job: str) -> list[Started]:
    queued = [one.at.timestamp() for one in observer.ledger.transitions(job) if one.to_state == "QUEUED"]
    attempts = {one.lease_epoch: one.number for one in observer.ledger.attempts(job)}
    found = []
    for lease in observer.ledger.leases(job):
        granted = lease.granted_at.timestamp()
        number = attempts.get(lease.epoch, 0)
        times = observer.book.gangs.get((job, number))
        asked = max((at for at in queued if at <= granted), default=granted)
        whole = len(lease.placements)
        created = max(times.created.values()) if times and len(times.created) == whole else None
        running = max(times.running.values()) if times and len(times.running) == whole else None
        nodes = tuple(place.node for place in lease.placements)
        released = lease.released_at.timestamp() if lease.released_at else None
        found.append(Started(job, number, asked, granted, nodes, lease.gpus, created, running, released))
    return found


def _submit(settings: Settings, tenants: Sequence[str], form: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Trigger a run for each; by job id, its DAG and run."""
    api = AirflowApi.from_settings(settings, budget_s=300)
    storm = uuid.uuid4().hex[:8]
    runs = {}
    for number, tenant in enumerate(tenants):
        run_id = f"storm-{storm}-{number:04}"
        runs[job_id(dag_id(tenant), run_id)] = (dag_id(tenant), run_id)
    with ThreadPoolExecutor(_SUBMITTERS) as pool:
        list(pool.map(lambda run: api.trigger(run[0], run[1], form), runs.values()))
    return runs


def _await(
    observer: Observer, runs: dict[str, tuple[str, str]], started: float, limit_s: float
) -> dict[str, JobRecord]:
    """Wait until every job has ended; those that were stored."""
    told = started
    while True:
        records = {job.job_id: job for job in observer.ledger.jobs(limit=10 * len(runs) + 1000) if job.job_id in runs}
        left = len(runs) - sum(job.state in TERMINAL for job in records.values())
        now = time.time()
        if not left or now - started > limit_s:
            return records
        if now - told >= _TOLD_EVERY_S:
            told = now
            states = ", ".join(f"{count} {state}" for state, count in sorted(_states(runs, records).items()))
            tell(f"{now - started:6.0f} s  {states}; load {os.getloadavg()[0]:.1f}")
        observer.look()
        time.sleep(_LOOK_S)


def _states(runs: dict[str, tuple[str, str]], records: dict[str, JobRecord]) -> dict[str, int]:
    """How many are in each state; those that Airflow has not begun have none yet."""
    counted = Counter(str(records[run].state) if run in records else "not begun" for run in runs)
    return dict(counted)


def _pods(observer: Observer) -> dict[str, Any]:
    book = observer.book
    return {
        "seen": book.pods_seen,
        "oversubscribed": book.oversubscribed,
        "over": book.over[:20],
        "gpus_max": book.peak,
        "gpus_max_by_node": book.peak_by_node,
        "gpus_bound_max_by_node": book.bound_peak_by_node,
        "gpus_of_node": book.sizes,
        "gpus_max_by_tenant": {name.removeprefix("ffdl-"): most for name, most in book.peak_by_tenant.items()},
    }


def main(argv: list[str] | None = None) -> int:
    """`ffdl bench storm`: 0 when all jobs completed and no GPU was promised twice (`--idle`: when the targets are met)."""
    from ffdl_ops.adapters.settings import Settings
    from ffdl_ops.lab.bench import handover

    parser = argparse.ArgumentParser(prog="ffdl bench storm", description=__doc__)
    parser.add_argument("--jobs", type=int, default=200, help="runs that are triggered at once")
    parser.add_argument("--tenants", help="names, by commas: use the platform that is up, and these of its tenants")
    parser.add_argument("--idle", action="store_true", help="measure hand-overs of all GPUs on a quiet platform")
    parser.add_argument("--limit-minutes", type=float, default=120.0, help="report what is reached after so long")
    parser.add_argument("--rounds", type=int, default=10, help="hand-overs of --idle")
    parser.add_argument("--directory", help="where the benchmark's own platform is kept while it runs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(argv)

    def run(settings: Settings, tenants: Sequence[str]) -> dict[str, Any]:
        if options.idle:
            return handover.measure(settings, tenants[0], options.rounds)
        return measure(settings, tenants, options.jobs, limit_s=60 * options.limit_minutes)

    if options.tenants:
        result = run(Settings.load(), options.tenants.split(","))
    else:
        tell("Starting a platform of its own ...")
        with own_platform(FOUR, QUOTA, options.directory) as settings:
            result = run(settings, FOUR)
    sys.stdout.write(json.dumps(result) + "\n" if options.json else _table(result))
    good = result["met"] if options.idle else result["all_completed"] and not result["pods"]["oversubscribed"]
    return 0 if good else 1


def _table(result: dict[str, Any]) -> str:
    lines = []
    if "states" in result:
        states = ", ".join(f"{count} {state}" for state, count in result["states"].items())
        lines.append(
            f"{result['jobs']} jobs: {states}; {result['jobs_per_minute']} a minute; load {result['load_max']}"
        )
    lines.append(f"{'seconds':<20}{'n':>6}{'median':>9}{'p90':>9}{'max':>9}")
    for name, one in result["steps_s"].items():
        lines.append(f"{name:<20}" + "".join(f"{one[key]!s:>{6 if key == 'n' else 9}}" for key in one))
    pods = result["pods"]
    lines.append(f"GPUs by pods' records, at most: {pods['gpus_max_by_node']} of {pods['gpus_of_node']}")
    lines.append(f"slots of waiting jobs, at most: {result['slots_of_waiting_jobs_max']}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
