"""What of a checkpoint directory is looked at."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ffdl_ops.pod.staging.scan import is_temporary, scan_directory


@pytest.mark.parametrize(
    "name",
    [".ckpt.pt", "ckpt.pt.tmp", "ckpt.pt.part", "ckpt.tmp.123", "ckpt~", "tmp-checkpoint-5", "model_temp", "a.pt.partial",
     "x.data-00000-of-00001.tempstate123", "a.swp", "step_3.orbax-checkpoint-tmp-9"],
)  # fmt: skip
def test_names_of_unfinished_files_are_known(name: str) -> None:
    assert is_temporary(name)


@pytest.mark.parametrize(
    "name", ["ckpt.pt", ".complete", ".metadata", "model.complete", "template.pt", "tmpl.json", "part-1.pt", "attempt.pt"]
)
def test_names_of_finished_files_are_not_taken_for_unfinished(name: str) -> None:
    assert not is_temporary(name)


def test_links_out_of_the_directory_and_special_files_are_not_looked_at(tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    (root / "step-3").mkdir(parents=True)
    (root / "step-3" / "model.pt").write_bytes(b"x")
    (root / "latest").symlink_to("step-3")
    (root / "leak").symlink_to("/etc/passwd")
    (root / "step-3" / "up").symlink_to("../../secret")
    os.mkfifo(root / "pipe")
    scan = scan_directory(str(root))
    assert set(scan.files) == {"step-3/model.pt"}
    assert scan.links == {"latest": "step-3"}


def test_all_below_an_unfinished_directory_is_unfinished(tmp_path: Path) -> None:
    (tmp_path / "tmp-checkpoint-5").mkdir()
    (tmp_path / "tmp-checkpoint-5" / "model.pt").write_bytes(b"x")
    scan = scan_directory(str(tmp_path))
    assert not scan.files and set(scan.temporary) == {"tmp-checkpoint-5/model.pt"}


def test_a_directory_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert not scan_directory(str(tmp_path / "none")).files
