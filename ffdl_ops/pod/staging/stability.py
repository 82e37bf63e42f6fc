"""Which files of a checkpoint directory are finished.

A file is taken for finished when one of these holds, and its format does not show it to be cut off:

- a marker says so: `<name>.complete`, or `.complete` in its directory, not older than the file;
- it arrived by an atomic rename (it was seen under a temporary name, or was touched after its last write);
- it has not changed between two looks; where its format tells nothing, it must also not have been written just before a
  learner crashed;
- at the end, when no writer lives any more: its format shows it to be whole; or, where the format tells nothing, it was
  not being written just before the end, or its writer ended in an orderly way.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ffdl_ops.pod.staging.formats import is_whole, missing_companions
from ffdl_ops.pod.staging.scan import FileState, Scan, is_marker

__all__ = ["Ending", "Finding", "Watch"]


@dataclass(frozen=True)
class Ending:
    """How learners ended.

    :param at_ns: when the first of them did, in nanoseconds since 1970.
    :param orderly: whether all of them ended by themselves, with success or after a SIGTERM.
    :param quiet_ns: a file of an unknown format must have rested for so long before the end.
    :param last: whether this is the last look: no writer lives any more.
    """

    at_ns: int
    orderly: bool
    quiet_ns: int
    last: bool


@dataclass(frozen=True)
class Finding:
    """What is known of one file.

    :param stable: whether it is finished.
    :param whole: what its format says; ``None`` when it says nothing.
    :param rested_s: for how long it has been seen unchanged, in seconds.
    :param waiting_s: for how long the file of this name has not been stable, in seconds.
    :param appended: whether all that time it has only grown, as a log does.
    """

    stable: bool
    whole: bool | None
    rested_s: float
    waiting_s: float
    appended: bool


class Watch:
    """Remembers a directory from look to look.

    :param root: the directory.
    :param rest_s: for how long a file must not have changed, in seconds.
    """

    def __init__(self, root: str, rest_s: float) -> None:
        self._root = root
        self._rest_s = rest_s
        self._seen: dict[str, tuple[FileState, float]] = {}
        self._whole: dict[tuple[str, tuple[int, int, int]], bool | None] = {}
        self._unfinished: set[int] = set()
        self._unstable_since: dict[str, float] = {}
        self._rewritten: set[str] = set()

    def look(self, scan: Scan, now_s: float, ending: Ending | None = None) -> dict[str, Finding]:
        """Judge every file of a scan.

        :param now_s: monotonic seconds.
        :param ending: given once a learner has ended.
        """
        findings: dict[str, Finding] = {}
        seen: dict[str, tuple[FileState, float]] = {}
        for path, state in scan.files.items():
            before = self._seen.get(path)
            unchanged = before is not None and before[0].identity == state.identity
            since_s = before[1] if before is not None and unchanged else now_s
            seen[path] = (state, since_s)
            whole = self._judge(path, state, scan)
            rested = now_s - since_s >= self._rest_s
            # Another inode under the same name, whole by its format: a rename too quick for the clock of the file system.
            replaced = whole is True and before is not None and before[0].inode != state.inode
            stable = whole is not False and (
                replaced or self._arrived(path, state, scan) or _is_finished(whole, rested, state, ending)
            )
            if stable:
                self._unstable_since.pop(path, None)
            if before is not None and (state.inode != before[0].inode or state.size < before[0].size):
                self._rewritten.add(path)
            waiting_s = 0.0 if stable else now_s - self._unstable_since.setdefault(path, now_s)
            findings[path] = Finding(stable, whole, now_s - since_s, waiting_s, path not in self._rewritten)
        self._seen = seen
        self._unfinished |= {state.inode for state in scan.temporary.values()}
        for path in self._unstable_since.keys() - scan.files.keys():
            del self._unstable_since[path]
        self._whole = {known: value for known, value in self._whole.items() if known[0] in scan.files}
        return findings

    def _judge(self, path: str, state: FileState, scan: Scan) -> bool | None:
        if missing_companions(path, scan.files):
            return False
        known = (path, state.identity)
        if known not in self._whole:
            self._whole[known] = True if is_marker(path) else is_whole(os.path.join(self._root, path))
        return self._whole[known]

    def _arrived(self, path: str, state: FileState, scan: Scan) -> bool:
        """Whether the file is known to be finished from the first look on."""
        if is_marker(path) or state.touched_after_writing or (state.size > 0 and state.inode in self._unfinished):
            return True
        return _is_marked(path, state, scan.files)


def _is_marked(path: str, state: FileState, files: Mapping[str, FileState]) -> bool:
    markers = (f"{path}.complete", os.path.join(os.path.dirname(path), ".complete"))
    return any(one in files and files[one].mtime_ns >= state.mtime_ns for one in markers)


def _is_finished(whole: bool | None, rested: bool, state: FileState, ending: Ending | None) -> bool:
    """Whether a file that nothing announced as complete is finished."""
    if ending is None:
        return rested
    spared = ending.orderly or state.mtime_ns <= ending.at_ns - ending.quiet_ns
    if ending.last:
        return whole is True or spared
    # Other learners go on: what they have written since is judged as before, what the dead one left is not trusted.
    return rested and (whole is True or spared or state.mtime_ns > ending.at_ns)
