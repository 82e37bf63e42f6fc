"""Builders for the facts of scheduling decisions, with the defaults of an ordinary small job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ffdl_ops.core.scheduling.model import GangRequest, Grant, NodeView, Placement

__all__ = ["GIB", "START", "Limits", "gang", "grant", "later", "limits", "node"]

GIB = 2**30
START = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Limits:
    """A tenant, as far as the scheduler goes."""

    name: str
    gpu_quota: Mapping[str, int] = field(default_factory=dict)
    max_running: int | None = None
    cpu_quota_millis: int | None = None
    memory_quota_bytes: int | None = None


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
        user="ann",
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
) -> Grant:
    """What a running job holds: a learner on each of these nodes."""
    placements = tuple(Placement(rank, name) for rank, name in enumerate(nodes))
    return Grant(job_id, tenant, 1, placements, gpus, int(cpus * 1000), int(gib * GIB), gpu_type if gpus else None)
