"""A job's checkpoints in the store: generations, each complete once its manifest is there, and their retention.

Layout below `jobs/<job_id>/checkpoints/`: `gen-000001/<path>` and, written last, `gen-000001/MANIFEST.json`; with a
directory per rank, `gen-000001/rank-0/<path>` and `gen-000001/MANIFEST.rank-0.json`, complete when every rank's manifest
is there. A manifest may name a file by a key of an older generation (it has not changed since).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ffdl_ops.adapters.storage.errors import DataChanged, DataMissing
from ffdl_ops.adapters.storage.store import ObjectInfo, ObjectStore

__all__ = [
    "Generation",
    "StoredFile",
    "as_step",
    "checkpoint_root",
    "generation_key",
    "list_generations",
    "manifest_key",
    "newest_complete",
    "newest_generations",
    "prune",
]

_LARGEST_STEP = 2**53
_KEY = re.compile(r"gen-(\d{6,})/(.+)", re.DOTALL)
_MANIFEST = re.compile(r"MANIFEST(?:\.rank-(\d+))?\.json")


@dataclass(frozen=True)
class StoredFile:
    """A file of a checkpoint.

    :param path: relative to the checkpoint directory (with `rank-<r>/` in front when ranks have directories of their own).
    :param size: bytes.
    :param key: the object that holds it, maybe of an older generation.
    """

    path: str
    size: int
    sha256: str
    key: str


@dataclass(frozen=True)
class Generation:
    """One generation of a job's checkpoints.

    :param step: the training step that it stands for, when that is known.
    :param bytes: sum of its files' sizes, whichever generation holds them.
    :param created: when its (last) manifest was made.
    :param stored: its files; empty for an incomplete one.
    :param links: symbolic links inside the directory, path to target.
    """

    number: int
    complete: bool
    step: int | None
    bytes: int
    files: int
    created: datetime
    attempt: int
    stored: tuple[StoredFile, ...] = field(default=(), repr=False)
    links: Mapping[str, str] = field(default_factory=dict, repr=False)


def as_step(value: Any) -> int | None:
    """A training step; ``None`` for what can't be one, since programs and file names may tell anything."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_STEP else None


def checkpoint_root(job_id: str) -> str:
    """The prefix of a job's checkpoints."""
    return f"jobs/{job_id}/checkpoints/"


def generation_key(job_id: str, number: int, path: str = "") -> str:
    """The key of a generation's file."""
    return f"{checkpoint_root(job_id)}gen-{number:06d}/{path}"


def manifest_key(job_id: str, number: int, rank: int | None) -> str:
    """The key of a generation's manifest, of one rank or of all."""
    name = "MANIFEST.json" if rank is None else f"MANIFEST.rank-{rank}.json"
    return generation_key(job_id, number, name)


def list_generations(store: ObjectStore, bucket: str, job_id: str) -> list[Generation]:
    """Every generation of a job, by number; also the incomplete ones, marked so."""
    return [_read(store, bucket, number, found) for number, found in sorted(_listing(store, bucket, job_id).items())]


def newest_generations(store: ObjectStore, bucket: str, job_id: str) -> Iterable[Generation]:
    """The complete generations, newest first, each read when it is asked for."""
    listing = _listing(store, bucket, job_id)
    for number in sorted(listing, reverse=True):
        generation = _read(store, bucket, number, listing[number])
        if generation.complete:
            yield generation


def newest_complete(store: ObjectStore, bucket: str, job_id: str) -> Generation | None:
    """The newest complete generation, or ``None``."""
    return next(iter(newest_generations(store, bucket, job_id)), None)


def newest_number(store: ObjectStore, bucket: str, job_id: str) -> int:
    """The highest number that any object uses, complete or not; 0 when there is none. A number is never used again."""
    return max(_listing(store, bucket, job_id), default=0)


def prune(store: ObjectStore, bucket: str, job_id: str, keep: int) -> list[int]:
    """Delete all but the newest complete generations, and what interrupted uploads left behind.

    The newest complete generation always stays, and so does every object that a kept one names. Generations newer
    than it are left alone: they may be being uploaded.

    :param keep: complete generations to keep, at least 1.
    :returns: the numbers that are gone (a number whose objects are partly still needed counts as gone).
    """
    listing = _listing(store, bucket, job_id)
    generations = [_read(store, bucket, number, found) for number, found in sorted(listing.items())]
    complete = [one for one in generations if one.complete]
    if not complete:
        return []
    kept = {one.number for one in complete[-max(1, keep) :]}
    newest = complete[-1].number
    needed = {stored.key for one in complete if one.number in kept for stored in one.stored}
    gone: list[int] = []
    manifests: list[str] = []
    others: list[str] = []
    for one in generations:
        if one.number in kept or one.number > newest:
            continue
        gone.append(one.number)
        for path, item in listing[one.number].items():
            if item.key not in needed:
                (manifests if _MANIFEST.fullmatch(path) else others).append(item.key)
    # Manifests go first: a generation is never seen complete when some of its files are gone.
    store.delete_many(bucket, manifests)
    store.delete_many(bucket, others)
    return gone


def _listing(store: ObjectStore, bucket: str, job_id: str) -> dict[int, dict[str, ObjectInfo]]:
    root = checkpoint_root(job_id)
    found: dict[int, dict[str, ObjectInfo]] = {}
    for one in store.list(bucket, root):
        match = _KEY.fullmatch(one.key.removeprefix(root))
        if match:
            found.setdefault(int(match[1]), {})[match[2]] = one
    return found


def _read(store: ObjectStore, bucket: str, number: int, found: Mapping[str, ObjectInfo]) -> Generation:
    manifests: list[dict[str, Any]] = []
    for path, item in found.items():
        if _MANIFEST.fullmatch(path):
            try:
                manifests.append(_checked(store.get_json(bucket, item.key)))
            except (DataMissing, DataChanged):
                continue  # deleted by a concurrent prune, or not one of ours: the generation is not complete
    stored = tuple(_files(manifests))
    created = [datetime.fromisoformat(one["created"]) for one in manifests]
    steps = [step for one in manifests if (step := as_step(one.get("step"))) is not None]
    seen = [item.modified for item in found.values() if item.modified is not None]
    return Generation(
        number=number,
        complete=_is_complete(manifests),
        step=min(steps) if steps else None,
        bytes=sum(one.size for one in stored),
        files=len(stored),
        created=max(created) if created else max(seen, default=datetime.fromtimestamp(0, UTC)),
        attempt=max((int(one.get("attempt") or 0) for one in manifests), default=0),
        stored=stored,
        links={path: target for one in manifests for path, target in (one.get("links") or {}).items()},
    )


def _checked(manifest: Any) -> dict[str, Any]:
    """A manifest with the fields that reading needs.

    :raises DataChanged: when it lacks them.
    """
    try:
        if datetime.fromisoformat(manifest["created"]).tzinfo is None:
            raise ValueError("'created' names no time zone")
        for one in manifest["files"]:
            StoredFile(str(one["path"]), int(one["size"]), str(one["sha256"]), str(one["key"]))
        for name in ("attempt", "rank", "ranks"):
            if not 0 <= int(manifest.get(name) or 0) < 2**31:
                raise ValueError(f"{name!r} is no count")
        dict(manifest.get("links") or {})
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise DataChanged(f"a checkpoint's manifest is not as it was written: {error!r}") from None
    return dict(manifest)


def _files(manifests: Sequence[Mapping[str, Any]]) -> Iterable[StoredFile]:
    for manifest in manifests:
        for one in manifest["files"]:
            yield StoredFile(str(one["path"]), int(one["size"]), str(one["sha256"]), str(one["key"]))


def _is_complete(manifests: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one manifest stands for all ranks, or each rank's is there and all tell the same number of ranks."""
    if any(one.get("rank") is None for one in manifests):
        return len(manifests) == 1
    sizes = {int(one.get("ranks") or 0) for one in manifests}
    return len(sizes) == 1 and {int(one["rank"]) for one in manifests} == set(range(sizes.pop()))
