"""Which code archives are safe to unpack: zip files whose members all stay below one directory."""

from __future__ import annotations

import posixpath
import re
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass

from ffdl_ops.adapters.storage.errors import UnsafeArchive

__all__ = ["MAX_BYTES", "MAX_FILES", "Member", "safe_members"]

MAX_BYTES = 1 << 30
"""Largest size of an unpacked archive (1 GiB): code, not data."""
MAX_FILES = 100_000
MAX_RATIO = 200
_ADVICE = "Put data into a data store."
_RATIO_MATTERS_ABOVE = 64 << 20
_MAX_LINK_BYTES = 4096
_MAX_NAME_BYTES = 255
_MAX_PATH = 1024
_DRIVE = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True)
class Member:
    """One entry of an archive, known to be safe.

    :param path: below the directory that it is unpacked into.
    :param link: a symbolic link's target, or ``None``.
    """

    info: zipfile.ZipInfo
    path: str
    is_dir: bool
    executable: bool
    link: str | None


def safe_members(archive: zipfile.ZipFile, archive_bytes: int) -> list[Member]:
    """The archive's entries, links last.

    :param archive_bytes: size of the archive itself, for the ratio.
    :raises UnsafeArchive: naming the entry: absolute, with `..`, a link that leaves the directory, a device, encrypted,
        twice there; or the whole is larger than the limits.
    """
    infos = archive.infolist()
    total = sum(info.file_size for info in infos)
    if len(infos) > MAX_FILES:
        raise UnsafeArchive(f"The code archive has {len(infos)} entries; at most {MAX_FILES} are allowed. {_ADVICE}")
    if total > MAX_BYTES:
        size, limit = total >> 20, MAX_BYTES >> 20
        raise UnsafeArchive(f"The code archive unpacks to {size} MiB; at most {limit} MiB are allowed. {_ADVICE}")
    if total > _RATIO_MATTERS_ABOVE and total > MAX_RATIO * max(1, archive_bytes):
        ratio = total // max(1, archive_bytes)
        raise UnsafeArchive(f"The code archive grows {ratio} times when unpacked; at most {MAX_RATIO} times is allowed.")
    members = [_member(archive, info) for info in infos]
    _check_places(members)
    return sorted(members, key=lambda one: (one.link is not None, not one.is_dir))


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    name = info.orig_filename
    path = posixpath.normpath(name.rstrip("/")) if name.rstrip("/") else name
    if name.startswith("/") or "\\" in name or _DRIVE.match(name) or "\0" in name or not name:
        raise UnsafeArchive(f"The code archive holds {name!r}: absolute paths, backslashes and empty names are not allowed.")
    if ".." in name.split("/"):
        raise UnsafeArchive(f"The code archive holds {name!r}: '..' is not allowed in a path.")
    if any(len(part.encode("utf-8", "replace")) > _MAX_NAME_BYTES for part in path.split("/")) or len(path) > _MAX_PATH:
        raise UnsafeArchive(
            f"The code archive holds {name[:60] + '…'!r}: a name may have {_MAX_NAME_BYTES} bytes, a path {_MAX_PATH} characters."
        )
    if info.flag_bits & 0x1:
        raise UnsafeArchive(f"The code archive holds {name!r}, which is encrypted.")
    mode = info.external_attr >> 16
    kind = stat.S_IFMT(mode)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        raise UnsafeArchive(f"The code archive holds {name!r}, which is a device, pipe or socket.")
    link = _link_target(archive, info, path) if kind == stat.S_IFLNK else None
    is_dir = name.endswith("/") or kind == stat.S_IFDIR
    return Member(info, path, is_dir, bool(mode & 0o111), link)


def _link_target(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> str:
    if info.file_size > _MAX_LINK_BYTES:
        raise UnsafeArchive(f"The code archive holds {path!r}, a link with a target of {info.file_size} bytes.")
    target = archive.read(info).decode("utf-8", "replace")
    end = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if not target or target.startswith("/") or "\0" in target or end == ".." or end.startswith("../"):
        raise UnsafeArchive(f"The code archive holds {path!r}, a link out of the archive (to {target!r}).")
    return target


def _check_places(members: list[Member]) -> None:
    """No entry twice, none below a file or a link, no link that leads through another."""
    blocking: dict[str, Member] = {}
    for one in members:
        if one.is_dir:
            continue
        if one.path in blocking:
            raise UnsafeArchive(f"The code archive holds {one.path!r} twice.")
        blocking[one.path] = one
    for one in members:
        for parent in _parents(one.path):
            if parent in blocking:
                raise UnsafeArchive(f"The code archive holds {one.path!r} below {parent!r}, which is not a directory.")
        if one.is_dir and one.path in blocking:
            raise UnsafeArchive(f"The code archive holds {one.path!r} both as a directory and as something else.")
        if one.link is not None:
            end = posixpath.normpath(posixpath.join(posixpath.dirname(one.path), one.link))
            for place in (end, *_parents(end)):
                if place in blocking and blocking[place].link is not None:
                    raise UnsafeArchive(f"The code archive holds {one.path!r}, a link through the link {place!r}.")


def _parents(path: str) -> Iterator[str]:
    parts = path.split("/")
    for depth in range(1, len(parts)):
        yield "/".join(parts[:depth])
