"""The platform's settings: every field has a default, every mistake a message; which image a job runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.core.platform import PlatformConfig
from ffdl_ops.core.tenancy.tenants import ConfigErrors

FILE = Path(__file__).resolve().parents[3] / "config" / "platform.yaml"
PLATFORM = PlatformConfig.load(FILE.read_text())


def test_the_file_says_what_the_defaults_are() -> None:
    defaults = PlatformConfig()
    for name in type(defaults).model_fields:
        if name not in ("versions", "sizes"):
            assert getattr(PLATFORM, name) == getattr(defaults, name), name
    assert all(PLATFORM.size_for(name) == defaults.size_for(name) for name in ("pytorch", "tensorflow", "caffe"))


def test_an_empty_file_is_the_defaults() -> None:
    assert PlatformConfig.load("") == PlatformConfig.load({}) == PlatformConfig()


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"profile": "cloud"}, "profile"),
        ({"isolation": "some"}, "isolation"),
        ({"images": {"caffe": "A B"}}, "images.caffe"),
        ({"volumes": {"job": {"kind": "hostPath"}}}, "volumes.job"),
        ({"volumes": {"job": {"kind": "hostPath", "path": "relative"}}}, "volumes.job.path"),
        ({"volumes": {"job": {"kind": "persistentVolumeClaim", "claim": "c", "path": "/x"}}}, "volumes.job"),
        ({"cache": {"max_gib": -1}}, "cache.max_gib"),
        ({"cache": {"max_gb": 1}}, "cache.max_gb"),
        ({"timeouts": {"grace_seconds": 5}}, "timeouts.grace_seconds"),
        ({"timeouts": {"startup": 5}}, "timeouts.startup"),
        ({"timeouts": {"helper_seconds": 0}}, "timeouts.helper_seconds"),
        ({"timeouts": {"helper_seconds": 604_801}}, "timeouts.helper_seconds"),
        ({"poll": {"gang_seconds": 0}}, "poll.gang_seconds"),
        ({"scheduler": {"policy": "magic"}}, "scheduler.policy"),
        ({"cluster": {"admission": "magic"}}, "cluster.admission"),
        ({"cluster": {"local_queue": "a b"}}, "cluster.local_queue"),
        ({"cluster": {"account": {"name": "Ffdl"}}}, "cluster.account.name"),
        ({"cluster": {"s3_addresses": ["192.0.2.7/24"]}}, "cluster.s3_addresses[0]"),
        ({"cluster": {"egress": [{"cidr": "here"}]}}, "cluster.egress[0].cidr"),
        ({"cluster": {"egress": [{"cidr": "192.0.2.0/24", "ports": [0]}]}}, "cluster.egress[0].ports[0]"),
        ({"ports": {"airflow": 0}}, "ports.airflow"),
        ({"ports": {"airflow": 5000}}, "ports"),
        ({"run_as_user": 0}, "run_as_user"),
        ({"gpu_types": ["!"]}, "gpu_types[0]"),
        ({"ports": None, "prts": {}}, "prts"),
    ],
)
def test_a_mistake_is_named(changes: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigErrors) as refused:
        PlatformConfig.load(changes)
    assert [problem.path for problem in refused.value.problems] == [path]


def image(config: PlatformConfig = PLATFORM, **framework: Any) -> str | None:
    return config.find_image(load_manifest({"name": "x", "framework": {"command": "c", **framework}}))


@pytest.mark.parametrize(
    ("framework", "expected"),
    [
        ({"name": "pytorch"}, "ffdl/learner-pytorch:0.1"),
        ({"name": "PyTorch", "version": "latest"}, "ffdl/learner-pytorch:0.1"),
        ({"name": "tensorflow", "version": "2.21.0"}, "ffdl/learner-tensorflow:0.1"),
        ({"name": "tensorflow", "version": "1.5.0-py3"}, None),
        ({"name": "tensorflow", "image_tag": "mine"}, "ffdl/learner-tensorflow:mine"),
        ({"name": "pytorch", "image": "team/net:3"}, "team/net:3"),
        ({"name": "custom", "version": "team/pytorch:0925mpi"}, "team/pytorch:0925mpi"),
        ({"name": "caffe", "version": "gpu"}, None),
        ({"name": "helper"}, None),
    ],
)
def test_which_image_a_framework_and_version_mean(framework: dict[str, Any], expected: str | None) -> None:
    assert image(**framework) == expected


def test_without_a_table_a_version_is_the_tag_and_frameworks_can_be_added() -> None:
    config = PlatformConfig.load({"images": {"caffe": "registry.example.org:5000/team/caffe:base"}})
    assert image(config, name="caffe", version="gpu") == "registry.example.org:5000/team/caffe:gpu"
    assert image(config, name="caffe", version="latest") == "registry.example.org:5000/team/caffe:base"
    assert config.images.frameworks == ["caffe", "pytorch", "tensorflow"]
