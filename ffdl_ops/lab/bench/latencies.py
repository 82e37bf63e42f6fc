"""How long a gang waits although it fits: from ends of pods, leases and starts of pods to seconds by step. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Started", "fits_at", "summary"]


@dataclass(frozen=True)
class Started:
    """One lease of a job that was started, in seconds since the epoch.

    :param asked_at: when it was put into the queue.
    :param granted_at: when its lease was written.
    :param nodes: of each learner.
    :param created_at: when the last of its pods was there; ``None`` if they never were.
    :param running_at: when the last of its learners ran.
    :param released_at: when it was given back, by the ledger: for a lease that was taken back before it had pods.
    """

    job: str
    attempt: int
    asked_at: float
    granted_at: float
    nodes: tuple[str, ...]
    gpus: int
    created_at: float | None
    running_at: float | None
    released_at: float | None = None


def fits_at(
    starts: Sequence[Started], ends: Mapping[str, Sequence[tuple[float, int]]], sizes: Mapping[str, int]
) -> list[tuple[float, bool]]:
    """From when on each start could have been made, and whether it had to wait for places until then.

    On each node the GPU that is free longest is taken first, which never makes a wait look shorter than it was on average.

    :param ends: by node, when pods gave back how many GPUs.
    :param sizes: GPUs of each node, all free at first.
    """
    free = {
        node: [float("-inf")] * size + [at for at, gpus in sorted(ends.get(node, ())) for _ in range(gpus)]
        for node, size in sizes.items()
    }
    taken = dict.fromkeys(sizes, 0)
    found: dict[int, tuple[float, bool]] = {}
    for position in sorted(range(len(starts)), key=lambda one: starts[one].granted_at):
        start = starts[position]
        latest = float("-inf")
        for node in start.nodes:
            taken[node] += start.gpus
            if 0 < taken[node] <= len(free[node]):
                latest = max(latest, free[node][taken[node] - 1])
        found[position] = (max(start.asked_at, latest), latest > start.asked_at)
    return [found[position] for position in range(len(starts))]


def summary(seconds: Iterable[float]) -> dict[str, float | int | None]:
    """Median, the ninth tenth, the most, and of how many."""
    values = sorted(seconds)
    if not values:
        return {"n": 0, "median": None, "p90": None, "max": None}
    ninth = values[min(len(values) - 1, int(0.9 * len(values)))]
    return {
        "n": len(values),
        "median": round(statistics.median(values), 2),
        "p90": round(ninth, 2),
        "max": round(values[-1], 2),
    }
