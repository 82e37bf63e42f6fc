"""Directories that a tenant may write in: no link is followed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ffdl_ops.local.minicluster.isolation import closed_directories
from ffdl_ops.local.minicluster.safepaths import UnsafePath, make_below, read_below, write_below


def test_directories_are_made_with_their_modes(tmp_path: Path) -> None:
    made = make_below(tmp_path, "a/b/c", uid=None)
    assert made == tmp_path / "a/b/c"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a", tmp_path / "a/b", made)] == [
        0o711,
        0o711,
        0o700,
    ]
    assert make_below(tmp_path, "/a//b/./c", uid=None) == made


@pytest.mark.parametrize("path", ["link/x", "a/link", "file/x", "../x", "a/../../x"])
def test_links_files_and_parents_are_refused(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    for link in (root / "link", root / "a/link"):
        link.symlink_to(tmp_path / "outside")
    (root / "file").touch()
    with pytest.raises(UnsafePath):
        make_below(root, path, uid=None)
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_file_is_read_by_its_end_and_never_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").write_bytes(b"0123456789")
    assert read_below(root, "file", 4) == b"6789"
    (root / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(root / "fifo")
    for name in ("link", "fifo", "none"):
        with pytest.raises(OSError):
            read_below(root, name, 4)


def test_a_file_is_replaced_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("as it was")
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").symlink_to(tmp_path / "victim")
    write_below(root, "file", b"new", uid=None, mode=0o400)
    assert (root / "file").read_bytes() == b"new" and not (root / "file").is_symlink()
    assert (tmp_path / "victim").read_text() == "as it was"


def test_closed_directories_are_found_at_the_top(tmp_path: Path) -> None:
    private = tmp_path / "private"
    (private / "venv/bin").mkdir(parents=True)
    private.chmod(0o700)
    ways = [*reversed(private.parents), private]
    top = next(
        path for path in ways if not path.stat().st_mode & stat.S_IXOTH
    )  # pytest's own directory may be closed too
    assert closed_directories([private / "venv", private / "venv/bin", Path("/usr")]) == {
        str(top): [str(private / "venv")]
    }
