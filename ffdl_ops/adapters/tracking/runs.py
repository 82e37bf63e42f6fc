"""A job's run in MLflow: created once, found again by its job, written by one writer.

A run carries the tag ``ffdl.job_id``; everything that asks for a job's run looks for that first, so that a
repeated task finds the run of its first try. What stays the same for a job is a parameter and is written
once; what belongs to an attempt is a tag ``ffdl.attempt.<n>.<fact>``, which may be written again. Files never
pass through MLflow: their addresses in the object store are tags ``ffdl.<what>_uri``.

What it does not do: hold metrics back while MLflow is down (the caller keeps its cursor and repeats), or keep
two writers of one run apart (the ledger's follower lease does).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ffdl_ops.adapters.tracking import record
from ffdl_ops.adapters.tracking.points import Point, clean_key
from ffdl_ops.adapters.tracking.rest import MlflowApi, TrackingRefused

__all__ = ["JobFacts", "RunRef", "RunView", "Tracker"]

_TERMINAL = ("FINISHED", "FAILED", "KILLED")
_BATCH = 1000
_SERIES_PAGE = 20000


@dataclass(frozen=True)
class JobFacts:
    """What is said of a job in MLflow.

    :param job_id: the job's id; identifies the run.
    :param tenant: the tenant; its experiment is ``ffdl/<tenant>``.
    :param name: the job's name as its user gave it.
    :param framework: such as ``pytorch``.
    :param learners: how many.
    :param gpus: GPUs per learner.
    :param params: what else stays the same for the whole job, as parameters.
    :param tags: further tags, written as they are.
    """

    job_id: str
    tenant: str
    name: str
    framework: str
    learners: int
    gpus: int
    model: str | None = None
    framework_version: str | None = None
    gpu_type: str | None = None
    user: str | None = None
    dag_id: str | None = None
    run_id: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRef:
    """Where a job's run is: the ids of its experiment and of itself."""

    experiment_id: str
    run_id: str


@dataclass(frozen=True)
class RunView:
    """A run as it stands: its status, tags and parameters, and the newest point of each metric."""

    ref: RunRef
    status: str
    tags: Mapping[str, str]
    params: Mapping[str, str]
    latest: Mapping[str, Point]


class Tracker:
    """The record of jobs in one MLflow server. Every call ends within seconds, or raises.

    :param uri: the server's address as the platform reaches it.
    :param public_uri: its address for people, when that is another.
    :param login: user and password; without it the address or the environment has them.
    :param budget_s: seconds that one request may take, with its retries.

    Each method raises `TrackingUnavailable` (a `TemporaryError`) when MLflow does not answer, and
    `TrackingRefused` (a `PermanentError`) when it says no.
    """

    def __init__(
        self,
        uri: str,
        *,
        public_uri: str | None = None,
        login: tuple[str, str] | None = None,
        budget_s: float = 10.0,
    ) -> None:
        self._api = MlflowApi(uri, login=login, budget_s=budget_s)
        self._public = (public_uri or self._api.base).rstrip("/")

    def ensure_run(self, job: JobFacts) -> RunRef:
        """The job's run: the one that there is, else a new one.

        When two create it at the same time, the oldest stays and is what everybody gets from then on; the other one
        is deleted.
        """
        experiment_id = self.ensure_experiment(job.tenant)
        view = self._find(experiment_id, job.job_id)
        if view is None:
            body = {"experiment_id": experiment_id, "run_name": record.run_name(job.name, job.job_id)}
            tags = record.wire_tags(record.job_tags(job))
            self._api.post("runs/create", {**body, "start_time": _now_ms(), "tags": tags})
            view = self._find(experiment_id, job.job_id)
        if view is None:
            raise TrackingRefused(f"MLflow created a run for {job.job_id} and does not list it.", code="")
        self._params_once(view, record.job_params(job))
        return view.ref

    def ensure_experiment(self, tenant: str) -> str:
        """The id of the tenant's experiment, which is made, or brought back after it was deleted, when there is none."""
        found = self._experiment(tenant)
        if found is None:
            body = {"name": record.experiment_name(tenant), "tags": record.wire_tags({"ffdl.tenant": tenant})}
            try:
                return str(self._api.post("experiments/create", body)["experiment_id"])
            except TrackingRefused as error:
                # Somebody else may have been a moment faster.
                found = self._experiment(tenant) if error.code == "RESOURCE_ALREADY_EXISTS" else None
                if found is None:
                    raise
        if found.get("lifecycle_stage") == "deleted":
            # Its name can't be given to another one, so without it the tenant could run no job any more.
            self._api.post("experiments/restore", {"experiment_id": found["experiment_id"]})
        return str(found["experiment_id"])

    def find_run(self, tenant: str, job_id: str) -> RunView | None:
        """The job's run as it stands, ``None`` when there is none."""
        found = self._experiment(tenant)
        return self._find(str(found["experiment_id"]), job_id) if found else None

    def run(self, run_id: str) -> RunView:
        """A run as it stands."""
        return _view(self._api.get("runs/get", {"run_id": run_id})["run"])

    def tag_attempt(self, run_id: str, attempt: int, facts: Mapping[str, Any]) -> None:
        """Mark the run with an attempt and its facts (nodes, restored generation, end, …); may be repeated.

        The first mark of an attempt notes how far the attempts before it had logged: `log_batch` keeps a step
        that is trained again from being logged again.
        """
        tags = {f"ffdl.attempt.{attempt}.{key}": str(value) for key, value in facts.items() if value is not None}
        view = self.run(run_id)
        if record.newest_attempt(view.tags) < attempt:
            tags["ffdl.attempts"] = str(attempt)
            if attempt > 1:
                tags[record.logged_tag(attempt)] = record.logged_steps(view.latest)
        self._tag(run_id, tags)

    def log_batch(self, run_id: str, points: Sequence[Point]) -> int:
        """Write points, 1,000 a request.

        Repeating a call is harmless: MLflow drops a point that it has, and a point of a step that an earlier
        attempt had logged is dropped here. Keys are made fit for MLflow; a run has at most `MAX_KEYS` of
        them.

        :returns: how many points were sent.
        """
        if not points:
            return 0
        view = self.run(run_id)
        return self._log(run_id, view, *record.admitted(points, view))

    def log_absent(self, run_id: str, points: Sequence[Point], logged: dict[str, set[int]]) -> int:
        """Write points of an attempt before the newest one, of steps that the run has no point of.

        :param logged: by key, the steps that the run has; filled here. One mapping serves one attempt's points.
        :returns: how many points were sent.
        """
        for key in {clean_key(point.key) for point in points if point.step > 0} - {None, *logged}:
            logged[str(key)] = {one.step for one in self.series(run_id, str(key))}
        view = self.run(run_id)
        return self._log(run_id, view, *record.admitted(points, view, lambda key, step: step in logged[key]))

    def _log(self, run_id: str, view: RunView, kept: Sequence[Point], refused: set[str]) -> int:
        for chunk in record.chunks(kept, _BATCH):
            self._api.post("runs/log-batch", {"run_id": run_id, "metrics": [record.wire_point(one) for one in chunk]})
        if refused and record.DROPPED_TAG not in view.tags:
            self._tag(run_id, {record.DROPPED_TAG: record.dropped_message(refused)})
        return len(kept)

    def log_durations(self, run_id: str, seconds: Mapping[str, float]) -> None:
        """Write the seconds of each stage as metrics ``ffdl.seconds.<stage>``; unchanged ones stay."""
        latest = self.run(run_id).latest
        stamp = _now_ms()
        metrics = []
        for stage, value in seconds.items():
            key = f"ffdl.seconds.{stage}"
            before = latest.get(key)
            if before is None or before.value != value:
                step = before.step + 1 if before else 0
                metrics.append(record.wire_point(Point(key, float(value), step, stamp)))
        if metrics:
            self._api.post("runs/log-batch", {"run_id": run_id, "metrics": metrics})

    def tag_uris(self, run_id: str, uris: Mapping[str, str]) -> None:
        """Say where the job's files are: tags ``ffdl.<what>_uri`` with addresses in the object store."""
        self._tag(run_id, {f"ffdl.{what}_uri": uri for what, uri in uris.items()})

    def tag(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Write tags as they are."""
        self._tag(run_id, tags)

    def reopen(self, run_id: str) -> None:
        """Back to RUNNING, for a job that is resumed; does nothing to a run that is running."""
        if self.run(run_id).status in _TERMINAL:
            self._api.post("runs/update", {"run_id": run_id, "status": "RUNNING"})

    def close(self, run_id: str, status: str) -> None:
        """The final status; repeated, it leaves the first end time.

        :param status: ``FINISHED``, ``FAILED`` or ``KILLED``.
        """
        if status not in _TERMINAL:
            raise TrackingRefused(
                f"Status {status!r} ends no run; it has to be one of {', '.join(_TERMINAL)}.", code=""
            )
        if self.run(run_id).status != status:
            self._api.post("runs/update", {"run_id": run_id, "status": status, "end_time": _now_ms()})

    def series(self, run_id: str, key: str) -> list[Point]:
        """Every point of a metric, by step and time."""
        points: list[Point] = []
        token = ""
        while True:
            fields = {
                "run_id": run_id,
                "metric_key": key,
                "max_results": str(_SERIES_PAGE),
                "page_token": token,
            }
            answer = self._api.get("metrics/get-history", {name: value for name, value in fields.items() if value})
            points += [record.read_point(one) for one in answer.get("metrics", [])]
            token = answer.get("next_page_token", "")
            if not token:
                return sorted(points, key=lambda one: (one.step, one.timestamp_ms))

    def url(self, run: RunRef) -> str:
        """The run's page, for people."""
        return f"{self._public}/#/experiments/{run.experiment_id}/runs/{run.run_id}"

    def _params_once(self, view: RunView, params: Mapping[str, str]) -> None:
        """Write the parameters that are missing. The first value stands: MLflow refuses another one for ever."""
        for last_try in (False, True):
            missing = [{"key": key, "value": value} for key, value in params.items() if key not in view.params]
            try:
                for chunk in record.chunks(missing, 100):
                    self._api.post("runs/log-batch", {"run_id": view.ref.run_id, "params": chunk})
                return
            except TrackingRefused:
                if last_try:
                    raise
            # Refused, too, when somebody else wrote them a moment before.
            view = self.run(view.ref.run_id)

    def _tag(self, run_id: str, tags: Mapping[str, str]) -> None:
        for chunk in record.chunks(record.wire_tags(tags), 100):
            self._api.post("runs/log-batch", {"run_id": run_id, "tags": chunk})

    def _experiment(self, tenant: str) -> Mapping[str, Any] | None:
        named = {"experiment_name": record.experiment_name(tenant)}
        try:
            found: Mapping[str, Any] = self._api.get("experiments/get-by-name", named)["experiment"]
        except TrackingRefused as error:
            if error.code == "RESOURCE_DOES_NOT_EXIST":
                return None
            raise
        return found

    def _find(self, experiment_id: str, job_id: str) -> RunView | None:
        """The oldest of the job's runs; later ones are ghosts of a repeated create, and are deleted."""
        of_job = f"tags.\"ffdl.job_id\" = '{job_id}'"
        query = {"experiment_ids": [experiment_id], "filter": of_job, "max_results": 50}
        found = self._api.post("runs/search", query).get("runs", [])
        found.sort(key=lambda one: (int(one["info"].get("start_time", 0)), one["info"]["run_id"]))
        for ghost in found[1:]:
            self._api.post("runs/delete", {"run_id": ghost["info"]["run_id"]})
        return _view(found[0]) if found else None


def _view(run: Mapping[str, Any]) -> RunView:
    info, data = run["info"], run.get("data", {})
    points = [record.read_point(one) for one in data.get("metrics", [])]
    return RunView(
        ref=RunRef(str(info["experiment_id"]), str(info["run_id"])),
        status=str(info["status"]),
        tags={one["key"]: one.get("value", "") for one in data.get("tags", [])},
        params={one["key"]: one.get("value", "") for one in data.get("params", [])},
        latest={one.key: one for one in points},
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
