"""Many files, or large ones, between a store and a local directory: by the transfer engine, verified afterwards.

Verification is by the set of files and their sizes; who needs more (a checkpoint's restore) compares digests too.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ffdl_ops.adapters.storage.datasets import Dataset
from ffdl_ops.adapters.storage.engine import run_engine
from ffdl_ops.adapters.storage.errors import DataChanged, DiskTrouble, from_disk
from ffdl_ops.adapters.storage.store import ObjectStore

__all__ = ["Download", "Upload", "check_space", "download", "download_dataset", "upload"]

_GLOBS = frozenset("*?")
_LINE_BREAKERS = frozenset("\n\r\0")
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Download:
    """One object and the file that it becomes (size in bytes)."""

    bucket: str
    key: str
    size: int
    path: str


@dataclass(frozen=True)
class Upload:
    """One file and the object that it becomes (size in bytes)."""

    path: str
    size: int
    bucket: str
    key: str


def download_dataset(store: ObjectStore, dataset: Dataset, directory: str) -> None:
    """Download a data set into an empty directory, and verify it against the listing that the data set was made from.

    :raises DataChanged: when what arrived differs from the listing.
    :raises DiskTrouble: when the volume can't hold it.
    """
    check_space(directory, dataset.bytes)
    folder = f"{dataset.prefix}/" if dataset.prefix else ""
    whole = all(one.key == folder + name for name, one in dataset.objects.items())
    if whole and not _GLOBS & set(folder):
        source = f"s3://{dataset.bucket}/{folder}*"
        run_engine(store.config, ["cp", source, f"{directory}/"], f"downloading s3://{dataset.bucket}/{folder}")
    else:
        items = [
            Download(dataset.bucket, one.key, one.size, os.path.join(directory, name))
            for name, one in dataset.objects.items()
        ]
        download(store, items)
    _check_all(dataset, directory)


def download(store: ObjectStore, items: Sequence[Download]) -> int:
    """Download objects to the files named.

    :returns: their bytes.
    :raises DataChanged: when a file's size is not the object's.
    """
    if not items:
        return 0
    for parent in {os.path.dirname(one.path) for one in items}:
        try:
            os.makedirs(parent, exist_ok=True)
        except OSError as error:
            raise from_disk(error, f"making {parent}") from None
    check_space(os.path.dirname(items[0].path), sum(one.size for one in items))
    special = [one for one in items if _LINE_BREAKERS & set(one.key + one.path) or _is_long(one.path)]
    plain = [one for one in items if one not in special] if special else items
    _run(store, [f"cp --raw {_quoted(f's3://{one.bucket}/{one.key}', one.path)}" for one in plain], "downloading")
    for one in special:
        # Every tool downloads to a longer name first, which may be longer than a name can be.
        short = os.path.join(os.path.dirname(one.path), f".ffdl-{os.getpid()}")
        store.get_file(one.bucket, one.key, short)
        os.replace(short, one.path)
    _check_sizes({one.path: one.size for one in items})
    return sum(one.size for one in items)


def upload(store: ObjectStore, items: Sequence[Upload]) -> int:
    """Upload files; symbolic links are not followed. The caller verifies what arrived.

    :returns: their bytes.
    """
    plain = [one for one in items if not _LINE_BREAKERS & set(one.key + one.path)]
    lines = [
        f"cp --raw --no-follow-symlinks {_quoted(one.path, f's3://{one.bucket}/{one.key}')}" for one in plain
    ]
    _run(store, lines, "uploading")
    for one in items:
        if _LINE_BREAKERS & set(one.key + one.path):
            store.put_file(one.bucket, one.key, one.path)
    return sum(one.size for one in items)


def _is_long(path: str) -> bool:
    return len(os.path.basename(path).encode()) > _LONGEST_NAME


def check_space(directory: str, needed: int) -> None:
    """Make sure that the volume has room.

    :param needed: bytes.
    :raises DiskTrouble: naming both numbers.
    """
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise DiskTrouble(
            f"{directory}: {needed / 2**20:.1f} MiB are needed and {free / 2**20:.1f} MiB are free on this volume; "
            "remove what is not needed, or use a larger volume."
        )


def _run(store: ObjectStore, lines: list[str], doing: str) -> None:
    if lines:
        what = f"{doing} {len(lines)} file{'s' * (len(lines) != 1)}"
        run_engine(store.config, ["run"], what, commands="\n".join(lines) + "\n")


def _quoted(source: str, destination: str) -> str:
    return f"{shlex.quote(source)} {shlex.quote(destination)}"


def _check_sizes(expected: dict[str, int]) -> None:
    for path, size in expected.items():
        try:
            arrived: int | None = os.lstat(path).st_size
        except OSError:
            arrived = None
        if arrived != size:
            raise _differs(os.path.basename(path), size, arrived)


def _check_all(dataset: Dataset, directory: str) -> None:
    """Compare what is in the directory with the data set: every file, its size, and nothing else."""
    arrived = dict(_sizes_below(directory, ""))
    for name, one in dataset.objects.items():
        size = arrived.pop(name, None)
        if size != one.size:
            raise _differs(name, one.size, size)
    if arrived:
        raise DataChanged(
            f"s3://{dataset.bucket}/{dataset.prefix}: object {min(arrived)!r} was added during the download. "
            "Run the job again to take the data as it is now."
        )


def _sizes_below(directory: str, prefix: str) -> Iterator[tuple[str, int]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _sizes_below(entry.path, f"{prefix}{entry.name}/")
            else:
                yield prefix + entry.name, entry.stat(follow_symlinks=False).st_size


def _differs(name: str, expected: int, arrived: int | None) -> DataChanged:
    what = "no file" if arrived is None else str(arrived)
    return DataChanged(
        f"{name}: {expected} bytes were expected and {what} arrived; the object changed during the download. "
        "Run the job again to take the data as it is now."
    )
