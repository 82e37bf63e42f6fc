"""Hand-overs on a quiet platform: one job holds all GPUs of a type, another waits for all of them, and gets them.

Both are of one tenant, so that neither may have the other stopped.
"""

from __future__ import annotations

import os
import time
import uuid
from typing import TYPE_CHECKING, Any

from ffdl_ops.core.errors import TemporaryError
from ffdl_ops.core.jobs.ids import dag_id, job_id
from ffdl_ops.lab.bench.observer import Observer, tell

if TYPE_CHECKING:
    from ffdl_ops.adapters.settings import Settings

__all__ = ["measure"]

TARGET_LEASE_S = 1.0
TARGET_PODS_S = 3.0
_LIMIT_S = 240.0
_HOLDS_S = 20


def measure(settings: Settings, tenant: str, rounds: int, gpu_type: str = "V100") -> dict[str, Any]:
    """Hand all GPUs of a type over so many times.

    :param rounds: hand-overs, each between two jobs of two learners or more (one on each node).
    :returns: seconds by step, by round and at the median; `met` says whether the targets are.
    """
    from ffdl_ops.adapters.cluster.client import Cluster
    from ffdl_ops.adapters.cluster.observe import node_view
    from ffdl_ops.lab.bench.storm import _pods, steps

    nodes = [node_view(node) for node in Cluster(settings.kubeconfig).nodes()]
    sizes = [node.gpus for node in nodes if node.gpu_type == gpu_type]
    if not sizes or len(set(sizes)) != 1:
        raise TemporaryError(f"The nodes of type {gpu_type} have {sizes} GPUs; the benchmark needs equal ones.")
    form = {
        "example": "probe", "gpu_type": gpu_type, "gpus": sizes[0], "learners": len(sizes), "cpus": "0.1",
        "memory": "128Mi", "preflight": "off", "command": f"python3 probe.py --steps {_HOLDS_S} --seconds-per-step 1",
    }  # fmt: skip
    jobs: list[str] = []
    with Observer(settings) as observer:
        for number in range(rounds + 1):
            jobs.append(_trigger(observer, tenant, form))
            if number:
                _await(observer, jobs[-1], {"QUEUED"}, {"DEPLOYING", "PROCESSING"})
            _await(observer, jobs[-1], {"PROCESSING", "STORING", "COMPLETED"})
            tell(f"hand-over {number} of {rounds}; load {os.getloadavg()[0]:.1f}")
        _await(observer, jobs[-1], {"COMPLETED"})
        time.sleep(4)
        observer.stop()
        # The first job found the GPUs free.
        taken = steps(observer, jobs)
        each = [
            {name: one["median"] for name, one in steps(observer, [before, after]).items()}
            for before, after in zip(jobs, jobs[1:], strict=False)
        ]
        lease, pods = taken["pods_gone_to_lease"]["median"], _pods_after_gone(observer, jobs)
        return {
            "rounds": rounds,
            "cores": os.cpu_count(),
            "load_max": round(observer.peak_load, 1),
            "states": [str(job.state) for name in jobs if (job := observer.ledger.job(name))],
            "steps_s": {**taken, "pods_gone_to_pods": pods},
            "by_round": each,
            "target_lease_s": TARGET_LEASE_S,
            "target_pods_s": TARGET_PODS_S,
            "met": bool(
                lease is not None
                and pods["median"] is not None
                and lease <= TARGET_LEASE_S
                and pods["median"] <= TARGET_PODS_S
            ),
            "slots_of_waiting_jobs_max": observer.most_slots_of_waiting,
            "slots_looks": observer.slots_looks,
            "pods": _pods(observer),
        }


def _pods_after_gone(observer: Observer, jobs: list[str]) -> dict[str, float | int | None]:
    """From the moment when the last pod of the one before was gone, until all pods of the next were there."""
    from ffdl_ops.lab.bench.latencies import summary

    gangs = observer.book.gangs
    pairs = [(gangs.get((one, 1)), gangs.get((two, 1))) for one, two in zip(jobs, jobs[1:], strict=False)]
    return summary(max(two.created.values()) - max(one.gone.values()) for one, two in pairs if one and two and one.gone)


def _trigger(observer: Observer, tenant: str, form: dict[str, Any]) -> str:
    run_id = f"handover-{uuid.uuid4().hex[:8]}"
    observer.airflow.trigger(dag_id(tenant), run_id, form)
    return job_id(dag_id(tenant), run_id)


def _await(observer: Observer, job: str, states: set[str], too_far: set[str] | None = None) -> None:
    """Wait for one of the states.

    :param too_far: states that mean that the wait was passed over.
    """
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        record = observer.ledger.job(job)
        state = str(record.state) if record else ""
        if state in states:
            return
        if too_far and state in too_far:
            raise TemporaryError(f"Job {job} did not have to wait: the machine was too slow to submit it in time.")
        if state in ("FAILED", "HALTED"):
            raise TemporaryError(f"Job {job} is {state}.")
        observer.look()
        time.sleep(0.5)
    raise TemporaryError(f"Job {job} was not in {sorted(states)} within {_LIMIT_S:.0f} s.")
