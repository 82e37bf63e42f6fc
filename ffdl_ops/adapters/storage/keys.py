"""Object keys as file names: what a key may look like so that it becomes one file below a directory."""

from __future__ import annotations

from collections.abc import Iterable

from ffdl_ops.adapters.storage.errors import UnsafeKey

__all__ = ["check_collisions", "file_name"]

_MAX_PART_BYTES = 255


def file_name(key: str, prefix: str = "") -> str:
    """The relative path that an object gets below the directory that its prefix stands for.

    :param key: the object's key.
    :param prefix: what is cut off, ending in "/" or empty.
    :raises UnsafeKey: when the rest is absolute, holds `..` or `.` or an empty part, or can't be a file's name.
    """
    rest = key.removeprefix(prefix)
    parts = rest.split("/")
    if rest.startswith("/") or "" in parts or "." in parts or ".." in parts:
        raise UnsafeKey(
            f"Object key {key!r} can't be a file below the data directory: it is absolute or has '..', '.' or an empty part."
        )
    if "\0" in rest or any(len(part.encode()) > _MAX_PART_BYTES for part in parts):
        raise UnsafeKey(
            f"Object key {key!r} can't be a file's name: a part is longer than {_MAX_PART_BYTES} bytes, or holds a null."
        )
    return rest


def check_collisions(names: Iterable[str]) -> None:
    """Make sure that no name is needed both as a file and as a directory.

    :raises UnsafeKey: naming the key.
    """
    files = set(names)
    for name in files:
        parts = name.split("/")
        for depth in range(1, len(parts)):
            parent = "/".join(parts[:depth])
            if parent in files:
                raise UnsafeKey(f"Object key {parent!r} is both a file and the directory of {name!r}; rename one of them.")
