"""Taking a checkpoint: look, decide, hold still, upload, and write the manifest last.

One process takes the checkpoints of a gang (the side-car of rank 0, afterwards the `checkpoint` command), also when each
rank has a directory of its own: the ranks' parts must be of one moment, and only who sees all of them can tell.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ffdl_ops.adapters.storage.checkpoints import as_step, generation_key, manifest_key, newest_number, prune
from ffdl_ops.adapters.storage.errors import DataChanged, from_disk
from ffdl_ops.adapters.storage.store import ObjectStore
from ffdl_ops.core.errors import FfdlError
from ffdl_ops.pod.staging.ending import ending_of
from ffdl_ops.pod.staging.files import locked, read_json, remove_tree
from ffdl_ops.pod.staging.index import CheckpointIndex, IndexEntry, load_index, save_index
from ffdl_ops.pod.staging.report import say
from ffdl_ops.pod.staging.scan import FileState, Scan, scan_directory, state_of
from ffdl_ops.pod.staging.selection import Nothing, Selection, rank_of, select, step_in
from ffdl_ops.pod.staging.snapshot import HashingReader, Moved, hold
from ffdl_ops.pod.staging.spec import StageSpec
from ffdl_ops.pod.staging.stability import Ending, Watch

__all__ = ["CheckpointTaker", "Taken"]

_SMALL_BYTES = 8 << 20
_SAID_EVERY_S = 60.0


@dataclass(frozen=True)
class Taken:
    """A generation that is complete in the store.

    :param bytes: uploaded for it; unchanged files are not uploaded again.
    :param files: how many files it holds.
    :param left_out: files that are not in it, since they were not finished, or have no name that can be stored.
    """

    generation: int
    step: int | None
    bytes: int
    files: int
    left_out: tuple[str, ...]


class CheckpointTaker:
    """Takes the checkpoints of one attempt.

    :param spec: whose.
    :param store: where to.
    :param clock: monotonic seconds.
    """

    def __init__(self, spec: StageSpec, store: ObjectStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._spec = spec
        self._store = store
        self._root = spec.checkpoints_dir
        self._watch = Watch(self._root, rest_s=spec.checkpoint.interval_s / 2)
        self._before = Scan()
        self._uploaded: dict[tuple[str, tuple[int, int, int]], IndexEntry] = {}
        self._copied: set[str] = set()
        self._said = ("", -_SAID_EVERY_S)

    def look(self) -> Taken | None:
        """Look once, and upload a new generation if there is one.

        :raises FfdlError: when the store or the disk fails; the next look tries again, with a new number.
        """
        return self._pass(ending_of(self._spec, last=False))

    def take_last(self) -> Taken | None:
        """Look for the last time, when no learner lives any more."""
        return self._pass(ending_of(self._spec, last=True))

    def _pass(self, ending: Ending | None) -> Taken | None:
        try:
            with locked(os.path.join(self._spec.staging_dir, "checkpoint.lock")):
                scan = scan_directory(self._root)
                findings = self._watch.look(scan, self._clock(), ending)
                before, self._before = self._before, scan
                last = ending is not None and ending.last
                index = load_index(self._spec)
                ranks = self._spec.learners if self._spec.checkpoint.per_rank else None
                chosen = select(scan, findings, index, last=last, ranks=ranks)
                if isinstance(chosen, Selection) and not last and (reason := _in_motion(before, scan, index, ranks)):
                    chosen = Nothing(reason)
                if isinstance(chosen, Nothing):
                    self._say_waiting(chosen.reason, last)
                    return None
                return self._take(chosen, scan, index)
        except OSError as error:
            raise from_disk(error, f"taking a checkpoint of {self._root}") from None

    def _take(self, chosen: Selection, scan: Scan, index: CheckpointIndex) -> Taken | None:
        snapshots = os.path.join(self._spec.staging_dir, "snapshots")
        remove_tree(snapshots)
        os.makedirs(snapshots)
        try:
            held = hold(self._root, chosen, frozenset(self._copied), snapshots)
            number = 1 + max(index.last_number, newest_number(self._store, self._spec.bucket, self._spec.job_id))
            save_index(self._spec, index.beginning(number))
            entries = self._upload(number, chosen, held)
        except Moved as moved:
            # Written to in place: a copy is quicker than an upload, and is what the next try makes.
            self._copied.add(moved.path)
            say(self._spec, f"{moved.path} changed while it was taken; trying again")
            return None
        finally:
            remove_tree(snapshots)
        entries |= {path: index.files[path] for path in chosen.files if path not in chosen.fresh}
        step = self._step(chosen)
        self._write_manifests(number, step, entries, scan.links, chosen.left_out)
        save_index(self._spec, CheckpointIndex(number, number, entries, dict(scan.links)))
        self._uploaded.clear()
        size = sum(entries[path].size for path in chosen.fresh)
        taken = Taken(number, step, size, len(entries), chosen.left_out)
        missing = f"; left out, not finished or not named in UTF-8: {', '.join(taken.left_out[:5])}" if taken.left_out else ""
        say(self._spec, f"checkpoint generation {number}, step {step}: {size / 2**20:.1f} MiB uploaded{missing}")
        self._prune()
        return taken

    def _upload(
        self, number: int, chosen: Selection, held: Mapping[str, tuple[str, FileState]]
    ) -> dict[str, IndexEntry]:
        """Upload the new files; what an interrupted try before has uploaded is not uploaded again."""

        def one(path: str) -> IndexEntry:
            known = path, chosen.files[path].identity
            if known not in self._uploaded:
                self._uploaded[known] = self._upload_file(number, path, chosen.files[path], *held[path])
            return self._uploaded[known]

        small = sorted(path for path in held if chosen.files[path].size <= _SMALL_BYTES)
        with ThreadPoolExecutor(8) as pool:
            entries = dict(zip(small, pool.map(one, small), strict=True))
        for path in sorted(held.keys() - entries.keys()):
            entries[path] = one(path)
        return entries

    def _upload_file(self, number: int, path: str, state: FileState, place: str, held: FileState) -> IndexEntry:
        key = generation_key(self._spec.job_id, number, _key_path(path))
        with open(place, "rb") as source:
            reader = HashingReader(source)
            try:
                self._store.put_stream(self._spec.bucket, key, reader, state.size)  # type: ignore[arg-type]
            except DataChanged:
                raise Moved(path) from None
        now = state_of(place)
        if now is None or now.identity != held.identity:
            raise Moved(path)
        return IndexEntry(*state.identity, sha256=reader.hexdigest(), key=key)

    def _write_manifests(
        self,
        number: int,
        step: int | None,
        entries: Mapping[str, IndexEntry],
        links: Mapping[str, str],
        left_out: tuple[str, ...],
    ) -> None:
        spec = self._spec
        ranks: list[int | None] = list(range(spec.learners)) if spec.checkpoint.per_rank else [None]
        for rank in ranks:
            manifest: dict[str, Any] = {
                "generation": number,
                "created": datetime.now(UTC).isoformat(),
                "attempt": spec.attempt,
                "step": step,
                "rank": rank,
                "ranks": spec.learners,
                "files": [
                    {"path": path, "size": one.size, "sha256": one.sha256, "key": one.key}
                    for path, one in sorted(entries.items())
                    if rank is None or self._owner(path) == rank
                ],
                "links": {path: target for path, target in links.items() if rank is None or self._owner(path) == rank},
                "left_out": list(left_out),
            }
            self._store.put_json(spec.bucket, manifest_key(spec.job_id, number, rank), manifest)

    def _owner(self, path: str) -> int:
        """The rank whose manifest names the file: what lies in no living rank's directory is rank 0's."""
        rank = rank_of(path)
        return rank if rank is not None and rank < self._spec.learners else 0

    def _step(self, chosen: Selection) -> int | None:
        """The step that the generation stands for: as its new files' names tell, else as the program's progress shows."""
        if (step := step_in(chosen.fresh)) is not None:
            return step
        steps: list[int] = []
        for rank in range(self._spec.learners):
            progress = read_json(os.path.join(self._spec.state_dir, f"progress-{rank + 1}.json"))
            step = as_step(progress.get("step")) if isinstance(progress, dict) else None
            if step is not None:
                steps.append(step)
        return min(steps, default=None)

    def _prune(self) -> None:
        try:
            prune(self._store, self._spec.bucket, self._spec.job_id, self._spec.checkpoint.keep)
        except FfdlError as error:
            say(self._spec, f"older checkpoints could not be removed now: {error}")

    def _say_waiting(self, reason: str, last: bool) -> None:
        """Say what is waited for: once, and again every minute."""
        said, at = self._said
        now = self._clock()
        if reason and (last or now - at >= _SAID_EVERY_S or (reason != said and now - at >= _SAID_EVERY_S / 4)):
            say(self._spec, f"no new checkpoint {'at the end' if last else 'yet'}: {reason}")
            self._said = reason, now


def _in_motion(before: Scan, scan: Scan, index: CheckpointIndex, ranks: int | None) -> str:
    """Why the directory as a whole is not at rest; empty when it is.

    Files of the last generation are being removed, or some rank is still writing its part under a temporary name.
    """
    if index.files.keys() - scan.files.keys() and before.files.keys() != scan.files.keys():
        return "files are being removed"
    active = [path for path, state in scan.temporary.items() if before.temporary.get(path) != state]
    if ranks is not None and active:
        return f"{active[0]} is being written"
    return ""


def _key_path(path: str) -> str:
    """Where a file lies in its generation; one that is named as a manifest is moved aside."""
    return f"_/{path}" if path.startswith("MANIFEST") else path
