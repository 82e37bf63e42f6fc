"""`fetch`: the job's data set is in the cache directory, whole, once.

A data set lies at `<cache>/<key>`, and `<cache>/<key>.complete` lists its files. It is downloaded into
`<cache>/<key>.partial-<pid>` and renamed, under a lock per key, so that jobs that want the same data download it once and
a helper that is killed leaves only garbage that the next one removes. Data sets that nobody uses make way (`eviction`).
"""

from __future__ import annotations

import os
from typing import Any

from ffdl_ops.adapters.storage.errors import DataChanged, from_disk
from ffdl_ops.pod.staging import stores
from ffdl_ops.pod.staging.eviction import Evicted, lock_path, make_room, mark_used, place_of
from ffdl_ops.pod.staging.files import locked, read_json, remove_tree, try_lock, write_json
from ffdl_ops.pod.staging.report import say
from ffdl_ops.pod.staging.spec import DataSpec, StageSpec

__all__ = ["fetch", "is_cached"]

_CHECKED_FILES = 20_000


def fetch(spec: StageSpec) -> dict[str, Any]:
    """Have the data set in the cache.

    :returns: bytes, files, whether it was there already, and which other data sets have made way for it.
    :raises DataChanged: when the objects are no longer those that the job was planned with.
    :raises DiskTrouble: when the volume is full; what was downloaded is removed.
    """
    data = spec.data
    if data is None:
        return {"bytes": 0, "files": 0, "cached": True}
    try:
        os.makedirs(data.cache_dir, exist_ok=True)
        # The mark first: what is marked stays while it is looked at.
        with locked(lock_path(data, data.key)):
            mark_used(data)
        if (listing := is_cached(data)) is not None:
            return _told(listing, cached=True, evicted=_make_room(spec, data, 0))
        with locked(lock_path(data, data.key)):
            if (listing := is_cached(data)) is not None:
                say(spec, f"data set {data.key[:12]} was staged by another job meanwhile")
                return _told(listing, cached=True)
            _remove_garbage(data)
            listing, evicted = _download(spec, data)
    except OSError as error:
        raise from_disk(error, f"staging data below {data.cache_dir}") from None
    return _told(listing, cached=False, evicted=evicted)


def is_cached(data: DataSpec) -> dict[str, int] | None:
    """The data set's files and sizes when it is in the cache, whole; ``None`` otherwise.

    Each file's size is looked at (of very large sets, of every n-th file): a machine that crashed may have lost content.
    """
    marker = read_json(place_of(data, data.key) + ".complete")
    if not isinstance(marker, dict) or not isinstance(marker.get("files"), dict):
        return None
    listing: dict[str, int] = marker["files"]
    names = list(listing)
    for name in names[:: 1 + len(names) // _CHECKED_FILES]:
        try:
            if os.lstat(os.path.join(place_of(data, data.key), name)).st_size != listing[name]:
                return None
        except OSError:
            return None
    return listing


def _make_room(spec: StageSpec, data: DataSpec, coming: int) -> Evicted | None:
    return make_room(spec, data, data.keep, coming) if data.keep else None


def _download(spec: StageSpec, data: DataSpec) -> tuple[dict[str, int], Evicted | None]:
    from ffdl_ops.adapters.storage.datasets import dataset_of
    from ffdl_ops.adapters.storage.transfer import download_dataset

    store = stores.data_store()
    found = dataset_of(store, data.bucket, data.prefix)
    if found.key != data.key:
        raise DataChanged(
            f"The data at s3://{data.bucket}/{data.prefix} has changed since the job was planned "
            f"({found.files} files, {found.bytes} bytes now): run the job again to take it as it is now."
        )
    say(spec, f"downloading s3://{data.bucket}/{data.prefix}: {found.files} files, {found.bytes / 2**20:.1f} MiB")
    evicted = _make_room(spec, data, found.bytes)
    partial = f"{place_of(data, data.key)}.partial-{os.getpid()}"
    os.makedirs(partial)
    try:
        download_dataset(store, found, partial)
        again = dataset_of(store, data.bucket, data.prefix)
        if again.key != data.key:
            raise DataChanged(
                f"The data at s3://{data.bucket}/{data.prefix} changed while it was downloaded: run the job again."
            )
        os.replace(partial, place_of(data, data.key))
    except BaseException:
        remove_tree(partial)
        raise
    listing = {name: one.size for name, one in found.objects.items()}
    write_json(place_of(data, data.key) + ".complete", {"key": data.key, "files": listing}, durable=True)
    return listing, evicted


def _remove_garbage(data: DataSpec) -> None:
    """Remove what killed helpers left: of this key (its lock is held), and of any key that nobody is fetching."""
    remove_tree(place_of(data, data.key))
    remove_tree(place_of(data, data.key) + ".complete")
    for name in os.listdir(data.cache_dir):
        key, mark, _ = name.partition(".partial-")
        if not mark:
            continue
        if key == data.key:
            remove_tree(os.path.join(data.cache_dir, name))
            continue
        with try_lock(lock_path(data, key)) as free:
            if free:
                remove_tree(os.path.join(data.cache_dir, name))


def _told(listing: dict[str, int], *, cached: bool, evicted: Evicted | None = None) -> dict[str, Any]:
    gone = {"evicted": list(evicted.keys), "evicted_bytes": evicted.bytes} if evicted else {}
    return {"bytes": sum(listing.values()), "files": len(listing), "cached": cached, **gone}
