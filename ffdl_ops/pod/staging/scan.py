"""What lies in a checkpoint directory at one moment."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["FileState", "Scan", "is_marker", "is_temporary", "scan_directory", "state_of"]

_KEPT_DOT_NAMES = frozenset({".complete", ".metadata"})
_TEMPORARY = re.compile(
    r"^\..*|.*~$|^~.*|^tmp[-_.].*|.*[-_.](tmp|temp|part|partial|swp|incomplete)([-_.].*)?$|.*_temp$|.*\.tempstate\d*$|^#.*#$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class FileState:
    """A file as `stat` shows it: size in bytes, times in nanoseconds since 1970."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @property
    def identity(self) -> tuple[int, int, int]:
        """What stays the same as long as nobody writes to the file or replaces it."""
        return self.size, self.mtime_ns, self.inode

    @property
    def touched_after_writing(self) -> bool:
        """Whether something but a write happened to it last: a rename, a link, a change of mode.

        Linux sets both times at once when a file is written, so a later change time means that the file came by a rename,
        or was finished in another way, after its last byte.
        """
        return self.size > 0 and self.ctime_ns > self.mtime_ns


@dataclass(frozen=True)
class Scan:
    """The files of a directory, by relative path.

    :param links: symbolic links that stay inside the directory, to their targets; others are ignored.
    :param temporary: files that by their name are not finished.
    :param unnamed: files that no object can be named after, since their names are not UTF-8; with escapes.
    """

    files: Mapping[str, FileState] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    temporary: Mapping[str, FileState] = field(default_factory=dict)
    unnamed: tuple[str, ...] = ()


def is_marker(path: str) -> bool:
    """Whether the file says of others that they are complete: `<name>.complete`, or `.complete` in their directory."""
    return path.endswith(".complete")


def is_temporary(name: str) -> bool:
    """Whether a file or directory of this name is being written: `.tmp`, `.part`, `~`, a leading dot and the like."""
    return name not in _KEPT_DOT_NAMES and not name.endswith(".complete") and bool(_TEMPORARY.match(name))


def scan_directory(root: str) -> Scan:
    """Look at a directory; links are not followed, and what is neither file nor directory is ignored.

    A directory that is not there is empty, and so is a link in its place. What vanishes while it is looked at counts as not
    there.
    """
    files: dict[str, FileState] = {}
    links: dict[str, str] = {}
    temporary: dict[str, FileState] = {}
    unnamed: list[str] = []
    pending: list[tuple[str, bool]] = [] if os.path.islink(root) else [("", False)]
    while pending:
        folder, unfinished = pending.pop()
        try:
            entries = list(os.scandir(os.path.join(root, folder)))
        except OSError:
            continue
        for entry in entries:
            path = os.path.join(folder, entry.name)
            passing = unfinished or is_temporary(entry.name)
            if not _is_text(entry.name):
                if not passing:
                    unnamed.append(path.encode("utf-8", "backslashreplace").decode())
                continue
            if entry.is_symlink():
                if not passing and (target := _inner_target(root, path)):
                    links[path] = target
            elif entry.is_dir(follow_symlinks=False):
                pending.append((path, passing))
            elif (found := state_of(os.path.join(root, path))) is not None:
                (temporary if passing else files)[path] = found
    return Scan(files, links, temporary, tuple(sorted(unnamed)))


def state_of(path: str) -> FileState | None:
    """A regular file's state; ``None`` when it is gone or something else."""
    try:
        seen = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(seen.st_mode):
        return None
    return FileState(seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino)


def _inner_target(root: str, path: str) -> str | None:
    """A link's target when it is relative and stays below the root."""
    try:
        target = os.readlink(os.path.join(root, path))
    except OSError:
        return None
    end = os.path.normpath(os.path.join(os.path.dirname(path), target))
    inside = not os.path.isabs(target) and end != ".." and not end.startswith("../") and _is_text(target)
    return target if inside else None


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
