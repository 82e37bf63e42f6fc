"""The merged table of Philly's jobs: a row a job, from several published derivations of the trace.

Columns: ``job_id``, ``submit_time``, ``num_gpus``, ``placement`` (GPUs by server of the first attempt, "2+2"), ``num_nodes``,
``span_s``, ``run_s`` (may be empty), ``vc`` (may be empty). Others are left alone.
"""

from __future__ import annotations

from pathlib import Path

from ffdl_ops.lab.traces.reading import Fields, csv_rows
from ffdl_ops.lab.traces.records import TraceJob

__all__ = ["COLUMNS", "read_table"]

COLUMNS = ("job_id", "submit_time", "num_gpus", "placement", "num_nodes", "span_s", "run_s", "vc")


def read_table(path: Path | str) -> list[TraceJob]:
    """All jobs of the table, in its order."""
    return [_job(row) for row in csv_rows(path, COLUMNS)]


def _job(row: Fields) -> TraceJob:
    gpus = row.whole("num_gpus", 1)
    return TraceJob(
        job_id=row.text("job_id"),
        tenant=row.optional_text("vc"),
        user="",
        submitted_at=row.moment("submit_time"),
        gpus=gpus,
        servers=_servers(row, gpus),
        span_s=row.seconds("span_s"),
        run_s=row.optional_seconds("run_s"),
    )


def _servers(row: Fields, gpus: int) -> tuple[int, ...]:
    try:
        servers = tuple(int(part) for part in row.text("placement").split("+"))
    except ValueError:
        raise row.wrong("placement", 'GPUs by server, as "2+2"') from None
    if min(servers) < 1 or sum(servers) != gpus:
        raise row.wrong("placement", f"{gpus} GPUs in all, as num_gpus says")
    if row.whole("num_nodes", 1) != len(servers):
        raise row.wrong("num_nodes", f"{len(servers)}, as placement says")
    return servers
