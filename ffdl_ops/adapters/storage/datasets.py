"""A data set: the objects below a prefix, known by what they are."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from ffdl_ops.adapters.storage.errors import DataMissing
from ffdl_ops.adapters.storage.keys import check_collisions, file_name
from ffdl_ops.adapters.storage.store import ObjectInfo, ObjectStore

__all__ = ["Dataset", "dataset_of"]


@dataclass(frozen=True)
class Dataset:
    """The objects below a prefix, at one moment.

    :param prefix: as it was asked for, without a slash at its end; the name of one object is taken too.
    :param key: sha256 of the sorted (key, size, ETag): any change of the data gives another.
    :param bytes: sum of the sizes.
    :param files: number of objects.
    :param objects: by relative file name.
    """

    bucket: str
    prefix: str
    key: str
    bytes: int
    files: int
    objects: dict[str, ObjectInfo] = field(default_factory=dict, repr=False, compare=False)


def dataset_of(store: ObjectStore, bucket: str, prefix: str = "") -> Dataset:
    """Look up a data set.

    :param prefix: a "directory" of the bucket ("" for all of it), or one object's key.
    :raises DataMissing: when nothing is there.
    :raises UnsafeKey: when a key can't be a file, naming it.
    """
    prefix = prefix.strip("/")
    folder = f"{prefix}/" if prefix else ""
    found = [one for one in store.list(bucket, folder) if not _is_placeholder(one)]
    objects = {file_name(one.key, folder): one for one in found}
    if not objects and prefix:
        objects = {file_name(one.key.rsplit("/", 1)[-1]): one for one in store.list(bucket, prefix) if one.key == prefix}
    if not objects:
        raise DataMissing(
            f"There is no data at s3://{bucket}/{folder}: the bucket is there, but holds no object below this prefix; "
            "upload the data, or correct the container's name."
        )
    check_collisions(objects)
    digest = hashlib.sha256()
    for one in sorted(objects.values(), key=lambda item: item.key):
        digest.update(f"{one.key}\0{one.size}\0{one.etag}\n".encode())
    size = sum(one.size for one in objects.values())
    return Dataset(bucket, prefix, digest.hexdigest(), size, len(objects), objects)


def _is_placeholder(one: ObjectInfo) -> bool:
    """Whether it is an empty object that some tools write to show a folder."""
    return one.key.endswith("/") and one.size == 0
