"""A job as a trace recorded it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["TraceJob"]


@dataclass(frozen=True)
class TraceJob:
    """A job as a trace recorded it, whichever the trace.

    :param tenant: the virtual cluster whose quota it ran under; empty when the trace does not say.
    :param gpus: GPUs of its first attempt, in all (the study's "size"); 0 when it never ran.
    :param servers: GPUs by server of its first attempt, as they lay.
    :param span_s: seconds from the first start to the last end (the study's "run time"); ``None`` while it runs, or when it
        never did.
    :param run_s: seconds that its attempts ran, without the waits between them; ``None`` when not known.
    :param status: how it ended, in the trace's words.
    :param waits_s: seconds of each wait: from arrival to the first start, then from an attempt's end to the next one's start,
        as far as both are known.
    """

    job_id: str
    tenant: str
    user: str
    submitted_at: datetime
    gpus: int
    servers: tuple[int, ...]
    span_s: float | None
    run_s: float | None = None
    status: str = ""
    waits_s: tuple[float, ...] = ()
