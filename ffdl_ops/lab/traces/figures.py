"""What the study of the Philly cluster counts, over jobs of a trace: sizes, GPU time, run times, how they lay on servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ffdl_ops.lab.traces.records import TraceJob

__all__ = ["SIZES", "SizeFigures", "by_servers", "by_size", "percentile"]

SIZES = {"1": (1, 1), "2-4": (2, 4), "5-8": (5, 8), ">8": (9, 1 << 30)}
"""The study's classes of jobs, by GPUs."""
_WEEK_S = 7 * 86_400


@dataclass(frozen=True)
class SizeFigures:
    """What one class of jobs comes to.

    :param jobs_percent: and `gpu_time_percent`: its part of all.
    :param minutes_p50: percentiles of the run time, between neighbours by their distance.
    :param over_a_week_percent: the part of its jobs that ran longer than a week.
    """

    jobs: int
    jobs_percent: float
    gpu_time_percent: float
    minutes_p50: float
    minutes_p90: float
    minutes_p95: float
    over_a_week_percent: float


def by_size(jobs: Iterable[TraceJob]) -> dict[str, SizeFigures]:
    """The figures of each class, over the jobs whose run time is known."""
    known = [(job.gpus, job.span_s) for job in jobs if job.span_s is not None and job.gpus]
    gpu_time = sum(gpus * span for gpus, span in known)
    found = {}
    for name, (least, most) in SIZES.items():
        mine = [(gpus, span) for gpus, span in known if least <= gpus <= most]
        spans = sorted(span for _, span in mine)
        if spans:
            found[name] = SizeFigures(
                jobs=len(mine),
                jobs_percent=100 * len(mine) / len(known),
                gpu_time_percent=100 * sum(gpus * span for gpus, span in mine) / gpu_time if gpu_time else 0.0,
                minutes_p50=percentile(spans, 50) / 60,
                minutes_p90=percentile(spans, 90) / 60,
                minutes_p95=percentile(spans, 95) / 60,
                over_a_week_percent=100 * sum(span > _WEEK_S for span in spans) / len(spans),
            )
    return found


def by_servers(jobs: Iterable[TraceJob], gpus: int) -> dict[int, int]:
    """Of the jobs of one size, how many lay on how many servers."""
    return dict(sorted(Counter(len(job.servers) for job in jobs if job.gpus == gpus).items()))


def percentile(ordered: Sequence[float], percent: float) -> float:
    """A percentile of numbers in ascending order; between two of them, by the distance to each."""
    at = (len(ordered) - 1) * percent / 100
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])
