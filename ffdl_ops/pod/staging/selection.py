"""Which files make the next generation, or why it has to wait.

All files of the directory belong to a generation, so it waits until each is finished; the older generation stays the newest.
So that one file can't keep everything waiting for ever:

- a file that is whole each time it is looked at, but is rewritten all the time, is copied after 30 s instead;
- a log (by its name: `.log`, `.txt`, `.csv`, `.jsonl`, TensorBoard's events) that only grows is taken as far as it goes,
  and makes no generation alone;
- a file that rests for 60 s and is not whole, or is rewritten for 60 s in an unknown format, or is not whole for 15 min,
  is left out together with the new files that belong to it (same sub-directory, or same number in the name). If an older
  version of it is in the last generation, that takes 15 min in each case: a checkpoint that is overwritten in place must
  not be replaced by one without it.

A file whose name is not UTF-8 can't be stored, so it is left out in the same way, at once.

At the last look, when no writer lives any more, what is not finished is left out at once, unless an older version of it is
in the last generation: then that generation stays the newest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ffdl_ops.adapters.storage.checkpoints import as_step
from ffdl_ops.pod.staging.index import CheckpointIndex
from ffdl_ops.pod.staging.scan import FileState, Scan
from ffdl_ops.pod.staging.stability import Finding

__all__ = ["Nothing", "Selection", "select", "step_in"]

HURRY_AFTER_S = 30.0
HOPELESS_AFTER_S = 60.0
NEVER_WHOLE_AFTER_S = 900.0
_LOG = re.compile(r"\.(log|txt|csv|tsv|jsonl|out|err)$|tfevents", re.IGNORECASE)
_RANK = re.compile(r"rank-(\d+)/")
_STEP = re.compile(r"(?:global_?step|step|ckpt|checkpoint|iter(?:ation)?|epoch)[-_=.]?(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Selection:
    """The files of the next generation.

    :param files: all of them.
    :param fresh: those that the last generation does not hold as they are.
    :param copied: those that have to be copied before they are uploaded, since they are written to all the time.
    :param grown: those of them that are taken as far as they went at the scan.
    :param left_out: what is not in it, since it is not finished, or has no name that can be stored.
    """

    files: Mapping[str, FileState]
    fresh: frozenset[str]
    copied: frozenset[str] = frozenset()
    grown: frozenset[str] = frozenset()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Nothing:
    """No generation now.

    :param reason: what it waits for; empty when there is nothing new.
    """

    reason: str = ""


def select(
    scan: Scan, findings: Mapping[str, Finding], index: CheckpointIndex, *, last: bool, ranks: int | None
) -> Selection | Nothing:
    """Decide about the next generation.

    :param index: what the last one holds.
    :param last: whether no writer lives any more.
    :param ranks: the gang's size when each rank has a directory of its own, else ``None``.
    """
    fresh = {
        path
        for path, state in scan.files.items()
        if path not in index.files or index.files[path].identity != state.identity
    }
    unstable = {path for path in fresh if not findings[path].stable}
    grown = {path for path in unstable if findings[path].appended and _LOG.search(path)}
    copied = {path for path in unstable if not last and _is_hurried(findings[path])} | grown
    left = {path for path in unstable - copied if last or _is_hopeless(findings[path], path in index.files)}
    if waiting := unstable - copied - left:
        return Nothing(f"{_named(waiting)} not finished")
    dropped = _with_companions(left | set(scan.unnamed), fresh)
    spoiled = dropped and (not fresh - dropped - grown or dropped & index.files.keys())
    if scan.unnamed and (spoiled or not scan.files):
        return Nothing(f"{_named(scan.unnamed)} not named in UTF-8, so the checkpoint can't be stored; use another name")
    if last and (overwritten := dropped & index.files.keys()):
        return Nothing(f"{_named(overwritten)} not finished; generation {index.generation} has the version before")
    kept = {path: state for path, state in scan.files.items() if path not in dropped}
    fresh &= kept.keys()
    if fresh <= grown:
        return Nothing()
    if ranks is not None and (reason := _uneven(kept, fresh, ranks)):
        return Nothing(reason)
    left_out = tuple(sorted(dropped.union(scan.unnamed)))
    return Selection(kept, frozenset(fresh), frozenset(copied & kept.keys()), frozenset(grown), left_out)


def step_in(paths: Iterable[str]) -> int | None:
    """The highest step (checkpoint, iteration, epoch) that the names tell; ``None`` when they tell none."""
    steps = (as_step(int(number)) for path in paths for number in _STEP.findall(path))
    return max((step for step in steps if step is not None), default=None)


def rank_of(path: str) -> int | None:
    """The rank whose directory the file is in."""
    match = _RANK.match(path)
    return int(match[1]) if match else None


def _is_hurried(finding: Finding) -> bool:
    return finding.whole is True and finding.waiting_s >= HURRY_AFTER_S


def _is_hopeless(finding: Finding, has_older: bool) -> bool:
    if finding.waiting_s >= NEVER_WHOLE_AFTER_S:
        return True
    if has_older:
        return False
    limit_s = HOPELESS_AFTER_S
    return finding.rested_s >= limit_s if finding.whole is False else finding.waiting_s >= limit_s


def _with_companions(left: set[str], fresh: set[str]) -> set[str]:
    """The files left out, and the new ones that belong to the same checkpoint as one of them."""
    groups = {_group_of(path) for path in left}
    return {path for path in fresh if _group_of(path) in groups} if left else set()


def _group_of(path: str) -> str:
    """What a file belongs to: its sub-directory (below its rank's directory), else the last number in its name."""
    inner = _RANK.sub("", path, count=1)
    folder, name = os.path.split(inner)
    if folder:
        return folder
    numbers = re.findall(r"\d+", name)
    return f"#{int(numbers[-1])}" if numbers else "#"


def _uneven(kept: Mapping[str, FileState], fresh: set[str], ranks: int) -> str:
    """Why the ranks' parts do not make one checkpoint; empty when they do.

    Each rank must have written something since the last generation, and where names tell steps, all must tell the same.
    """
    steps: dict[int, int] = {}
    for rank in range(ranks):
        paths = [path for path in kept if rank_of(path) == rank]
        if not any(path in fresh for path in paths):
            return f"rank {rank} has not written its part"
        step = step_in(path.partition("/")[2] for path in paths)
        if step is not None:
            steps[rank] = step
    if len(set(steps.values())) > 1:
        told = ", ".join(f"rank {rank}: {step}" for rank, step in sorted(steps.items()))
        return f"the ranks' parts are of different steps ({told})"
    return ""


def _named(paths: Iterable[str]) -> str:
    names = sorted(paths)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more + (" is" if len(names) == 1 else " are")
