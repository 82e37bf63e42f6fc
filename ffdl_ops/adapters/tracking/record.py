"""What a run says, as plain values: names, tags, parameters, and which points are new. No network here."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ffdl_ops.adapters.tracking.points import MAX_KEYS, Point, clean_key, wire_value

if TYPE_CHECKING:
    from ffdl_ops.adapters.tracking.runs import JobFacts, RunView

__all__ = [
    "DROPPED_TAG",
    "admitted",
    "chunks",
    "dropped_message",
    "experiment_name",
    "job_params",
    "job_tags",
    "logged_steps",
    "logged_tag",
    "newest_attempt",
    "read_point",
    "run_name",
    "wire_point",
    "wire_tags",
]

DROPPED_TAG = "ffdl.metrics_dropped"
"""The tag that says that a run had more keys than it may have."""

_MAX_TAG = 8000
_MAX_PARAM = 6000
_MAX_NAME = 250
_EVERY_KEY = "*"

_T = TypeVar("_T")


def experiment_name(tenant: str) -> str:
    """The tenant's experiment."""
    return f"ffdl/{tenant}"


def run_name(name: str, job_id: str) -> str:
    """The job's name and the first characters of its id, so that two jobs of one name differ."""
    short = job_id.removeprefix("job-")[:6]
    return f"{name[: _MAX_NAME - len(short) - 1]}-{short}"


def job_tags(job: JobFacts) -> dict[str, str]:
    """The tags of a new run."""
    own = {
        "mlflow.user": job.user,
        "mlflow.source.name": job.dag_id,
        "ffdl.job_id": job.job_id,
        "ffdl.tenant": job.tenant,
        "ffdl.name": job.name,
        "ffdl.framework": job.framework,
        "ffdl.model": job.model or job.name,
        "ffdl.gpu_type": job.gpu_type,
        "ffdl.learners": job.learners,
        "ffdl.gpus": job.gpus,
        "ffdl.user": job.user,
        "ffdl.dag_id": job.dag_id,
        "ffdl.run_id": job.run_id,
    }
    return {**job.tags, **{key: str(value) for key, value in own.items() if value is not None}}


def job_params(job: JobFacts) -> dict[str, str]:
    """The parameters of a run, cut to what MLflow keeps."""
    own = {
        "framework": job.framework,
        "framework_version": job.framework_version,
        "learners": job.learners,
        "gpus": job.gpus,
        "gpu_type": job.gpu_type,
    }
    merged = {**job.params, **own}
    named = ((clean_key(str(key)), value) for key, value in merged.items() if value is not None)
    return {key: str(value)[:_MAX_PARAM] for key, value in named if key}


def wire_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Tags as MLflow's REST interface takes them, cut to what it keeps."""
    return [{"key": key[:_MAX_NAME], "value": str(value)[:_MAX_TAG]} for key, value in tags.items()]


def wire_point(point: Point) -> dict[str, Any]:
    """A point as MLflow's REST interface takes it."""
    return {
        "key": point.key,
        "value": wire_value(point.value),
        "timestamp": point.timestamp_ms,
        "step": point.step,
    }


def read_point(metric: Mapping[str, Any]) -> Point:
    """A point as MLflow's REST interface gives it."""
    return Point(
        key=str(metric["key"]),
        value=float(metric.get("value", math.nan)),
        step=int(metric.get("step", 0)),
        timestamp_ms=int(metric.get("timestamp", 0)),
    )


def newest_attempt(tags: Mapping[str, str]) -> int:
    """The number of the newest attempt that a run is marked with, 0 when there is none."""
    text = tags.get("ffdl.attempts", "0")
    return int(text) if text.isdigit() else 0


def logged_tag(attempt: int) -> str:
    """The tag that keeps how far the attempts before this one had logged."""
    return f"ffdl.attempt.{attempt}.logged_before"


def logged_steps(latest: Mapping[str, Point]) -> str:
    """How far each metric had come, as a tag's value; one number for all when that would be too long."""
    of_users = (one for one in latest.values() if one.step > 0 and not one.key.startswith("ffdl."))
    steps = {one.key: one.step for one in sorted(of_users, key=lambda one: one.key)}
    text = json.dumps(steps, separators=(",", ":"))
    return text if len(text) <= _MAX_TAG else json.dumps({_EVERY_KEY: max(steps.values())})


def admitted(
    points: Iterable[Point], view: RunView, logged: Callable[[str, int], bool] | None = None
) -> tuple[list[Point], set[str]]:
    """The points that are to be written, and the keys that are one too many.

    A point is left out when an attempt before the newest one had logged its step: training goes on from a
    checkpoint that is older than the last thing printed, and a curve that goes back and forth is no curve.

    :param logged: says of a key and a step instead whether it is left out.
    """
    before = _logged_before(view.tags)
    logged = logged or (lambda key, step: step <= before.get(key, before.get(_EVERY_KEY, 0)))
    known = {key for key in view.latest if not key.startswith("ffdl.")}
    kept: dict[Point, None] = {}
    refused: set[str] = set()
    for point in points:
        key = clean_key(point.key)
        if key is None:
            continue
        if key not in known:
            if len(known) >= MAX_KEYS:
                refused.add(key)
                continue
            known.add(key)
        if point.step > 0 and logged(key, point.step):
            continue
        kept[Point(key, point.value, point.step, point.timestamp_ms)] = None
    return list(kept), refused


def dropped_message(refused: set[str]) -> str:
    """What the tag on a run with too many keys says."""
    some = ", ".join(sorted(refused)[:5])
    return f"A run keeps at most {MAX_KEYS} metrics; the first ones stay. Left out, among others: {some}"


def chunks(items: Sequence[_T], size: int) -> Iterable[list[_T]]:
    """The items, so many at a time."""
    return (list(items[start : start + size]) for start in range(0, len(items), size))


def _logged_before(tags: Mapping[str, str]) -> dict[str, int]:
    try:
        value = json.loads(tags.get(logged_tag(newest_attempt(tags)), "{}"))
    except ValueError:
        return {}
    return {str(key): int(step) for key, step in value.items()} if isinstance(value, dict) else {}
