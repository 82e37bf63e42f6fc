"""How long a job takes from its trigger to its first training step, against a plain DAG with one KubernetesPodOperator.

Both arms run the same program on the same cluster, triggered through Airflow's REST API, in pairs whose order alternates.
The time is taken between the trigger call and the first step that the program prints, by the program's own time stamp.
One learner, no preflight; the data cache is warm after the first round, which is reported apart as the cold one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ffdl_ops.adapters.settings import Settings

__all__ = ["main", "measure"]

PLAIN_DAG = "bench_plain_pod"
_LIMIT_S = 180.0


def measure(settings: Settings, tenant: str, rounds: int) -> dict[str, Any]:
    """Measure both arms in pairs on the platform that is up.

    :param tenant: the tenant whose DAG runs the platform's arm.
    :param rounds: counted pairs, after one that is reported as the cold one.
    :returns: seconds of each arm and their difference, by round and at the median.
    """
    pairs: list[dict[str, float]] = []
    for number in range(rounds + 1):
        arms = ["plain", "platform"] if number % 2 else ["platform", "plain"]
        taken = {arm: _first_step_s(settings, tenant, arm) for arm in arms}
        pairs.append({**taken, "added": taken["platform"] - taken["plain"]})
    cold, warm = pairs[0], pairs[1:]
    added = sorted(pair["added"] for pair in warm)
    return {
        "rounds": rounds,
        "cold": cold,
        "warm": warm,
        "plain_s_median": statistics.median(pair["plain"] for pair in warm),
        "platform_s_median": statistics.median(pair["platform"] for pair in warm),
        "added_s_median": statistics.median(added),
        "added_s_min": added[0],
        "added_s_max": added[-1],
    }


def _first_step_s(settings: Settings, tenant: str, arm: str) -> float:
    from ffdl_ops.adapters.airflow_api import AirflowApi
    from ffdl_ops.core.jobs.ids import dag_id

    api = AirflowApi.from_settings(settings)
    run_id = f"bench-{arm}-{uuid.uuid4().hex[:8]}"
    target = PLAIN_DAG if arm == "plain" else dag_id(tenant)
    data = f"{settings.tenants[tenant].bucket}/datasets/digits"
    conf = {} if arm == "plain" else {"example": "probe", "data": data}
    started = datetime.now(UTC)
    api.trigger(target, run_id, conf)
    task = "pod" if arm == "plain" else "learners"
    deadline = time.monotonic() + _LIMIT_S
    step: datetime | None = None
    while time.monotonic() < deadline:
        state = api.run_state(target, run_id)
        if step is None:
            step = _first_step(api.task_log(target, run_id, task))
        if state in ("success", "failed"):
            break
        time.sleep(0.5)
    step = step or _first_step(api.task_log(target, run_id, task))
    if step is None:
        raise RuntimeError(f"{target} run {run_id} showed no training step within {_LIMIT_S:.0f} s (state {state}).")
    return (step - started).total_seconds()


def _first_step(log: str) -> datetime | None:
    """The program's own time stamp on its first step (`first-step-at=ISO`, which the probe prints)."""
    for word in log.split():
        if word.startswith("first-step-at="):
            return datetime.fromisoformat(word.partition("=")[2].rstrip('",').replace("Z", "+00:00"))
    return None


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark from the command line."""
    from ffdl_ops.adapters.settings import Settings

    parser = argparse.ArgumentParser(prog="ffdl bench startup", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tenant", default="vision")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    result = measure(Settings.load(), options.tenant, options.rounds)
    if options.json:
        sys.stdout.write(json.dumps(result) + "\n")
    else:
        sys.stdout.write(
            f"plain {result['plain_s_median']:.2f} s, platform {result['platform_s_median']:.2f} s, "
            f"added {result['added_s_median']:.2f} s (from {result['added_s_min']:.2f} to {result['added_s_max']:.2f}) "
            f"at the median of {result['rounds']} pairs; cold round added {result['cold']['added']:.2f} s\n"
        )
    return 0
