"""A recorded job as a gang that the scheduler takes.

A trace says how many GPUs a job had, not how its program divides them. Up to a node's GPUs it is one learner; larger ones are a
learner for each whole node; what is no multiple of a node's GPUs is divided into learners of one GPU each. At the closest
level (:attr:`~ffdl_ops.core.scheduling.model.Level.NODE`) each of these lies on whole nodes and one more for the
remainder, the placement that published replays call consolidated. CPU and memory are not limited, since the Philly trace
has neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ffdl_ops.core.scheduling.model import GangRequest, NodeView
from ffdl_ops.lab.simulate.results import SimJob
from ffdl_ops.lab.traces.records import TraceJob

__all__ = ["KIND", "equal_nodes", "sim_job", "sim_jobs"]

KIND = "GPU"
"""The one GPU type of a cluster whose trace names none."""


def sim_job(job: TraceJob, *, gpus_per_node: int = 8) -> SimJob:
    """The job as it is replayed: it runs for its `span_s`, which is also what it is expected to run."""
    if job.span_s is None or job.gpus < 1:
        raise ValueError(f"job {job.job_id} has no known run time or no GPUs, so it can't be replayed")
    learners, gpus = 1, job.gpus
    if job.gpus > gpus_per_node:
        whole = job.gpus % gpus_per_node == 0
        learners, gpus = (job.gpus // gpus_per_node, gpus_per_node) if whole else (job.gpus, 1)
    request = GangRequest(
        job_id=job.job_id,
        tenant=job.tenant,
        learners_min=learners,
        learners_max=learners,
        gpus=gpus,
        gpu_type=KIND,
        cpu_millis=0,
        memory_bytes=0,
        priority=0,
        submitted_at=job.submitted_at,
        user=job.user,
        expected_s=job.span_s,
    )
    return SimJob(request, job.span_s)


def sim_jobs(
    jobs: Iterable[TraceJob],
    *,
    tenants: Iterable[str] | None = None,
    since: datetime | None = None,
    before: datetime | None = None,
    gpus_per_node: int = 8,
) -> list[SimJob]:
    """Those jobs of a trace that can be replayed: with a tenant, GPUs and a known run time.

    :param tenants: only theirs.
    :param since: and `before`: only those that came in this time.
    """
    only = None if tenants is None else frozenset(tenants)
    # Replays break ties by job id: numbers of one length sort as numbers do.
    return [
        sim_job(job, gpus_per_node=gpus_per_node)
        for job in jobs
        if job.tenant
        and job.gpus
        and job.span_s is not None
        and (only is None or job.tenant in only)
        and (since is None or job.submitted_at >= since)
        and (before is None or job.submitted_at < before)
    ]


def equal_nodes(count: int, gpus: int = 8) -> list[NodeView]:
    """So many nodes of the same size, without limits on CPU and memory."""
    return [NodeView(f"node-{number:04}", KIND, gpus, 1, 1) for number in range(count)]
