"""The checkpoint directory as the newest complete generation has it, before an attempt begins."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ffdl_ops.adapters.storage.checkpoints import Generation, newest_generations
from ffdl_ops.adapters.storage.errors import DataChanged, DataMissing, from_disk
from ffdl_ops.adapters.storage.keys import check_collisions, file_name
from ffdl_ops.adapters.storage.store import ObjectStore
from ffdl_ops.adapters.storage.transfer import Download, download
from ffdl_ops.pod.staging.archive import replace_directory
from ffdl_ops.pod.staging.files import remove_tree, sha256_of
from ffdl_ops.pod.staging.index import CheckpointIndex, load_index, save_index
from ffdl_ops.pod.staging.report import say
from ffdl_ops.pod.staging.scan import scan_directory
from ffdl_ops.pod.staging.spec import StageSpec

__all__ = ["Restored", "restore"]


@dataclass(frozen=True)
class Restored:
    """What was restored.

    :param generation: its number; ``None`` when the job has no checkpoint.
    :param kept: whether the directory held it already, so that nothing was downloaded.
    """

    generation: int | None = None
    step: int | None = None
    bytes: int = 0
    files: int = 0
    kept: bool = False


def restore(spec: StageSpec, store: ObjectStore) -> Restored:
    """Make the checkpoint directory hold the newest complete generation, and nothing else.

    A damaged generation (an object is gone, or its digest differs) is passed over for the next older one, and said.

    :raises DataChanged: when there are complete generations and every one of them is damaged: starting afresh would
        silently lose the training.
    """
    damaged: list[int] = []
    try:
        for generation in newest_generations(store, spec.bucket, spec.job_id):
            if _is_there(spec, generation):
                return Restored(generation.number, generation.step, 0, generation.files, kept=True)
            try:
                _fetch(spec, store, generation)
            except (DataChanged, DataMissing) as error:
                say(spec, f"checkpoint generation {generation.number} is damaged, trying an older one: {error}")
                damaged.append(generation.number)
                continue
            return Restored(generation.number, generation.step, generation.bytes, generation.files)
        if damaged:
            raise DataChanged(
                f"Every checkpoint of {spec.job_id} is damaged (generations {', '.join(map(str, damaged))}): "
                f"remove them from s3://{spec.bucket}/jobs/{spec.job_id}/checkpoints/ to start afresh."
            )
        _empty(spec)
    except OSError as error:
        raise from_disk(error, f"restoring to {spec.checkpoints_dir}") from None
    return Restored()


def _is_there(spec: StageSpec, generation: Generation) -> bool:
    """Whether the directory still is what this generation was taken from, untouched."""
    index = load_index(spec)
    if index.generation != generation.number:
        return False
    scan = scan_directory(spec.checkpoints_dir)
    same = {path: state.identity for path, state in scan.files.items()} == {
        path: entry.identity for path, entry in index.files.items()
    }
    return same and dict(scan.links) == dict(generation.links) and not scan.temporary


def _fetch(spec: StageSpec, store: ObjectStore, generation: Generation) -> None:
    fresh = os.path.join(spec.staging_dir, f"restore-{os.getpid()}")
    remove_tree(fresh)
    os.makedirs(fresh)
    try:
        check_collisions(file_name(one.path) for one in generation.stored)
        items = [
            Download(spec.bucket, one.key, one.size, os.path.join(fresh, file_name(one.path))) for one in generation.stored
        ]
        download(store, items)
        with ThreadPoolExecutor(4) as pool:
            digests = pool.map(sha256_of, [item.path for item in items])
        for one, digest in zip(generation.stored, digests, strict=True):
            if digest != one.sha256:
                raise DataChanged(f"{one.path}: its content is not what was uploaded (sha256 differs)")
        for path, target in generation.links.items():
            place = os.path.join(fresh, file_name(path))
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(target, place)
        _make_rank_directories(spec, fresh)
        replace_directory(fresh, spec.checkpoints_dir, spec.staging_dir)
    finally:
        remove_tree(fresh)
    scan = scan_directory(spec.checkpoints_dir)
    save_index(spec, CheckpointIndex.of(generation, scan.files, load_index(spec).last_number))


def _empty(spec: StageSpec) -> None:
    """Remove what is there: nothing of it is whole, or it would have been uploaded."""
    scan = scan_directory(spec.checkpoints_dir)
    if scan.files or scan.temporary or scan.links:
        say(spec, f"no complete checkpoint in the store: removing {len(scan.files) + len(scan.temporary)} unfinished files")
    remove_tree(spec.checkpoints_dir)
    os.makedirs(spec.checkpoints_dir)
    _make_rank_directories(spec, spec.checkpoints_dir)
    save_index(spec, CheckpointIndex(last_number=load_index(spec).last_number))


def _make_rank_directories(spec: StageSpec, directory: str) -> None:
    if spec.checkpoint.per_rank:
        for rank in range(spec.learners):
            os.makedirs(os.path.join(directory, f"rank-{rank}"), exist_ok=True)
