"""The manifest's `deadline`: how long a job may take, from its creation, waiting included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ffdl_ops.adapters.cluster.observe import PodView, evidence_of
from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.pipeline.judge import GangState, Verdict
from ffdl_ops.pipeline.services import now

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord

__all__ = ["past_deadline"]


def past_deadline(job: JobRecord, verdict: Verdict, views: Sequence[PodView]) -> Verdict:
    """The verdict, turned into the attempt's end when the job has had its time."""
    limit_s = load_manifest(job.manifest).deadline_seconds
    age_s = (now() - job.created_at).total_seconds()
    if limit_s is None or age_s <= limit_s or not views:
        return verdict
    words = f"the job's deadline of {limit_s:.0f} s has passed ({age_s:.0f} s since it was submitted)"
    first, *rest = [evidence_of(view) for view in views]
    first = replace(first, pod_reason="DeadlineExceeded", pod_message=words)
    return Verdict(GangState.ENDED, words, (first, *rest))
