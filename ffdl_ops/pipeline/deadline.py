"""How long a job may take: the manifest's `deadline`, from its creation, waiting included; and the tenant's `max_run_time`, which
counts the time in which its learners ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ffdl_ops.adapters.cluster.observe import PodView, evidence_of
from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.pipeline.judge import GangState, Verdict
from ffdl_ops.pipeline.services import Services, now

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord

__all__ = ["past_deadline"]


def past_deadline(svc: Services, job: JobRecord, verdict: Verdict, views: Sequence[PodView]) -> Verdict:
    """The verdict, turned into the attempt's end when the job has had its time: by its manifest, or by its tenant's limit."""
    if not views:
        return verdict
    words = _past(svc, job)
    if words is None:
        return verdict
    first, *rest = [evidence_of(view) for view in views]
    first = replace(first, pod_reason="DeadlineExceeded", pod_message=words)
    return Verdict(GangState.ENDED, words, (first, *rest))


def _past(svc: Services, job: JobRecord) -> str | None:
    limit_s = load_manifest(job.manifest).deadline_seconds
    age_s = (now() - job.created_at).total_seconds()
    if limit_s is not None and age_s > limit_s:
        return f"the job's deadline of {limit_s:.0f} s has passed ({age_s:.0f} s since it was submitted)"
    most_s = svc.tenant(job.tenant).max_run_seconds if job.tenant in svc.settings.tenants else None
    if most_s is None:
        return None
    ran_s = sum(((one.ended_at or now()) - one.started_at).total_seconds() for one in svc.ledger.attempts(job.job_id))
    if ran_s <= most_s:
        return None
    return f"the longest run time of tenant {job.tenant}, {most_s:.0f} s, has passed ({ran_s:.0f} s over all attempts)"
