"""From the learners' output to metrics in MLflow: while they train, and once more from the stored logs at the end."""

from __future__ import annotations

import itertools
import logging
import os
import socket
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.cluster.gang import gang_selector
from ffdl_ops.adapters.cluster.observe import pod_view
from ffdl_ops.adapters.tracking.metrics import MetricExtractor
from ffdl_ops.core.jobs.ids import namespace as namespace_of
from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.pipeline.reading import LogCursor, new_lines
from ffdl_ops.pipeline.services import Services, now

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.adapters.tracking.metrics import Point

__all__ = ["Follower", "drain", "owner_name"]

_FOLLOWER_TTL_S = 15.0
_BATCH = 5000
_MOST_POINTS = 200_000

log = logging.getLogger(__name__)


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
            lines, _ = new_lines(svc, view, self._cursor)
            points += self._feed(job, view.name, lines)
        if points:
            svc.tracker.log_batch(job.mlflow_run_id, points)
        value = {"attempt": attempt.number, "newest": self._cursor.complete}
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
    count = 0
    points = _unwritten(svc, job)
    while batch := list(itertools.islice(points, _BATCH)):
        svc.tracker.log_batch(job.mlflow_run_id, batch)
        count += len(batch)
        if count >= _MOST_POINTS:
            log.warning("The logs hold more points than the %d that are written at the end; the rest is left out.", count)
            break
    return count


def _unwritten(svc: Services, job: JobRecord) -> Iterator[Point]:
    """The points of the stored logs behind the followers' cursor, read line by line: a log may be larger than memory."""
    saved = svc.ledger.cursor(job.job_id, "metrics") or {}
    store, bucket = svc.store(job.tenant), svc.tenant(job.tenant).bucket
    followed = load_manifest(job.manifest).monitor.enabled
    for attempt in svc.ledger.attempts(job.job_id):
        if attempt.number < int(saved.get("attempt", 0)):
            continue
        newest = dict(saved.get("newest", {})) if saved.get("attempt") == attempt.number else {}
        cursor = LogCursor(newest)
        if not followed:
            svc.tracker.tag_attempt(str(job.mlflow_run_id), attempt.number, _facts_of(svc, job, attempt.number))
        for rank in range(attempt.learners):
            key = f"jobs/{job.job_id}/logs/attempt-{attempt.number}/learner-{rank + 1}.log"
            if not store.exists(bucket, key):
                continue
            pod = attempt.pods.get(rank, {})
            extractor = MetricExtractor(metrics_spec(job))
            for line in cursor.fresh(pod.get("pod", str(rank)), store.lines(bucket, key)):
                yield from extractor.feed(line)
            extractor.close()


def _facts_of(svc: Services, job: JobRecord, number: int) -> dict[str, Any]:
    """What is kept of an attempt in MLflow."""
    record = next(one for one in svc.ledger.attempts(job.job_id) if one.number == number)
    nodes = ",".join(sorted({str(pod["node"]) for pod in record.pods.values()}))
    return {"nodes": nodes, "learners": record.learners, "restored_generation": record.restored_generation}


def _progress(points: Sequence[Point]) -> str | None:
    """One line on the newest step of each metric."""
    newest: dict[str, Point] = {}
    for point in points:
        newest[point.key] = point
    if not newest:
        return None
    step = max(point.step for point in newest.values())
    return f"step {step}: " + ", ".join(f"{key} {point.value:g}" for key, point in sorted(newest.items()))
