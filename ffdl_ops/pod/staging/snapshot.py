"""A generation's new files are held still while they are uploaded; each digest is taken from the bytes that were sent."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from typing import IO

from ffdl_ops.pod.staging.files import open_regular
from ffdl_ops.pod.staging.formats import is_whole
from ffdl_ops.pod.staging.scan import FileState, state_of
from ffdl_ops.pod.staging.selection import Selection

__all__ = ["HashingReader", "Moved", "hold"]

_CHUNK = 1 << 20
_LONGEST_ENDING = 32


class Moved(Exception):
    """A file changed between the look at it and the snapshot, or while it was uploaded.

    :param path: which.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class HashingReader(io.RawIOBase):
    """Reads a file once and knows the digest of what was read."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._digest = hashlib.sha256()

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        content = self._source.read(size)
        self._digest.update(content)
        return content

    def hexdigest(self) -> str:
        """The sha256 of all that was read."""
        return self._digest.hexdigest()


def hold(root: str, selection: Selection, copied: frozenset[str], directory: str) -> Mapping[str, tuple[str, FileState]]:
    """Hold the selection's new files still: by a hard link, or by a copy where they are written to in place.

    :param root: the checkpoint directory.
    :param copied: further files to copy.
    :param directory: an empty directory on the same volume.
    :returns: by path, the held file and its state.
    :raises Moved: when one of them, or any other file of the generation, has changed since the scan.
    """
    held: dict[str, tuple[str, FileState]] = {}
    for number, path in enumerate(sorted(selection.fresh)):
        # Its ending alone, which tells the format: a whole name may be as long as a name can be.
        place = os.path.join(directory, f"{number}{_ending(path)}")
        state = selection.files[path]
        source = os.path.join(root, path)
        if path in selection.copied or path in copied or not _linked(source, place):
            limit = state.size if path in selection.grown else None
            _copy(source, place, path, limit)
            if path not in selection.grown and is_whole(place) is False:
                raise Moved(path)
        now = state_of(place)
        if now is None or now.size != state.size:
            raise Moved(path)
        held[path] = (place, now)
    for path, state in selection.files.items():
        now = state_of(os.path.join(root, path))
        if path not in selection.grown and (now is None or now.identity != state.identity):
            raise Moved(path)
    return held


def _ending(path: str) -> str:
    ending = os.path.splitext(path)[1]
    return ending if len(ending.encode()) <= _LONGEST_ENDING else ""


def _linked(source: str, place: str) -> bool:
    try:
        os.link(source, place, follow_symlinks=False)
    except OSError:
        return False  # a volume without hard links, or a file of another owner: it is copied
    return True


def _copy(source: str, place: str, path: str, limit: int | None) -> None:
    try:
        opened = open_regular(source)
    except OSError:
        raise Moved(path) from None
    left = limit
    with opened as reader, open(place, "xb") as writer:
        while chunk := reader.read(_CHUNK if left is None else min(_CHUNK, left)):
            writer.write(chunk)
            if left is not None:
                left -= len(chunk)
