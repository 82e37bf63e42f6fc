"""The nodes file and the image table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ffdl_ops.adapters.images import Images
from ffdl_ops.core.errors import UserError
from ffdl_ops.local.minicluster import nodes as nodes_module
from ffdl_ops.local.minicluster.nodes import load_nodes, short_type

CONFIG = Path(__file__).parents[3] / "config"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    return path


def test_the_default_nodes() -> None:
    nodes = load_nodes(CONFIG / "nodes.yaml")
    assert {name: (node.gpus, node.gpu_type) for name, node in nodes.items()} == {
        "v100-a": (4, "V100"),
        "v100-b": (4, "V100"),
        "k80-a": (4, "K80"),
    }
    assert nodes["k80-a"].capacity == {"cpu": "32", "memory": "128Gi", "pods": "110"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "must have a list `nodes`"),
        ("nodes: [{name: UPPER}]", "node name 'UPPER'"),
        ("nodes: [{name: a}, {name: a}]", "two nodes are named 'a'"),
        ("nodes: [{name: a, memory: lots}]", "node a has memory 'lots'"),
        ("nodes: [{name: a, cpus: 0}]", "node a has cpu 0"),
        ("nodes: [{name: a, gpus: 4}]", "gpus must be `detect` or"),
        ("nodes: [{name: a, colour: red}]", r"unknown fields \['colour'\]"),
        ("nodes: [", "cannot be read"),
        ("nodes: [a]", "each of `nodes` must be a mapping"),
        ("nodes: [{name: a}]\ndefaults: 3", "`defaults` must be a mapping"),
        ("nodes: [{name: a, cpus: .nan}]", "node a has cpu"),
        ("nodes: [{name: a, cpus: .inf}]", "node a has cpu"),
        ("nodes: [{name: a, cpus: [1]}]", "node a has cpu"),
        ("nodes: [{name: a, gpus: {type: V100, count: true}}]", "gpus must be `detect` or"),
        ("nodes: [{name: a, gpus: {type: V100, count: 1000000}}]", "gpus must be `detect` or"),
        ("nodes: [{name: a, labels: [x]}]", "labels must be a mapping"),
        ("nodes: [{name: a, taints: x}]", "taints must be a list"),
        ("nodes: [{name: a, taints: [{key: x, effect: Never}]}]", "taints must be a list"),
        ("a: &a [1]\nnodes: *a", "anchors"),
        ("nodes: [{name: a, labels: {since: 2026-13-45}}, {}]", "node name ''"),
    ],
)
def test_a_bad_nodes_file_is_refused_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_nodes(written(tmp_path, text))


def test_real_gpus_are_detected_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes_module, "detect_gpus", lambda: ["H200", "H200"])
    node = load_nodes(written(tmp_path, "nodes: [{name: here, gpus: detect}]"))["here"]
    assert (node.gpus, node.gpu_type, node.real) == (2, "H200", (0, 1))


def test_without_a_driver_nothing_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes_module, "detect_gpus", list)
    node = load_nodes(written(tmp_path, "nodes: [{name: here, gpus: detect}]"))["here"]
    assert (node.gpus, node.gpu_type) == (0, None)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("Tesla K80", "K80"),
        (b"Tesla P100", "P100"),
    ],
)
def test_gpu_names_become_types(name: str | bytes, short: str) -> None:
    assert short_type(name) == short


def test_images_are_found_by_pattern() -> None:
    images = Images(CONFIG / "images.yaml")
    learner = images.find("ffdl/learner-pytorch:0.1")
    assert learner is not None and learner.path_prepend == (f"{sys.prefix}/bin",)
    assert learner.env["OMP_NUM_THREADS"] == "1"
    for known in (
        "python",
        "python:3.11-slim",
        "docker.io/library/python:3.12",
        "busybox:1.36",
        "ffdl/helper:x",
        "alpine",
    ):
        assert images.find(known) is not None, known
    for unknown in ("ffdl/learner-caffe:1", "registry.invalid/python:3", "pythons:1", "no.such/image"):
        assert images.find(unknown) is None, unknown


def test_every_image_limits_its_threads() -> None:
    images = Images(CONFIG / "images.yaml")
    assert all(image.env.get("OMP_NUM_THREADS") == "1" for image in images.table if image.path_prepend)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "mapping `images`"),
        ("images: {x: {paths: []}}", "unknown settings"),
        ("images: {x: 3}", "must have a mapping"),
        ("images: {x: {command: sh}}", "command must be a list"),
        ("images: {x: {env: [A]}}", "env must be a mapping"),
        ("a: &a {}\nimages: {x: *a}", "anchors"),
    ],
)
def test_a_bad_image_table_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Images(written(tmp_path, text))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="no UTF-8"):
        load_nodes(path)
    with pytest.raises(UserError, match="cannot be read"):
        Images(tmp_path)
