"""Telling a trace's format from its first line, and reading it as jobs and nodes of a replay."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ffdl_ops.core.scheduling.model import NodeView
from ffdl_ops.lab.simulate.results import SimJob
from ffdl_ops.lab.traces import openb, philly_log, philly_table
from ffdl_ops.lab.traces.gangs import sim_jobs
from ffdl_ops.lab.traces.reading import TraceError, csv_rows, opened
from ffdl_ops.lab.traces.records import TraceJob

__all__ = ["Format", "Load", "format_of", "read_jobs", "read_quotas"]


@dataclass(frozen=True)
class Format:
    """A trace's format: its name, and whether its jobs belong to tenants."""

    name: str
    tenants: bool


_LOG = Format("Philly job log", tenants=True)
_TABLE = Format("merged Philly table", tenants=True)
_PODS = Format("openb pods", tenants=False)


@dataclass(frozen=True)
class Load:
    """What a trace gives to replay.

    :param skipped: jobs of the time and tenants asked for that can't be replayed: without GPUs, tenant, or a known run time.
    """

    format: Format
    jobs: list[SimJob]
    skipped: int


def format_of(path: Path | str) -> Format:
    """Which of the known formats a file has."""
    with opened(path) as file:
        head = file.readline()
    if head.lstrip().startswith("["):
        return _LOG
    columns = {name.strip() for name in head.split(",")}
    for known, wanted in ((_TABLE, philly_table.COLUMNS), (_PODS, openb.POD_COLUMNS)):
        if columns >= set(wanted):
            return known
    raise TraceError(
        f"{path}, line 1: this is neither Philly's cluster_job_log (a JSON list), nor the merged Philly table "
        f"(columns {', '.join(philly_table.COLUMNS)}), nor openb's table of pods (columns {', '.join(openb.POD_COLUMNS)})."
    )


def read_jobs(
    path: Path | str,
    nodes: list[NodeView],
    *,
    tenants: Collection[str] | None = None,
    since: datetime | None = None,
    before: datetime | None = None,
    gpus_per_node: int = 8,
) -> Load:
    """A trace's jobs, of these tenants and this time.

    :param nodes: the cluster; openb's jobs may exclude some of it.
    """
    found = format_of(path)
    if found is _PODS:
        pods = openb.read_pods(path)
        jobs = [job for job in openb.pod_jobs(pods, nodes) if _within(job.request.submitted_at, since, before)]
        return Load(found, jobs, sum(pod.scheduled_s is None for pod in pods))
    records: list[TraceJob] = (philly_log.read_log if found is _LOG else philly_table.read_table)(path)
    asked = [
        job
        for job in records
        if _within(job.submitted_at, since, before) and (tenants is None or job.tenant in tenants)
    ]
    jobs = sim_jobs(asked, gpus_per_node=gpus_per_node)
    return Load(found, jobs, len(asked) - len(jobs))


def read_quotas(path: Path | str) -> dict[str, int]:
    """A table of nodes by virtual cluster: columns ``vc`` and ``node num``."""
    return {row.text("vc"): row.whole("node num", 1) for row in csv_rows(path, ("vc", "node num"))}


def _within(moment: datetime, since: datetime | None, before: datetime | None) -> bool:
    return (since is None or moment >= since) and (before is None or moment < before)
