"""The user's code in the job's code directory: an archive from the store, an example of the platform, or nothing."""

from __future__ import annotations

import os
import shutil
import zipfile

from ffdl_ops.adapters.storage.errors import BadSpec, DataChanged, UnsafeArchive, from_disk
from ffdl_ops.pod.staging.files import remove_tree, sha256_of
from ffdl_ops.pod.staging.spec import CodeSpec, StageSpec

__all__ = ["place_code", "unpack"]

_CHUNK = 1 << 20


def place_code(spec: StageSpec) -> int:
    """Fill the job's code directory anew, in one step: it is the old one or the new one.

    :returns: how many files it holds.
    :raises DataMissing, DataChanged, UnsafeArchive: when the archive is not there, not the one meant, or not safe.
    """
    fresh = os.path.join(spec.staging_dir, f"code-{os.getpid()}")
    place = os.path.join(spec.job_dir, "code")
    try:
        _remove_leftovers(spec)
        os.makedirs(fresh)
        count = _fill(spec, spec.code, fresh) if spec.code is not None else 0
        replace_directory(fresh, place, spec.staging_dir)
    except OSError as error:
        raise from_disk(error, f"placing the code in {place}") from None
    finally:
        remove_tree(fresh)
    return count


def unpack(path: str, directory: str) -> int:
    """Unpack a code archive into an empty directory, if it is safe.

    :returns: how many files and links it held.
    :raises UnsafeArchive: naming the entry that is not safe; the directory may then hold a part.
    """
    from ffdl_ops.adapters.storage.archives import safe_members

    try:
        with zipfile.ZipFile(path) as archive:
            members = safe_members(archive, os.path.getsize(path))
            for one in members:
                place = os.path.join(directory, one.path)
                if one.is_dir:
                    os.makedirs(place, exist_ok=True)
                    continue
                os.makedirs(os.path.dirname(place), exist_ok=True)
                if one.link is not None:
                    os.symlink(one.link, place)
                    continue
                with archive.open(one.info) as source, open(place, "xb") as target:
                    shutil.copyfileobj(source, target, _CHUNK)
                os.chmod(place, 0o755 if one.executable else 0o644)
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise UnsafeArchive(f"The code archive can't be read as a zip file: {error}; pack and upload it again.") from None
    return sum(not one.is_dir for one in members)


def replace_directory(fresh: str, place: str, scratch: str) -> None:
    """Put a directory in another's place.

    :param scratch: a directory on the same volume that takes the old one while it is removed.
    """
    old = os.path.join(scratch, f"old-{os.getpid()}")
    remove_tree(old)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if os.path.lexists(place):
        os.rename(place, old)
    os.rename(fresh, place)
    remove_tree(old)


def _remove_leftovers(spec: StageSpec) -> None:
    """Remove what a killed helper left; called under the job's lock."""
    os.makedirs(spec.staging_dir, exist_ok=True)
    for name in os.listdir(spec.staging_dir):
        if name.startswith(("code-", "old-", "restore-")):
            remove_tree(os.path.join(spec.staging_dir, name))


def _fill(spec: StageSpec, code: CodeSpec, directory: str) -> int:
    if code.inline_example is not None:
        return _copy_example(code.inline_example, directory)
    from ffdl_ops.pod.staging.stores import tenant_store

    bucket, _, key = str(code.uri).removeprefix("s3://").partition("/")
    archive = f"{directory}.zip"
    try:
        tenant_store().get_file(bucket, key, archive)
        if code.sha256 is not None and sha256_of(archive) != code.sha256:
            raise DataChanged(f"code.uri: {code.uri} is not the archive that was meant (sha256 differs); upload it again.")
        return unpack(archive, directory)
    finally:
        if os.path.exists(archive):
            os.unlink(archive)


def _copy_example(name: str, directory: str) -> int:
    import importlib.util

    from ffdl_ops.core.jobs.examples import EXAMPLES

    example = EXAMPLES.get(name)
    found = importlib.util.find_spec(example.module) if example is not None else None
    if found is None or found.origin is None:
        raise BadSpec(f"code.inline_example: there is no example {name!r}; there are {', '.join(sorted(EXAMPLES))}.")
    shutil.copyfile(found.origin, os.path.join(directory, os.path.basename(found.origin)))
    return 1
