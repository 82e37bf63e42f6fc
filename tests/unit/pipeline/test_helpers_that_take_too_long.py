"""A helper pod has a time of its own: the cluster stops it then, and whoever waits for it does not wait for ever."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes import client as k8s

from ffdl_ops.adapters.cluster.helper import helper_pod
from ffdl_ops.core.errors import PermanentError, TemporaryError
from ffdl_ops.core.platform import PlatformConfig
from ffdl_ops.pipeline import helpers

PLATFORM = PlatformConfig.load({"timeouts": {"helper_seconds": 600, "startup_seconds": 30, "grace_seconds": 10}})
JOB: Any = SimpleNamespace(job_id="job-0123456789", tenant="vision")
NAMESPACE = "ffdl-vision"


def pod(*, code: int | None = None, phase: str = "Running", reason: str | None = None) -> k8s.V1Pod:
    made = helper_pod(PLATFORM, job_id=JOB.job_id, tenant="vision", stage="fetch", number=1, command="fetch", spec={})
    now = datetime(2026, 1, 1, tzinfo=UTC)
    ended = k8s.V1ContainerStateTerminated(exit_code=code, message="half of it") if code is not None else None
    running = k8s.V1ContainerStateRunning(started_at=now) if code is None else None
    state = k8s.V1ContainerState(running=running, terminated=ended)
    status = k8s.V1ContainerStatus(
        name="helper", image="i", image_id="i", ready=True, restart_count=0, state=state
    )  # fmt: skip
    made.status = k8s.V1PodStatus(phase=phase, reason=reason, container_statuses=[status])
    return made


class Cluster:
    """One pod, and what was deleted."""

    def __init__(self, only: k8s.V1Pod | None) -> None:
        self.only = only
        self.deleted: list[str] = []

    def pod(self, namespace: str, name: str) -> k8s.V1Pod | None:
        return self.only

    def delete_pod(self, namespace: str, name: str, **how: Any) -> None:
        self.deleted.append(name)


def services(only: k8s.V1Pod | None) -> Any:
    return SimpleNamespace(platform=PLATFORM, cluster=Cluster(only))


def test_the_cluster_is_told_the_limit() -> None:
    assert pod().spec.active_deadline_seconds == 600


@pytest.mark.parametrize("code", [143, 137, 0, None])
def test_one_that_was_stopped_by_the_clock_is_told_with_the_limit_and_not_tried_again(code: int | None) -> None:
    svc = services(pod(code=code, phase="Failed", reason="DeadlineExceeded"))
    end = helpers.helper_end(svc, NAMESPACE, "one")
    assert end is not None
    with pytest.raises(PermanentError, match=r"timeouts\.helper_seconds = 600 s.*raise timeouts\.helper_seconds"):
        helpers.result_of(svc, JOB, end)
    assert svc.cluster.deleted == ["one"]


def test_one_that_was_stopped_otherwise_is_tried_again() -> None:
    svc = services(pod(code=143, phase="Failed"))
    with pytest.raises(TemporaryError):
        helpers.result_of(svc, JOB, helpers.helper_end(svc, NAMESPACE, "one"))  # type: ignore[arg-type]


def test_one_whose_node_does_not_stop_it_is_given_up_and_removed() -> None:
    svc = services(pod())
    assert helpers.helper_end(svc, NAMESPACE, "one", age_s=630) is None
    end = helpers.helper_end(svc, NAMESPACE, "one", age_s=701)
    assert end is not None and end.overdue
    with pytest.raises(PermanentError, match="did not end in 701 s"):
        helpers.result_of(svc, JOB, end)
    assert svc.cluster.deleted == ["one"]


class Endless(helpers.HelperStep):
    """A step whose helper never ends."""

    def needed(self, svc: Any, job: Any) -> bool:
        return True

    def start(self, svc: Any, job: Any) -> str:
        return "one"

    def finish(self, svc: Any, job: Any, end: helpers.HelperEnd) -> dict[str, Any]:
        return helpers.result_of(svc, job, end)


def test_conclude_does_not_wait_for_ever_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 100_000, 100))
    monkeypatch.setattr(helpers.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(helpers.time, "sleep", lambda seconds: None)
    with pytest.raises(PermanentError, match=r"helper_seconds = 600 s"):
        helpers.run_step(services(pod()), JOB, Endless())
