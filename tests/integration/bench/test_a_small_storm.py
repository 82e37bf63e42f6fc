"""A dozen jobs at once: all end well, and by the cluster's own records no GPU is promised twice."""

from __future__ import annotations

import pytest

from ffdl_ops.lab.bench.storm import measure
from tests.support.platform import Platform

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_all_complete_and_no_node_is_oversubscribed(platform: Platform) -> None:
    result = measure(platform.settings, ["vision", "speech"], 12, limit_s=900)
    assert result["states"] == {"COMPLETED": 12}
    pods = result["pods"]
    assert not pods["oversubscribed"], pods["over"]
    assert pods["seen"] >= 12
    assert all(pods["gpus_max_by_node"][node] <= size for node, size in pods["gpus_of_node"].items())
    assert 0 < pods["gpus_max"] <= 8
    assert result["slots_of_waiting_jobs_max"] == 0
    assert result["steps_s"]["fits_to_running"]["n"] >= 12
