"""What `plan` says of places in the store that are not there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ffdl_ops.adapters.storage.errors import DataMissing
from ffdl_ops.core.errors import UserError
from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.pipeline.operators.plan import PlanOperator
from tests.support.s3 import MemoryStore


class Store(MemoryStore):
    def check_bucket(self, bucket: str) -> None:
        if bucket != "ffdl-vision":
            raise DataMissing(f"bucket {bucket}: not there")


def refused(params: dict[str, Any], **places: str) -> str:
    containers = {part: {"container": place} for part, place in places.items()}
    data = {"id": "data", "type": "mount_cos", **containers}
    manifest = load_manifest({"name": "x", "example": "probe", "data_stores": [data]})
    svc: Any = SimpleNamespace(store=lambda tenant: Store(), tenant=lambda name: SimpleNamespace(bucket="ffdl-vision"))
    with pytest.raises(UserError) as refusal:
        job: Any = SimpleNamespace(tenant="vision", job_id="job-1", dataset=None)
        PlanOperator(task_id="plan", tenant="vision")._check_store(svc, job, manifest, params)
    return str(refusal.value)


def test_a_place_that_is_not_there_is_named_by_its_field_in_the_form() -> None:
    assert refused({"data": "none"}, training_data="none").startswith("data: bucket none")
    assert refused({"data": "x"}, training_data="ffdl-vision/none").startswith("data: There is no data at s3://ffdl-vision/none")
    assert refused({"results": "none"}, training_results="none").startswith("results: bucket none")


def test_a_place_that_is_not_there_is_named_by_its_path_in_a_manifest() -> None:
    said = refused({"manifest": "name: x"}, training_data="none")
    assert said.startswith("data_stores[0].training_data.container: bucket none")
