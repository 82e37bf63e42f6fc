"""Opening files that programs may have replaced by anything: a pipe in a file's place would be waited for without end."""

from __future__ import annotations

import errno
import os
import stat
from typing import IO

__all__ = ["open_regular", "open_to_write"]


def open_regular(path: str) -> IO[bytes]:
    """Open a regular file for reading. Raises `OSError` when it is something else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a regular file", path)
    return os.fdopen(descriptor, "rb")


def open_to_write(path: str, flags: int) -> int:
    """Open a file for writing, made when it is not there; its descriptor. Raises `OSError` for a pipe that no one reads."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | flags, 0o644)
