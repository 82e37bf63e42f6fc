"""Small file operations that the staging commands share: atomic writes, locks, removal of what may be read-only."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from typing import IO, Any

__all__ = [
    "locked",
    "open_regular",
    "read_json",
    "remove_tree",
    "sha256_of",
    "try_lock",
    "write_atomically",
    "write_json",
]

_CHUNK = 1 << 20
_LARGEST_JSON = 64 << 20


def write_atomically(path: str, content: bytes, *, durable: bool = False) -> None:
    """Write a file that is seen whole or not at all.

    :param durable: also make it survive a crash of the machine.
    """
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def write_json(path: str, value: Any, *, durable: bool = False) -> None:
    """Write JSON as :func:`write_atomically` does."""
    write_atomically(path, json.dumps(value, sort_keys=True).encode(), durable=durable)


def open_regular(path: str) -> IO[bytes]:
    """Open a regular file for reading, where programs may have laid anything: a pipe would be waited for without end.

    :raises OSError: when it is something else, or a link.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a regular file", path)
    return os.fdopen(handle, "rb")


def read_json(path: str) -> Any:
    """A JSON file's content, or ``None`` when there is none or it can't be read as JSON."""
    try:
        with open_regular(path) as file:
            content = file.read(_LARGEST_JSON + 1)
        return json.loads(content) if len(content) <= _LARGEST_JSON else None
    except (OSError, ValueError, RecursionError):
        return None


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold an exclusive lock for the block, waiting for it; it ends with the process, however that ends."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def try_lock(path: str) -> Iterator[bool]:
    """As :func:`locked`, without waiting: says whether it was had."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def remove_tree(path: str) -> None:
    """Remove a file or directory, whatever it is, if it is there."""
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    else:
        shutil.rmtree(path, ignore_errors=True)


def sha256_of(path: str) -> str:
    """The sha256 of a regular file's content; a link is not followed."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
