"""`remove`: nothing of the job is left on the job volume.

The pod has the directory of the tenant's jobs mounted, not the job's own: nobody can remove what is mounted.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Any

from ffdl_ops.adapters.storage.errors import BadSpec, from_disk
from ffdl_ops.pod.staging.files import remove_tree
from ffdl_ops.pod.staging.spec import StageSpec

__all__ = ["remove"]


def remove(spec: StageSpec) -> dict[str, Any]:
    """Remove the job's directory; once it is gone, there is nothing to do.

    Where the volume lets nobody remove the directory itself, it is left, empty.

    :returns: how many files were removed, and their bytes.
    :raises BadSpec: when the directory is not the job's.
    :raises DiskTrouble: when something in it can't be removed.
    """
    place = spec.job_dir
    if os.path.basename(place) != spec.job_id:
        raise BadSpec(f"job_dir: {place} is not the directory of {spec.job_id}.")
    if os.path.islink(place) or not os.path.isdir(place):
        with contextlib.suppress(FileNotFoundError):
            remove_tree(place)
        return {"files": 0, "bytes": 0}
    try:
        files, size = _opened(place)
        for entry in os.scandir(place):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
    except OSError as error:
        raise from_disk(error, f"removing {place}") from None
    with contextlib.suppress(OSError):
        os.rmdir(place)
    return {"files": files, "bytes": size}


def _opened(place: str) -> tuple[int, int]:
    """Number and bytes of the files below; a program may have taken the right to write away from its own directories."""
    files = size = 0
    os.chmod(place, 0o700)
    for where, folders, names in os.walk(place, followlinks=False):
        for path in (os.path.join(where, name) for name in folders):
            if not os.path.islink(path):
                os.chmod(path, 0o700)
        files += len(names)
        size += sum(os.lstat(os.path.join(where, name)).st_size for name in names)
    return files, size
