"""Builders for the facts of scheduling decisions, with the defaults of an ordinary small job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from ffdl_ops.core.scheduling.decisions import Admit, Decision
from ffdl_ops.core.scheduling.model import GangRequest, Grant, Level, NodeView, Placement
from ffdl_ops.core.scheduling.policy import Order, Policy

__all__ = ["FIFO", "GIB", "START", "Limits", "admitted", "gang", "grant", "later", "limits", "node"]

GIB = 2**30
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
FIFO = Policy(Order.FIFO, reserve_after_s=None, level=Level.CLUSTER)
"""Arrival alone: nobody passes, nothing is reserved, learners go anywhere."""


@dataclass(frozen=True)
class Limits:
    """A tenant, as far as the scheduler goes."""

    name: str
    gpu_quota: Mapping[str, int] = field(default_factory=dict)
    max_running: int | None = None
    cpu_quota_millis: int | None = None
    memory_quota_bytes: int | None = None
    weight: float = 1.0
    cohort: str | None = None
    borrow_limit: Mapping[str, int] | None = None
    lend_limit: Mapping[str, int] | None = None
    max_running_per_user: int | None = None
    max_gpus_per_user: int | None = None
    min_run_seconds: float = 0.0


def limits(*tenants: Limits) -> dict[str, Limits]:
    """Tenants by name."""
    return {tenant.name: tenant for tenant in tenants}


def later(seconds: float) -> datetime:
    """A moment after the start."""
    return START + timedelta(seconds=seconds)


def node(
    name: str, gpu_type: str | None = "V100", gpus: int = 4, *, cpus: int = 32, gib: int = 64, up: bool = True
) -> NodeView:
    """A node."""
    return NodeView(name, gpu_type if gpus else None, gpus, cpus * 1000, gib * GIB, ready=up)


def gang(
    job_id: str,
    learners: int | tuple[int, int] = 1,
    gpus: int = 1,
    *,
    tenant: str = "a",
    gpu_type: str | None = "V100",
    cpus: float = 1,
    gib: float = 1,
    priority: int = 0,
    at: float = 0,
    excluded: tuple[str, ...] = (),
    **more: Any,
) -> GangRequest:
    """A request; `at` is its arrival in seconds after the start."""
    least, most = learners if isinstance(learners, tuple) else (learners, learners)
    return GangRequest(
        job_id=job_id,
        tenant=tenant,
        learners_min=least,
        learners_max=most,
        gpus=gpus,
        gpu_type=gpu_type,
        cpu_millis=int(cpus * 1000),
        memory_bytes=int(gib * GIB),
        priority=priority,
        submitted_at=later(at),
        excluded_nodes=frozenset(excluded),
        **{"user": "ann", **more},
    )


def grant(
    job_id: str,
    nodes: list[str],
    gpus: int = 1,
    *,
    tenant: str = "a",
    gpu_type: str | None = "V100",
    cpus: float = 1,
    gib: float = 1,
    **more: Any,
) -> Grant:
    """What a running job holds: a learner on each of these nodes."""
    placements = tuple(Placement(rank, name) for rank, name in enumerate(nodes))
    kind = gpu_type if gpus else None
    facts = {"epoch": 1, "user": "ann", **more}
    return Grant(
        job_id=job_id,
        tenant=tenant,
        placements=placements,
        gpus=gpus,
        cpu_millis=int(cpus * 1000),
        memory_bytes=int(gib * GIB),
        gpu_type=kind,
        **facts,
    )


def admitted(decisions: Iterable[Decision], requests: Iterable[GangRequest], at: datetime = START) -> list[Grant]:
    """The grants that follow from the decisions."""
    by_id = {request.job_id: request for request in requests}
    return [
        Grant(
            job_id=one.job_id,
            tenant=by_id[one.job_id].tenant,
            epoch=number,
            placements=one.placements,
            gpus=by_id[one.job_id].gpus,
            cpu_millis=by_id[one.job_id].cpu_millis,
            memory_bytes=by_id[one.job_id].memory_bytes,
            gpu_type=one.gpu_type,
            priority=by_id[one.job_id].priority,
            user=by_id[one.job_id].user,
            granted_at=at,
        )
        for number, one in enumerate(decisions, 1)
        if isinstance(one, Admit)
    ]
