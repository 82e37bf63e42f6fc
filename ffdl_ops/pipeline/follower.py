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
    from ffdl_ops.adapters.ledger import AttemptRecord, JobRecord
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
        self._pending: list[Point] = []
        self._extractors: dict[str, MetricExtractor] = {}
        self._cursor = LogCursor()

    def step(self, svc: Services) -> str | None:
        """Read what is new and write it. What MLflow did not take is written first the next time, before more is read.

        :returns: a line on the progress, when there is any.
        """
        job = svc.ledger.job(self.job_id)
        epoch = svc.ledger.claim_follower(self.job_id, self.owner, now(), _FOLLOWER_TTL_S)
        if job is None or epoch is None or not job.mlflow_run_id:
            return None
        self._write(svc, job.mlflow_run_id)
        attempt = svc.ledger.open_attempt(self.job_id)
        if attempt is None:
            return None
        if attempt.number != self._attempt:
            self._begin(svc, job, attempt.number, epoch)
        pods = svc.cluster.pods(namespace_of(job.tenant), gang_selector(job.job_id, attempt.number))
        for view in (pod_view(pod) for pod in pods):
            lines, _ = new_lines(svc, view, self._cursor)
            self._pending += self._feed(job, view.name, lines)
        progress = _progress(self._pending)
        self._write(svc, job.mlflow_run_id)
        value = {"attempt": attempt.number, "newest": self._cursor.complete}
        svc.ledger.save_cursor(self.job_id, "metrics", value, epoch)
        return progress

    def _write(self, svc: Services, run_id: str) -> None:
        if self._pending:
            svc.tracker.log_batch(run_id, self._pending)
            self._pending = []

    def _begin(self, svc: Services, job: JobRecord, attempt: int, epoch: int) -> None:
        """Start on an attempt, from where an earlier follower of it had come; keep where the one before was left."""
        for extractor in self._extractors.values():
            extractor.close()
        self._extractors.clear()
        saved = svc.ledger.cursor(self.job_id, "metrics") or {}
        if saved and saved["attempt"] != attempt:
            svc.ledger.save_cursor(self.job_id, _left_at(saved["attempt"]), saved, epoch)
        svc.tracker.tag_attempt(str(job.mlflow_run_id), attempt, _facts_of(svc, job, attempt))
        self._cursor = LogCursor(dict(saved["newest"]) if saved.get("attempt") == attempt else {})
        self._attempt = attempt

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

    The newest attempt first, as a follower would have. Of those before it, then, what no attempt has logged: a step that
    was trained again is in the run already.

    :returns: how many points were read (a point that was there already is dropped by MLflow).
    """
    if not job.mlflow_run_id:
        return 0
    attempts = svc.ledger.attempts(job.job_id)
    count = 0
    for attempt in [*attempts[-1:], *attempts[:-1]]:
        newest = attempt is attempts[-1]
        reached = _reached(svc, job, attempt.number)
        if reached is None:
            svc.tracker.tag_attempt(job.mlflow_run_id, attempt.number, _facts_of(svc, job, attempt.number))
        points = _unwritten(svc, job, attempt, reached or {})
        logged: dict[str, set[int]] = {}
        while batch := list(itertools.islice(points, _BATCH)):
            if newest:
                svc.tracker.log_batch(job.mlflow_run_id, batch)
            else:
                svc.tracker.log_absent(job.mlflow_run_id, batch, logged)
            count += len(batch)
            if count >= _MOST_POINTS:
                log.warning("The logs hold more points than the %d written at the end; the rest is left out.", count)
                return count
    return count


def _reached(svc: Services, job: JobRecord, attempt: int) -> dict[str, str] | None:
    """The newest stamp that a follower of the attempt had taken, by pod; ``None`` when nobody had begun with it."""
    for name in ("metrics", _left_at(attempt)):
        saved = svc.ledger.cursor(job.job_id, name)
        if saved and saved.get("attempt") == attempt:
            return dict(saved.get("newest", {}))
    return None


def _left_at(attempt: int) -> str:
    """The cursor that keeps where a follower left an attempt for the next."""
    return f"metrics:{attempt}"


def _unwritten(svc: Services, job: JobRecord, attempt: AttemptRecord, reached: dict[str, str]) -> Iterator[Point]:
    """The points of an attempt's stored logs from there on, read line by line: a log may be larger than memory."""
    store, bucket = svc.store(job.tenant), svc.tenant(job.tenant).bucket
    cursor = LogCursor(reached)
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
