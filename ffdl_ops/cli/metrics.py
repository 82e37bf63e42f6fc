"""`ffdl metrics`: what MLflow holds of a job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ffdl_ops.cli.options import as_json, job_argument, pass_session
from ffdl_ops.cli.output import emit_json, say, show_table, show_time
from ffdl_ops.cli.places import mlflow_url
from ffdl_ops.cli.session import Session
from ffdl_ops.core.errors import UserError

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.adapters.tracking.points import Point
    from ffdl_ops.adapters.tracking.runs import RunView

__all__ = ["commands"]


@click.command()
@job_argument
@click.option("--key", "keys", multiple=True, metavar="NAME", help="Every point of this metric, not only its last one.")
@as_json
@pass_session
def metrics(session: Session, job: str, keys: tuple[str, ...], as_json: bool) -> None:
    """Show a job's metrics: the last point of each, or all points of those named."""
    record = session.job(job)
    view = _run_of(session, record)
    unknown = sorted(set(keys) - set(view.latest))
    if unknown:
        there = ", ".join(sorted(view.latest)) or "none yet"
        raise UserError(f"Job {record.job_id} has no metric {unknown[0]!r}; there are {there}.")
    series = {key: session.tracker.series(view.ref.run_id, key) for key in keys}
    if as_json:
        emit_json(
            {
                "job_id": record.job_id,
                "mlflow_run_id": view.ref.run_id,
                "status": view.status,
                "url": mlflow_url(session, record),
                "latest": {key: _point(point) for key, point in sorted(view.latest.items())},
                "series": {key: [_point(point) for point in points] for key, points in series.items()},
            }
        )
        return
    points = (
        [point for key in keys for point in series[key]] if keys else [view.latest[key] for key in sorted(view.latest)]
    )
    if not points:
        say(f"{record.job_id} has no metrics yet.")
        return
    show_table(
        ["METRIC", ">STEP", ">VALUE", "AT (UTC)"],
        [(point.key, point.step, f"{point.value:.6g}", show_time(_at(point))) for point in points],
    )


def _run_of(session: Session, job: JobRecord) -> RunView:
    if job.mlflow_run_id:
        return session.tracker.run(job.mlflow_run_id)
    view = session.tracker.find_run(job.tenant, job.job_id)
    if view is None:
        raise UserError(f"Job {job.job_id} has no run in MLflow yet; its `plan` makes it (it is {job.state}).")
    return view


def _at(point: Point) -> datetime:
    return datetime.fromtimestamp(point.timestamp_ms / 1000, UTC)


def _point(point: Point) -> dict[str, object]:
    return {"step": point.step, "value": point.value, "at": _at(point)}


commands = [metrics]
