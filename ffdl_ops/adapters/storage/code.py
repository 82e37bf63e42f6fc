"""A user's code: packed the same way each time, stored once by its digest."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path

from ffdl_ops.adapters.storage.archives import MAX_BYTES, MAX_FILES, safe_members
from ffdl_ops.adapters.storage.errors import DataMissing, UnsafeArchive
from ffdl_ops.adapters.storage.store import ObjectStore

__all__ = ["pack_code", "upload_code"]

_LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", "__pycache__", ".venv", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints"}
)
_EPOCH = (1980, 1, 1, 0, 0, 0)


def pack_code(path: str | os.PathLike[str]) -> tuple[bytes, str]:
    """A directory, a zip file or a single script, as a zip archive.

    The same content gives the same bytes. Version control and caches are left out of a directory; a link inside it is
    packed as what it leads to.

    :returns: the archive and its sha256.
    :raises DataMissing: when there is nothing at the path.
    :raises UnsafeArchive: when a zip is not safe to unpack, a link leaves the directory, or it is too large.
    """
    source = Path(path)
    if source.is_dir():
        content = _zip_of(dict(_walk(source)))
    elif source.is_file() and zipfile.is_zipfile(source):
        content = source.read_bytes()
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            safe_members(archive, len(content))
    elif source.is_file() and source.suffix.lower() == ".zip":
        raise UnsafeArchive(f"{source} can't be read as a zip file; pack it again.")
    elif source.is_file():
        content = _zip_of({source.name: source})
    else:
        raise DataMissing(f"There is no code at {source}: give a directory, a zip file or a script.")
    return content, hashlib.sha256(content).hexdigest()


def upload_code(store: ObjectStore, bucket: str, path: str | os.PathLike[str]) -> str:
    """Pack code and store it, once by digest.

    :returns: its URI, `s3://<bucket>/code/<sha256>.zip`.
    """
    content, digest = pack_code(path)
    key = f"code/{digest}.zip"
    if store.size(bucket, key) != len(content):
        store.put_bytes(bucket, key, content, "application/zip")
    return f"s3://{bucket}/{key}"


def _walk(root: Path) -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    real_root = root.resolve()
    total = 0
    for where, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        for name in [*names, *(one for one in folders if (Path(where) / one).is_symlink())]:
            file = Path(where) / name
            relative = file.relative_to(root).as_posix()
            try:
                relative.encode()
            except UnicodeEncodeError:
                raise UnsafeArchive(f"{relative!a} in {root} has a name that is no UTF-8; rename it.") from None
            if file.is_symlink() and not Path(os.path.realpath(file)).is_relative_to(real_root):
                raise UnsafeArchive(f"{relative} is a link out of {root}; copy what it leads to, or remove it.")
            if file.is_symlink() and file.is_dir():
                raise UnsafeArchive(f"{relative} is a link to a directory; put the directory itself there.")
            if not file.is_file() or name.endswith(".pyc"):
                continue
            found.append((relative, file))
            total += file.stat().st_size
            if total > MAX_BYTES or len(found) > MAX_FILES:
                raise UnsafeArchive(
                    f"{root} holds more than {MAX_BYTES >> 20} MiB or {MAX_FILES} files; put data into a data store."
                )
    return found


def _zip_of(files: dict[str, Path]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            executable = bool(files[name].stat().st_mode & 0o100)
            info.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(info, files[name].read_bytes())
    return buffer.getvalue()
