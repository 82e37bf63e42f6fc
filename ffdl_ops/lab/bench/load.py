"""A large cluster and a long queue, made up: sizes as the Philly study found them, several tenants that lend to each other.

The same numbers and seed give the same load.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ffdl_ops.core.scheduling.model import GangRequest, Grant, NodeView, Placement, Snapshot
from ffdl_ops.lab.simulate.compare import SimTenant

__all__ = ["NOW", "Load", "make_load", "make_request"]

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)
KINDS = ("V100", "A100")
TENANTS = tuple(f"tenant-{number}" for number in range(8))
GPUS_PER_NODE = 8
CPU_MILLIS_PER_GPU, MEMORY_PER_GPU = 6_000, 48 << 30
_SIZES = ((1, 86.7), (2, 2.3), (4, 4.9), (8, 5.1), (16, 0.8), (32, 0.2))
"""GPUs of a job, and how many in a hundred jobs ask for them."""
_FREE_NODES = 0.01
"""So many nodes have one GPU free; no more is, so that a large gang has to wait."""


@dataclass(frozen=True)
class Load:
    """What a pass decides from."""

    snapshot: Snapshot
    queue: list[GangRequest]
    tenants: dict[str, SimTenant]


def make_load(jobs: int, nodes: int, *, full: bool, borrowing: bool = False, seed: int = 1) -> Load:
    """A queue of so many jobs before so many eight-GPU nodes.

    :param full: nearly all GPUs are held, by tenants in the measure of their quotas; else all are free.
    :param borrowing: the last tenant holds twice its quota, so that others have a right to half of it.
    """
    source = random.Random(seed)
    # Room for one CPU and some memory of the node's own processes.
    views = tuple(
        NodeView(f"node-{number:05}", KINDS[number % 2], GPUS_PER_NODE, 8 * CPU_MILLIS_PER_GPU, 8 * MEMORY_PER_GPU)
        for number in range(nodes)
    )
    quota = {kind: nodes * GPUS_PER_NODE // len(KINDS) // len(TENANTS) for kind in KINDS}
    tenants = {name: SimTenant(name, quota, cohort="all") for name in TENANTS}
    grants = tuple(_grants(views, source, borrowing)) if full else ()
    return Load(Snapshot(views, grants), [make_request(number, source) for number in range(jobs)], tenants)


def make_request(number: int, source: random.Random) -> GangRequest:
    """A waiting job."""
    size = _size(source)
    learners, gpus = (1, size) if size <= GPUS_PER_NODE else (size // GPUS_PER_NODE, GPUS_PER_NODE)
    tenant = source.randrange(len(TENANTS))
    kind = None if source.random() < 0.1 else source.choice(KINDS)
    return GangRequest(
        job_id=f"job-{number:06}",
        tenant=TENANTS[tenant],
        learners_min=learners,
        learners_max=learners,
        gpus=gpus,
        gpu_type=kind,
        cpu_millis=gpus * CPU_MILLIS_PER_GPU,
        memory_bytes=gpus * MEMORY_PER_GPU,
        priority=0,
        submitted_at=NOW - timedelta(seconds=source.randrange(1, 86_400)),
        user=f"user-{tenant}-{source.randrange(20)}",
        expected_s=source.choice((None, 600.0, 7_200.0, 86_400.0)),
    )


def _grants(views: tuple[NodeView, ...], source: random.Random, borrowing: bool) -> Iterator[Grant]:
    """Fill node by node; those that run are older than those that wait."""
    number = 0
    for at, view in enumerate(views):
        left = GPUS_PER_NODE - (source.random() < _FREE_NODES)
        # By turns, so that what tenants hold is in the measure of their (equal) quotas.
        turn = at // len(KINDS) % len(TENANTS)
        tenant = TENANTS[-1 if borrowing and turn == 0 else turn]
        while left:
            gpus = min(_size(source), left, GPUS_PER_NODE)
            left -= gpus
            number += 1
            began = NOW - timedelta(seconds=source.randrange(3_600, 604_800))
            yield Grant(
                job_id=f"run-{number:06}",
                tenant=tenant,
                epoch=number,
                placements=(Placement(0, view.name),),
                gpus=gpus,
                cpu_millis=gpus * CPU_MILLIS_PER_GPU,
                memory_bytes=gpus * MEMORY_PER_GPU,
                gpu_type=view.gpu_type,
                user=f"user-{tenant}",
                granted_at=began,
                saved_at=max(began, NOW - timedelta(seconds=source.randrange(3_600))),
                expected_end=NOW + timedelta(seconds=source.randrange(1, 86_400)) if source.random() < 0.75 else None,
            )


def _size(source: random.Random) -> int:
    return source.choices([size for size, _ in _SIZES], [weight for _, weight in _SIZES])[0]
