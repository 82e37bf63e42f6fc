"""Code: packed the same each time, and nothing unpacks outside its directory."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from pathlib import Path

import pytest

from ffdl_ops.adapters.storage import archives
from ffdl_ops.adapters.storage.code import pack_code, upload_code
from ffdl_ops.adapters.storage.errors import DataMissing, UnsafeArchive
from ffdl_ops.pod.staging.archive import unpack
from tests.support.s3 import MemoryStore


def _archive(path: Path, members: dict[str, bytes | tuple[int, bytes]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo("placeholder")
            info.filename = info.orig_filename = name
            mode, body = content if isinstance(content, tuple) else (stat.S_IFREG | 0o644, content)
            info.external_attr = mode << 16
            archive.writestr(info, body, zipfile.ZIP_DEFLATED)
    return path


def _unpack(tmp_path: Path, members: dict[str, bytes | tuple[int, bytes]]) -> Path:
    target = tmp_path / "code"
    target.mkdir()
    unpack(str(_archive(tmp_path / "code.zip", members)), str(target))
    return target


def test_a_directory_is_packed_to_the_same_bytes_each_time_without_caches(tmp_path: Path) -> None:
    code = tmp_path / "project"
    (code / "pkg" / "__pycache__").mkdir(parents=True)
    (code / ".git").mkdir()
    (code / ".git" / "config").write_text("secret")
    (code / "train.py").write_text("print(1)")
    (code / "pkg" / "a.py").write_text("")
    (code / "pkg" / "__pycache__" / "a.pyc").write_bytes(b"x")
    first = pack_code(code)
    os.utime(code / "train.py", (1, 1))
    assert pack_code(code) == first
    assert zipfile.ZipFile(io.BytesIO(first[0])).namelist() == ["pkg/a.py", "train.py"]


def test_a_single_script_and_a_zip_are_code_too(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print(1)")
    assert zipfile.ZipFile(io.BytesIO(pack_code(script)[0])).namelist() == ["train.py"]
    packed = _archive(tmp_path / "x.zip", {"train.py": b"print(2)"})
    assert pack_code(packed)[0] == packed.read_bytes()
    with pytest.raises(DataMissing):
        pack_code(tmp_path / "nothing")


def test_a_link_out_of_the_directory_is_not_packed(tmp_path: Path) -> None:
    code = tmp_path / "project"
    code.mkdir()
    (code / "leak").symlink_to("/etc/hostname")
    with pytest.raises(UnsafeArchive, match="leak"):
        pack_code(code)


def test_the_same_code_is_uploaded_once(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print(1)")
    store = MemoryStore()
    uri = upload_code(store, "b", script)
    assert upload_code(store, "b", script) == uri == f"s3://b/code/{pack_code(script)[1]}.zip"
    assert len(store.written) == 1


def test_an_archive_keeps_directories_modes_and_inner_links(tmp_path: Path) -> None:
    code = _unpack(
        tmp_path,
        {
            "bin/run.sh": (stat.S_IFREG | 0o755, b"#!/bin/sh\n"),
            "empty/": (stat.S_IFDIR | 0o755, b""),
            "lib/link.sh": (stat.S_IFLNK | 0o777, b"../bin/run.sh"),
        },
    )
    assert os.access(code / "bin/run.sh", os.X_OK) and stat.S_IMODE((code / "bin/run.sh").stat().st_mode) == 0o755
    assert (code / "empty").is_dir()
    assert (code / "lib/link.sh").read_text() == "#!/bin/sh\n"


@pytest.mark.parametrize(
    "members",
    [
        {"/etc/x": b""},
        {"../x": b""},
        {"a/../../x": b""},
        {"a\\..\\x": b""},
        {"C:/x": b""},
        {"link": (stat.S_IFLNK | 0o777, b"/etc")},
        {"a/link": (stat.S_IFLNK | 0o777, b"../../x")},
        {"a/link": (stat.S_IFLNK | 0o777, b"../..")},
        {"link": (stat.S_IFLNK | 0o777, b"dir"), "link/x": b""},
        {"one": (stat.S_IFLNK | 0o777, b"d"), "d": (stat.S_IFLNK | 0o777, b".")},
        {"fifo": (stat.S_IFIFO | 0o644, b"")},
        {"device": (stat.S_IFCHR | 0o644, b"")},
        {"a": b"", "a/b": b""},
        {"a": b"", "./a": b""},
    ],
    ids=lambda members: ", ".join(members),
)
def test_an_archive_that_would_write_elsewhere_is_refused_and_names_the_entry(
    tmp_path: Path, members: dict[str, bytes | tuple[int, bytes]]
) -> None:
    with pytest.raises(UnsafeArchive) as refusal:
        _unpack(tmp_path, members)
    assert any(name.strip("./") in str(refusal.value).replace("\\\\", "\\") for name in members)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["code", "code.zip"]
    assert list((tmp_path / "code").iterdir()) == []


@pytest.mark.parametrize("name", ["x" * 256, "é" * 128, "/".join(["y" * 200] * 6), "d/" + "z" * 300 + "/f"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsafeArchive, match="a name may have"):
        _unpack(tmp_path, {name: b"x"})


def test_a_zip_that_is_cut_off_is_not_taken_for_a_script(tmp_path: Path) -> None:
    path = _archive(tmp_path / "code.zip", {"train.py": b"print(1)"})
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(UnsafeArchive, match="can't be read as a zip"):
        pack_code(path)


def test_a_name_that_is_no_text_and_a_link_to_itself_are_said(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / os.fsdecode(b"bad\xff")).write_text("x")
    with pytest.raises(UnsafeArchive, match="no UTF-8"):
        pack_code(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "train.py").write_text("print(1)")
    (tmp_path / "b" / "loop").symlink_to("loop")
    assert zipfile.ZipFile(io.BytesIO(pack_code(tmp_path / "b")[0])).namelist() == ["train.py"]


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    with pytest.raises(UnsafeArchive, match="grows"):
        _unpack(tmp_path, {"zeros": bytes(80 << 20)})


def test_too_many_files_and_too_many_bytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_FILES", 2)
    with pytest.raises(UnsafeArchive, match="at most 2"):
        _unpack(tmp_path, {"a": b"", "b": b"", "c": b""})
    monkeypatch.setattr(archives, "MAX_BYTES", 1 << 20)
    (tmp_path / "second").mkdir()
    with pytest.raises(UnsafeArchive, match="at most 1 MiB"):
        _unpack(tmp_path / "second", {"a": bytes(3 << 20)})


def test_what_is_no_zip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "code.zip").write_bytes(b"PK\x03\x04 but cut off")
    with pytest.raises(UnsafeArchive):
        unpack(str(tmp_path / "code.zip"), str(tmp_path))
