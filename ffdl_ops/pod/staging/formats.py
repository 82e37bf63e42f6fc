"""Whether a checkpoint file is whole, as far as its format tells: by its size, its end, its directory.

A program that is killed inside a plain `torch.save` leaves a file that looks like any other; its format shows that the
end is missing. Nothing is loaded and no code of the file is run.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
import zipfile
from collections.abc import Collection

__all__ = ["is_whole", "missing_companions"]

_ZIP_SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".npz", ".keras", ".zip")
_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_TABLE_MAGIC = bytes.fromhex("57fb808b247547db")
_JSON_LIMIT = 64 << 20
_SHARD = re.compile(r"(.+)\.data-\d{5}-of-(\d{5})")


def is_whole(path: str) -> bool | None:
    """Whether the file is whole: ``True`` or ``False`` where the format tells, ``None`` where it does not."""
    try:
        size = os.lstat(path).st_size
        with open(path, "rb") as file:
            head = file.read(16)
        return _judge(path, os.path.basename(path), size, head)
    except (RecursionError, MemoryError):
        return None  # nested, or large, beyond what may be looked at
    except Exception:  # a header that says anything at all must not keep the files beside it from being taken
        return False


def missing_companions(path: str, names: Collection[str]) -> bool:
    """Whether files that belong to this one are not there: TensorFlow's shards and index, `.metadata` of sharded PyTorch.

    :param path: relative, as in names.
    :param names: all files of the directory that is looked at.
    """
    if match := _SHARD.fullmatch(path):
        return f"{match[1]}.index" not in names or not _all_shards(match[1], int(match[2]), names)
    if path.endswith(".index"):
        stem = path.removesuffix(".index")
        counts = {int(one[2]) for name in names if (one := _SHARD.fullmatch(name)) and one[1] == stem}
        return not any(_all_shards(stem, count, names) for count in counts)
    if path.endswith(".distcp"):
        return os.path.join(os.path.dirname(path), ".metadata") not in names
    return False


def _all_shards(stem: str, count: int, names: Collection[str]) -> bool:
    return all(f"{stem}.data-{number:05d}-of-{count:05d}" in names for number in range(count))


def _judge(path: str, name: str, size: int, head: bytes) -> bool | None:
    lower = name.lower()
    if head.startswith(b"PK"):
        return _zip_whole(path)
    if lower.endswith((".npz", ".keras", ".zip")):
        return False
    if lower.endswith(".safetensors"):
        return _safetensors_whole(path, size)
    if head.startswith(_HDF5_MAGIC):
        return _hdf5_whole(path, size)
    if lower.endswith((".h5", ".hdf5")):
        return False
    if head.startswith(b"\x93NUMPY") or lower.endswith(".npy"):
        return _npy_whole(path, size)
    if lower.endswith(".json"):
        return _json_whole(path, size)
    if lower.endswith(".index"):
        return _ends_with(path, size, _TABLE_MAGIC)
    if lower.endswith((".pkl", ".pickle")):
        return _ends_with(path, size, b".")
    if size < 4 and lower.endswith(_ZIP_SUFFIXES):
        return False
    return None


def _zip_whole(path: str) -> bool:
    """Whether the central directory is there and every entry's data lies before it."""
    try:
        with zipfile.ZipFile(path) as archive:
            end = archive.start_dir
            return all(info.header_offset + info.compress_size < end for info in archive.infolist())
    except (zipfile.BadZipFile, ValueError, struct.error, NotImplementedError):
        return False


def _safetensors_whole(path: str, size: int) -> bool:
    """8 bytes of header length, the header in JSON, then exactly the bytes that its offsets span."""
    with open(path, "rb") as file:
        start = file.read(8)
        if len(start) < 8:
            return False
        length = struct.unpack("<Q", start)[0]
        if length > size - 8 or length > 100 << 20:
            return False
        try:
            header = json.loads(file.read(length))
            ends = [one["data_offsets"][1] for name, one in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            return False
    return size == 8 + length + max(ends, default=0)


def _hdf5_whole(path: str, size: int) -> bool:
    """Whether the superblock's end-of-file address is the file's size, and it is not marked as open for writing."""
    with open(path, "rb") as file:
        block = file.read(128)
    if len(block) < 48:
        return False
    version = block[8]
    if version in (0, 1):
        width, start = block[13], 24 if version == 0 else 28
        position = start + 2 * width
    elif version in (2, 3):
        width, position = block[9], 12 + 2 * block[9]
    else:
        return False
    end = int.from_bytes(block[position : position + width], "little")
    being_written = version == 3 and bool(block[11] & 1)
    return end == size and not being_written


def _npy_whole(path: str, size: int) -> bool:
    """Whether shape times item size, after the header, is what is there."""
    import ast

    with open(path, "rb") as file:
        start = file.read(12)
        if len(start) < 12 or not start.startswith(b"\x93NUMPY"):
            return False
        if start[6] == 1:
            length, offset = struct.unpack("<H", start[8:10])[0], 10
        else:
            length, offset = struct.unpack("<I", start[8:12])[0], 12
        file.seek(offset)
        header = file.read(length)
    try:
        fields = ast.literal_eval(header.decode("latin-1"))
        descr, shape = fields["descr"], fields["shape"]
    except (ValueError, SyntaxError, KeyError, TypeError):
        return False
    match = re.fullmatch(r"[<>|=]?([a-zA-Z])(\d*)", descr) if isinstance(descr, str) else None
    if match is None or match[1] in "OMm":
        return size > offset + length  # structured or object arrays: the header alone doesn't tell
    item = int(match[2] or 1) * (4 if match[1] == "U" else 1)
    return size == offset + length + item * math.prod(shape)


def _json_whole(path: str, size: int) -> bool | None:
    if size > _JSON_LIMIT:
        return None
    try:
        with open(path, "rb") as file:
            json.load(file)
    except ValueError:
        return False
    return True


def _ends_with(path: str, size: int, ending: bytes) -> bool:
    if size < len(ending):
        return False
    with open(path, "rb") as file:
        file.seek(size - len(ending))
        return file.read() == ending
