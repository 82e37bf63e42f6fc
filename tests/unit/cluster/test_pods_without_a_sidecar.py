"""A job whose checkpoints are not taken up has no side-car, and asks for no room for one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ffdl_ops.adapters.cluster.gang import GangSpec, learner_pod, learner_template
from ffdl_ops.adapters.cluster.specs import HELPER_CPU_MILLIS, HELPER_MEMORY_BYTES
from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.core.platform import PlatformConfig
from ffdl_ops.pipeline.admission import request_of
from ffdl_ops.pipeline.steps import CHECKPOINT
from tests.support.waiting import stored


def manifest(memory: str = "2Gi", **more: Any) -> dict[str, Any]:
    return {"name": "x", "framework": {"name": "pytorch", "command": "c"}, "cpus": 1, "memory": memory, **more}


def job(**more: Any) -> Any:
    return SimpleNamespace(**{**vars(stored()), "manifest": manifest(**more), "gpus": 0})


@pytest.mark.parametrize(("checkpoint", "names"), [({}, ["prepare", "sidecar"]), ({"enabled": False}, ["prepare"])])
def test_the_sidecar_follows_the_manifest(checkpoint: dict[str, Any], names: list[str]) -> None:
    spec = GangSpec("job-1", "vision", load_manifest(manifest(checkpoint=checkpoint)), 1, 1, 20_000, {})
    pod = learner_pod(learner_template(spec, PlatformConfig.load({})), spec, 0, None)
    assert [one.name for one in pod.spec.init_containers] == names
    assert any(one.name == "CHECKPOINT_DIR" for one in pod.spec.containers[0].env)


@pytest.mark.parametrize(
    ("memory", "checkpoint", "expected"),
    [
        ("2Gi", {}, (1000 + HELPER_CPU_MILLIS, (2 << 30) + HELPER_MEMORY_BYTES)),
        ("2Gi", {"enabled": False}, (1000, 2 << 30)),
        ("64Mi", {"enabled": False}, (1000, HELPER_MEMORY_BYTES)),  # what prepares the pod runs before, and counts too
    ],
)
def test_the_scheduler_is_asked_for_what_the_pod_takes(
    memory: str, checkpoint: dict[str, Any], expected: tuple[int, int]
) -> None:
    svc: Any = SimpleNamespace(ledger=SimpleNamespace(leases=lambda job_id: []))
    request = request_of(svc, job(memory=memory, checkpoint=checkpoint))
    assert (request.cpu_millis, request.memory_bytes) == expected


def test_nothing_is_scanned_for_a_last_checkpoint() -> None:
    ledger = SimpleNamespace(attempts=lambda job_id: [SimpleNamespace(number=1)], cursor=lambda job_id, name: None)
    svc: Any = SimpleNamespace(ledger=ledger)
    assert CHECKPOINT.needed(svc, job())
    assert not CHECKPOINT.needed(svc, job(checkpoint={"enabled": False}))
