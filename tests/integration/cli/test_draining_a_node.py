"""A node, and the whole platform, are emptied by the command line; what trained there goes on from its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from ffdl_ops.core.jobs.ids import namespace
from tests.support.rig import Rig, Run, eventually

pytestmark = pytest.mark.slow

ONE_GPU = {"gpus": 1, "gpu_type": "V100", "cpus": "0.1", "memory": "256Mi"}
LONG = "--steps 60 --seconds-per-step 0.5"


@pytest.fixture
def running(platform: Any) -> tuple[Rig, Run]:
    """A probe with a checkpoint."""
    rig = Rig(platform.settings)
    run = rig.probe("vision", LONG, **ONE_GPU)
    rig.wait_job(run, {"PROCESSING"})
    eventually("a checkpoint", lambda: rig.ledger.lease(run.job_id).saved_at, within_s=60)
    return rig, run


def test_a_drained_nodes_job_is_stopped_saved_and_goes_on_elsewhere(
    running: tuple[Rig, Run], ffdl: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, run = running
    monkeypatch.setenv("FFDL_USER", "ann")
    (place,) = rig.ledger.lease(run.job_id).placements
    try:
        done = ffdl("drain", place.node, "--reason", "a fan", "--wait", "--timeout", "90")
        assert run.job_id in done.stdout
        assert f"Nothing runs on {place.node} any more." in done.stdout
        pods = rig.cluster.pods(namespace("vision"), f"ffdl.dev/job={run.job_id},ffdl.dev/attempt")
        assert all(pod.spec.node_name != place.node for pod in pods)
        first = rig.ledger.attempts(run.job_id)[0]
        assert first.failure["class"] == "preempted"
        assert "drained by ann (a fan)" in first.failure["summary"]
        second = eventually("another start", lambda: rig.ledger.attempts(run.job_id)[1:], within_s=60)[0]
        assert second.restored_generation, "it goes on from its checkpoint"
        assert {one.node for one in rig.ledger.lease(run.job_id).placements} != {place.node}
    finally:
        ffdl("uncordon", place.node)
    assert rig.wait_run(run, within_s=150) == "success"
    assert rig.job(run).state == "COMPLETED"
    orders = json.loads(ffdl("audit", "--json", "--limit", "100").stdout)
    mine = [(one["actor"], one["action"]) for one in orders if one["job_id"] in (run.job_id, None)]
    for order in ("cordon", "preempt", "uncordon"):
        assert ("ann", order) in mine


def test_a_drained_platform_holds_nothing_and_starts_nothing_until_it_is_opened(
    running: tuple[Rig, Run], ffdl: Callable[..., Result]
) -> None:
    rig, run = running
    try:
        ffdl("drain", "--all", "--reason", "an upgrade", "--wait", "--timeout", "120")
        rig.wait_job(run, {"QUEUED"})
        told = eventually(
            "why it waits",
            lambda: [
                one
                for one in json.loads(ffdl("queue", "--json").stdout)["waiting"]
                if one["request"]["job_id"] == run.job_id and one["cause"]
            ],
        )
        assert told[0]["cause"] == "closed"
        (shape,) = [
            one
            for one in json.loads(ffdl("demand", "--json").stdout)["demand"]
            if one["shape"]["gpu_type"] == "V100" and one["shape"]["gpus"] == 1
        ]
        assert shape["limits"] >= 1 and shape["more_nodes"] == 0, "more nodes would not help"
        vision = next(one for one in json.loads(ffdl("tenants", "--json").stdout) if one["tenant"] == "vision")
        assert next(one for one in vision["gpus"] if one["gpu_type"] == "V100")["queued"] >= 1
    finally:
        ffdl("uncordon", "--all")
    assert rig.wait_run(run, within_s=150) == "success"
