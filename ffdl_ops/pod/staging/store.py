"""`store`: the job's results and all its logs are in the store, verified; done again, only what has changed is uploaded.

What was stored is listed in `jobs/<job_id>/stored.json` (size and digest by key), which decides what has not changed.
Symbolic links are followed as little as anything outside the job's directory: they and special files are skipped and named.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from ffdl_ops.adapters.storage.errors import DataChanged, DataMissing, from_disk
from ffdl_ops.adapters.storage.store import ObjectStore
from ffdl_ops.adapters.storage.transfer import Upload, upload
from ffdl_ops.pod.staging.files import sha256_of
from ffdl_ops.pod.staging.report import say
from ffdl_ops.pod.staging.spec import StageSpec
from ffdl_ops.pod.staging.stores import results_store, tenant_store

__all__ = ["store_all"]

_MAX_KEY_BYTES = 1024
_STATE_ENDINGS = (".jsonl", ".events", ".json")


@dataclass(frozen=True)
class _Part:
    """A directory and the place in the store that it goes to."""

    name: str
    store: ObjectStore
    directory: str
    bucket: str
    prefix: str


def store_all(spec: StageSpec) -> dict[str, Any]:
    """Upload results and logs.

    :returns: counts, bytes and URIs of results and logs, and what was skipped and why.
    :raises FfdlError: when something could not be stored; what was stored by then stays.
    """
    tenant = tenant_store()
    place = spec.results
    results = _Part("results", results_store(spec), os.path.join(spec.job_dir, "results"), place.bucket, place.prefix)
    logs = _Part("logs", tenant, os.path.join(spec.job_dir, "logs"), spec.bucket, f"jobs/{spec.job_id}/logs")
    state = _Part("state", tenant, spec.state_dir, spec.bucket, f"jobs/{spec.job_id}/logs/state")
    listing_key = f"jobs/{spec.job_id}/stored.json"
    stored = _stored_before(tenant, spec.bucket, listing_key)
    skipped: list[str] = []
    told: dict[str, Any] = {"bytes": 0, "files": 0, "uploaded_files": 0, "uploaded_bytes": 0}
    try:
        for part in (results, logs, state):
            listing = _store_part(part, stored, skipped, told)
            told[f"{part.name}_files"], told[f"{part.name}_bytes"] = (
                len(listing),
                sum(size for size, _ in listing.values()),
            )
            told[f"{part.name}_uri"] = f"s3://{part.bucket}/{part.prefix}/"
            tenant.put_json(spec.bucket, listing_key, {uri: list(one) for uri, one in stored.items()})
            if part is results:
                told["results"] = sorted(listing)
    except OSError as error:
        raise from_disk(error, f"reading {spec.job_dir}") from None
    told["files"] = told["results_files"] + told["logs_files"] + told["state_files"]
    told["bytes"] = told["results_bytes"] + told["logs_bytes"] + told["state_bytes"]
    return {**told, "skipped": skipped, "skipped_count": len(skipped)}


def _store_part(
    part: _Part, stored: dict[str, tuple[int, str]], skipped: list[str], told: dict[str, Any]
) -> dict[str, tuple[int, str]]:
    """Store one directory; returns and adds to what is stored, size and digest by URI."""
    files = dict(_files(part, skipped))
    with ThreadPoolExecutor(4) as pool:
        digests = pool.map(sha256_of, [path for path, _ in files.values()])
    facts = {key: (files[key][1], digest) for key, digest in zip(files, digests, strict=True)}
    there = {one.key: one.size for one in part.store.list(part.bucket, f"{part.prefix}/")}
    items = [
        Upload(path, size, part.bucket, key)
        for key, (path, size) in files.items()
        if there.get(key) != size or stored.get(f"s3://{part.bucket}/{key}") != facts[key]
    ]
    if items:
        size = sum(one.size for one in items)
        # Not into the helper's log: that is one of the files that are being stored.
        say(
            None,
            f"storing {part.name}: {len(items)} files, {size / 2**20:.1f} MiB to s3://{part.bucket}/{part.prefix}/",
        )
        upload(part.store, items)
        _verify(part, items)
        told["uploaded_files"] += len(items)
        told["uploaded_bytes"] += size
    listing = {f"s3://{part.bucket}/{key}": fact for key, fact in facts.items()}
    stored |= listing
    return listing


def _verify(part: _Part, items: list[Upload]) -> None:
    """Compare what is in the store with what was to be uploaded; what differs is uploaded once more.

    :raises DataChanged: when an object still differs.
    """
    for again in (True, False):
        there = {one.key: one.size for one in part.store.list(part.bucket, f"{part.prefix}/")}
        wrong = [one for one in items if there.get(one.key) != one.size]
        if not wrong:
            return
        if again:
            items = [replace(one, size=os.lstat(one.path).st_size) for one in items]
            upload(part.store, [one for one in items if there.get(one.key) != one.size])
    raise DataChanged(
        f"s3://{part.bucket}/{wrong[0].key}: {there.get(wrong[0].key)} of {wrong[0].size} bytes are there; "
        f"{len(wrong)} of {len(items)} files are not stored as they are."
    )


def _files(part: _Part, skipped: list[str]) -> Iterator[tuple[str, tuple[str, int]]]:
    """Key, path and size of each regular file; of the state directory, only what records events lies flat in it."""
    if os.path.islink(part.directory):
        # A program may put one in the place of its results: what it leads to is not the job's.
        skipped.append(f"{part.name}: a symbolic link")
        return
    for where, folders, names in os.walk(part.directory, followlinks=False):
        if part.name == "state":
            folders.clear()
            names = [name for name in names if name.endswith(_STATE_ENDINGS) and not name.startswith(".")]
        links = [name for name in folders if os.path.islink(os.path.join(where, name))]
        for name in sorted([*names, *links]):
            path = os.path.join(where, name)
            relative = os.path.relpath(path, part.directory)
            key = f"{part.prefix}/{relative}"
            reason = _why_not(path, key)
            if reason:
                skipped.append(f"{part.name}/{relative!a}: {reason}".replace("'", ""))
            else:
                yield key, (path, os.lstat(path).st_size)


def _why_not(path: str, key: str) -> str:
    """Why a file can't be stored; empty when it can."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return "gone"
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if not stat.S_ISREG(mode):
        return "not a regular file"
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        return "its name is not UTF-8; save it under another name"
    return f"its key is longer than {_MAX_KEY_BYTES} bytes" if size > _MAX_KEY_BYTES else ""


def _stored_before(store: ObjectStore, bucket: str, key: str) -> dict[str, tuple[int, str]]:
    try:
        listing = store.get_json(bucket, key)
        return {uri: (int(size), str(digest)) for uri, (size, digest) in listing.items()}
    except (DataMissing, DataChanged, AttributeError, TypeError, ValueError):
        return {}
