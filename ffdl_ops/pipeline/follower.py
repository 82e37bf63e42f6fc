"""Reading the learners' output, for people and for MLflow, by cursor: a line is taken once.

Every line of the launcher begins with the learner's own time stamp, in order. A cursor is the newest stamp taken of each
learner; reading again from a little before it and dropping what is not newer survives restarts of any reader, a log
that was rotated, and a connection that broke.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.cluster.gang import gang_selector
from ffdl_ops.adapters.cluster.observe import PodView, pod_view
from ffdl_ops.adapters.tracking.metrics import MetricExtractor
from ffdl_ops.core.jobs.ids import namespace as namespace_of
from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.pipeline.services import Services, now

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.adapters.tracking.metrics import Point

__all__ = ["Follower", "LogCursor", "drain", "new_lines", "owner_name"]

_FOLLOWER_TTL_S = 15.0
_OVERLAP_S = 2


@dataclass
class LogCursor:
    """The newest time stamp taken, by pod or learner."""

    newest: dict[str, str] = field(default_factory=dict)

    def take(self, key: str, lines: Iterable[str]) -> list[str]:
        """The lines that are newer than what was taken before; lines without a stamp go with the one before them."""
        last = self.newest.get(key, "")
        taken: list[str] = []
        fresh = not last
        for line in lines:
            stamp = line.partition(" ")[0]
            if _is_stamp(stamp):
                fresh = stamp > last
                if fresh:
                    self.newest[key] = stamp
                    last = stamp
            if fresh and line:
                taken.append(line)
        return taken

    def since_s(self, key: str) -> int | None:
        """How many seconds back to read so that nothing is missed; ``None`` for all."""
        stamp = self.newest.get(key)
        if not stamp:
            return None
        age = now() - datetime.fromisoformat(stamp.replace("Z", "+00:00")).astimezone(UTC)
        return max(1, int(age.total_seconds()) + _OVERLAP_S)


def new_lines(svc: Services, views: Sequence[PodView], cursor: LogCursor) -> list[str]:
    """What the learners have printed since the cursor, learner by learner."""
    lines: list[str] = []
    for view in sorted(views, key=lambda one: one.rank):
        if view.running or view.ended:
            text = svc.cluster.pod_log(view.namespace, view.name, since_s=cursor.since_s(view.name))
            lines += cursor.take(view.name, text.splitlines())
    return lines


class Follower:
    """Writes a job's metrics from its learners' output; at most one works at a time (the ledger's lease decides).

    :param job_id: the job.
    :param owner: who this follower is, for the lease.
    """

    def __init__(self, job_id: str, owner: str) -> None:
        self.job_id = job_id
        self.owner = owner
        self._attempt = 0
        self._extractors: dict[str, MetricExtractor] = {}
        self._cursor = LogCursor()

    def step(self, svc: Services) -> str | None:
        """Read what is new and write it.

        :returns: a line on the progress, when there is any.
        """
        job = svc.ledger.job(self.job_id)
        epoch = svc.ledger.claim_follower(self.job_id, self.owner, now(), _FOLLOWER_TTL_S)
        attempt = svc.ledger.open_attempt(self.job_id)
        if job is None or epoch is None or attempt is None or not job.mlflow_run_id:
            return None
        if attempt.number != self._attempt:
            self._begin(svc, job, attempt.number)
        pods = svc.cluster.pods(namespace_of(job.tenant), gang_selector(job.job_id, attempt.number))
        points: list[Point] = []
        for view in (pod_view(pod) for pod in pods):
            points += self._feed(job, view.name, new_lines(svc, [view], self._cursor))
        if points:
            svc.tracker.log_batch(job.mlflow_run_id, points)
        value = {"attempt": attempt.number, "newest": self._cursor.newest}
        svc.ledger.save_cursor(self.job_id, "metrics", value, epoch)
        return _progress(points)

    def _begin(self, svc: Services, job: JobRecord, attempt: int) -> None:
        """Start on an attempt, from where an earlier follower of it had come."""
        for extractor in self._extractors.values():
            extractor.close()
        self._attempt = attempt
        self._extractors.clear()
        svc.tracker.tag_attempt(str(job.mlflow_run_id), attempt, _facts_of(svc, job, attempt))
        saved = svc.ledger.cursor(self.job_id, "metrics") or {}
        self._cursor = LogCursor(dict(saved["newest"]) if saved.get("attempt") == attempt else {})

    def _feed(self, job: JobRecord, key: str, lines: Iterable[str]) -> list[Point]:
        extractor = self._extractors.get(key)
        if extractor is None:
            extractor = self._extractors[key] = MetricExtractor(metrics_spec(job))
        return [point for line in lines for point in extractor.feed(line)]


def owner_name(what: str) -> str:
    """A follower's name that no other follower has, on any machine."""
    return f"{what}-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"


def metrics_spec(job: JobRecord) -> dict[str, Any] | None:
    """The manifest's evaluation metrics, as the extractor takes them."""
    metrics = load_manifest(job.manifest).evaluation_metrics
    return metrics.model_dump(mode="json", by_alias=True) if metrics else None


def drain(svc: Services, job: JobRecord) -> int:
    """Write the metrics of the stored logs that no follower had read, so that none is missing in the end.

    :returns: how many points were written (a point that was there already is dropped by MLflow).
    """
    if not job.mlflow_run_id:
        return 0
    saved = svc.ledger.cursor(job.job_id, "metrics") or {}
    store, bucket = svc.store(job.tenant), svc.tenant(job.tenant).bucket
    points: list[Point] = []
    for attempt in svc.ledger.attempts(job.job_id):
        if attempt.number < int(saved.get("attempt", 0)):
            continue
        newest = dict(saved.get("newest", {})) if saved.get("attempt") == attempt.number else {}
        cursor = LogCursor(newest)
        for rank in range(attempt.learners):
            key = f"jobs/{job.job_id}/logs/attempt-{attempt.number}/learner-{rank + 1}.log"
            if not store.exists(bucket, key):
                continue
            text = store.get_bytes(bucket, key).decode("utf-8", "replace")
            pod = attempt.pods.get(rank, {})
            extractor = MetricExtractor(metrics_spec(job))
            lines = cursor.take(pod.get("pod", str(rank)), text.splitlines())
            points += [point for line in lines for point in extractor.feed(line)]
    if points:
        svc.tracker.log_batch(job.mlflow_run_id, points)
    return len(points)


def _facts_of(svc: Services, job: JobRecord, number: int) -> dict[str, Any]:
    """What is kept of an attempt in MLflow."""
    record = next(one for one in svc.ledger.attempts(job.job_id) if one.number == number)
    nodes = ",".join(sorted({str(pod["node"]) for pod in record.pods.values()}))
    return {"nodes": nodes, "learners": record.learners, "restored_generation": record.restored_generation}


def _is_stamp(text: str) -> bool:
    return len(text) >= 20 and text[4:5] == "-" and text[10:11] == "T" and text.endswith("Z")


def _progress(points: Sequence[Point]) -> str | None:
    """One line on the newest step of each metric."""
    newest: dict[str, Point] = {}
    for point in points:
        newest[point.key] = point
    if not newest:
        return None
    step = max(point.step for point in newest.values())
    return f"step {step}: " + ", ".join(f"{key} {point.value:g}" for key, point in sorted(newest.items()))
