"""A helper pod that hangs is stopped by the cluster, and its stage says which limit that was."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator

import pytest
import yaml

from ffdl_ops.adapters.storage.store import ObjectStore
from tests.support.outages import suspended
from tests.support.platform import Platform
from tests.support.rig import Rig, eventually

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def helper_seconds(platform: Platform, seconds: int) -> Iterator[None]:
    """Helpers that start inside have so long; the file is read again without a restart."""
    path = platform.config / "platform.yaml"
    before = path.read_text()
    content = yaml.safe_load(before)
    content["timeouts"] = {**content.get("timeouts", {}), "helper_seconds": seconds}
    path.write_text(yaml.safe_dump(content))
    try:
        yield
    finally:
        path.write_text(before)


def test_a_fetch_that_hangs_fails_its_stage_with_the_limit(rig: Rig, platform: Platform) -> None:
    prefix = f"datasets/{uuid.uuid4().hex[:8]}"
    ObjectStore(rig.settings.store_config("vision")).put_bytes("ffdl-vision", f"{prefix}/one.bin", b"x" * 1000)
    names = [node.metadata.name for node in rig.cluster.nodes()]
    for name in names:
        rig.faults.cordon(name)
    try:
        with helper_seconds(platform, 4):
            run = rig.probe(data=f"ffdl-vision/{prefix}")
            [pod] = eventually("its helper", lambda: rig.pods(run), within_s=90)
            with suspended(platform, "s3"):
                for name in names:
                    rig.faults.cordon(name, False)
                rig.wait_task(run, "fetch_data", {"failed"}, within_s=90)
    finally:
        for name in names:
            rig.faults.cordon(name, False)
    job = rig.wait_job(run, {"FAILED"})
    assert job.failure is not None
    assert (job.failure["class"], job.failure["stage"]) == ("platform", "fetch_data")
    assert f"Helper pod {pod} was stopped" in job.failure["summary"]
    assert "timeouts.helper_seconds = 4 s" in job.failure["summary"]
    assert rig.wait_run(run) == "failed"
    assert rig.pods(run) == []
    tasks = {one["task_id"]: one for one in rig.airflow.task_instances(run.dag_id, run.run_id)}
    assert tasks["fetch_data"]["try_number"] == 1
    rig.airflow.clear_run(run.dag_id, run.run_id)
    assert rig.wait_job(run, {"COMPLETED"}, within_s=120).resume_count == 1
