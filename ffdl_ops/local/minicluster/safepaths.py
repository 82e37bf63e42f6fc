"""File operations below directories that a tenant may write in: no symbolic link is ever followed there.

The server runs as root; a tenant could lay a link where a directory is expected and have the server create, hand over or
read something else. Hence every step of the way is opened with ``O_NOFOLLOW``.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["UnsafePath", "make_below", "read_below", "write_below"]

_STEP = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafePath(OSError):
    """A path that leaves its root, or goes through a symbolic link."""


def _parts(relative: str) -> list[str]:
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise UnsafePath(f"{relative} must not contain '..'")
    return parts


def make_below(root: Path, relative: str, *, uid: int | None, mode: int = 0o700, between: int = 0o711) -> Path:
    """Create a directory below a root, and those between, unless they are there.

    :param uid: owner of the last one when it is created here, and of those between that lie in a directory of its own.
    :param mode: mode of the last one when it is created here.
    :param between: mode of the ones between that are created here.
    :raises UnsafePath: when a step is a symbolic link or no directory.
    """
    parts = _parts(relative)
    at = os.open(root, _STEP)
    try:
        for index, part in enumerate(parts):
            last = index == len(parts) - 1
            owned = uid is not None and (last or os.fstat(at).st_uid == uid)
            try:
                os.mkdir(part, mode if last else between, dir_fd=at)
                created = True
            except FileExistsError:
                created = False
            below = _step(at, part, relative)
            os.close(at)
            at = below
            if created:
                os.fchmod(at, mode if last or owned else between)
                if owned and uid is not None:
                    os.fchown(at, uid, uid)
    finally:
        os.close(at)
    return root.joinpath(*parts)


def _step(at: int, part: str, relative: str) -> int:
    try:
        return os.open(part, _STEP, dir_fd=at)
    except NotADirectoryError:
        raise UnsafePath(f"{relative}: {part} is not a directory (or is a symbolic link)") from None
    except OSError as error:
        raise UnsafePath(f"{relative}: {part}: {error.strerror}") from None


def _open_parent(root: Path, relative: str) -> tuple[int, str]:
    *before, name = _parts(relative)
    at = os.open(root, _STEP)
    for part in before:
        try:
            below = _step(at, part, relative)
        finally:
            os.close(at)
        at = below
    return at, name


def read_below(root: Path, relative: str, limit: int) -> bytes:
    """The last bytes of a regular file below a root.

    :raises OSError: when there is none, or the way leads through a symbolic link.
    """
    at, name = _open_parent(root, relative)
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)
    with os.fdopen(handle, "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise UnsafePath(f"{relative} is not a regular file")
        file.seek(max(0, info.st_size - limit))
        return file.read(limit)


def write_below(root: Path, relative: str, data: bytes, *, uid: int | None, mode: int) -> None:
    """Write a new regular file below a root, its directories being there; what was there is replaced."""
    at, name = _open_parent(root, relative)
    try:
        temporary = f".{name}.new"
        handle = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=at
        )
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
            if uid is not None:
                os.fchown(file.fileno(), uid, uid)
        os.replace(temporary, name, src_dir_fd=at, dst_dir_fd=at)
    finally:
        os.close(at)
