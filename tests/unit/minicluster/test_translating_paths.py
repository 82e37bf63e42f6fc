"""Container paths in texts, and the references that Kubernetes expands."""

from __future__ import annotations

import pytest

from ffdl_ops.local.minicluster.translate import expand, translator

TRANSLATE = translator(
    {
        "/job": "/real/job",
        "/job/inner": "/real/inner",
        "/ffdl/cache/": "/real/cache",
        "/dev/termination-log": "/real/end",
    }
)


@pytest.mark.parametrize(
    ("text", "real"),
    [
        ("/job", "/real/job"),
        ("/job/", "/real/job/"),
        ("/job/code/train.py", "/real/job/code/train.py"),
        ("--dir=/job/x", "--dir=/real/job/x"),
        ("/job/inner/x", "/real/inner/x"),
        ("/job/innermost", "/real/job/innermost"),
        ("/ffdl/cache", "/real/cache"),
        ('{"job_dir": "/job", "cache": "/ffdl/cache/k"}', '{"job_dir": "/real/job", "cache": "/real/cache/k"}'),
        ("/job:/ffdl/cache:/usr/bin", "/real/job:/real/cache:/usr/bin"),
        ("cd /job && ls '/job/a b' >/job/out", "cd /real/job && ls '/real/job/a b' >/real/job/out"),
        ("file:///job/x", "file:///real/job/x"),
        ("see /job.", "see /real/job."),
        ("echo x > /dev/termination-log; exit", "echo x > /real/end; exit"),
    ],
)
def test_mounts_are_rewritten(text: str, real: str) -> None:
    assert TRANSLATE(text) == real


@pytest.mark.parametrize(
    "text",
    ["/jobs", "/job-1/x", "/job_x", "/job.txt", "s3://bucket/job/x", "http://host/job", "my/job", "~/job", "./job",
     "/other/job/x", "http://127.0.0.1:9000/job", "/dev/termination-log2", ""],
)  # fmt: skip
def test_what_only_looks_like_a_mount_stays(text: str) -> None:
    assert TRANSLATE(text) == text


def test_a_real_path_is_not_rewritten_again() -> None:
    nested = translator({"/job": "/state/job/job", "/state": "/elsewhere"})
    assert nested("/job/x") == "/state/job/job/x"


def test_without_mounts() -> None:
    assert translator({})("/job") == "/job"
    assert translator({"/": "/real"})("/job") == "/job"


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2"),
        ("$(C)", "$(C)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A", "$A"),
        ("a$", "a$"),
        ("$()", "$()"),
    ],
)
def test_references_expand_as_in_kubernetes(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expanded
