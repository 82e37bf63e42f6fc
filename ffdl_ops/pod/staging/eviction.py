"""Room in the cache: data sets that nobody has used for long, the least recently used first, make way for new ones.

Never one that a living job may read. The platform names those of the jobs that live when the helper starts; whoever stages or
finds a data set later marks it as used, under its lock, which is looked at again before it is removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from dataclasses import dataclass

from ffdl_ops.pod.staging.files import locked, read_json, remove_tree, try_lock
from ffdl_ops.pod.staging.report import say
from ffdl_ops.pod.staging.spec import KEY_SHOWN, DataSpec, KeepSpec, StageSpec

__all__ = ["Evicted", "lock_path", "make_room", "mark_used", "place_of"]

_SLACK_S = 600.0
_MOST = 150
_MARKER = ".complete"
_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Evicted:
    """What was removed.

    :param keys: the beginnings of the data sets' keys.
    :param bytes: how much they held.
    """

    keys: tuple[str, ...] = ()
    bytes: int = 0


@dataclass(frozen=True)
class _Kept:
    """One data set in the cache; `used_at` in seconds since 1970."""

    key: str
    bytes: int
    used_at: float


def place_of(data: DataSpec, key: str) -> str:
    """Where a data set lies."""
    return os.path.join(data.cache_dir, key)


def lock_path(data: DataSpec, key: str) -> str:
    """The lock that whoever writes, removes or begins to use a data set holds."""
    return os.path.join(data.cache_dir, ".locks", f"{key}.lock")


def mark_used(data: DataSpec) -> None:
    """Keep that the data set, if it is there, is used now. Its lock must be held."""
    # Absent, or another user's of an earlier configuration: then it is not ours to remove either.
    with contextlib.suppress(FileNotFoundError, PermissionError):
        os.utime(place_of(data, data.key) + _MARKER)


def make_room(spec: StageSpec, data: DataSpec, keep: KeepSpec, coming: int) -> Evicted:
    """Remove what is unused for longer than the limit, then what was not used for longest, until the rest fits.

    At most 150 data sets at once: all of them must fit into the helper's report.

    :param coming: bytes that are about to be added.
    :returns: what was removed; the spec's own data set never is.
    """
    # Two at once would each make the whole room.
    with locked(os.path.join(data.cache_dir, ".locks", "eviction.lock")):
        return _make_room(spec, data, keep, coming)


def _make_room(spec: StageSpec, data: DataSpec, keep: KeepSpec, coming: int) -> Evicted:
    found = sorted(_kept_in(data), key=lambda one: one.used_at)
    size = coming + sum(one.bytes for one in found)
    oldest = time.time() - keep.max_age_s if keep.max_age_s else 0.0
    removed: list[_Kept] = []
    for one in found:
        too_much = bool(keep.max_bytes) and size > keep.max_bytes
        if len(removed) == _MOST or not (too_much or one.used_at < oldest):
            break
        if one.key != data.key and one.key[:KEY_SHOWN] not in keep.in_use and _remove(data, keep, one.key):
            removed.append(one)
            size -= one.bytes
    if removed:
        freed = sum(one.bytes for one in removed)
        say(spec, f"removed from the cache, not used lately: {len(removed)} data sets, {freed / 2**20:.1f} MiB")
    if keep.max_bytes and size > keep.max_bytes:
        say(spec, f"the cache holds {size / 2**20:.1f} of {keep.max_bytes / 2**20:.1f} MiB: the rest of it is in use")
    return Evicted(tuple(one.key[:KEY_SHOWN] for one in removed), sum(one.bytes for one in removed))


def _kept_in(data: DataSpec) -> list[_Kept]:
    found = []
    for name in os.listdir(data.cache_dir):
        key = name.removesuffix(_MARKER)
        if key == name or not _KEY.fullmatch(key):
            continue
        marker = read_json(os.path.join(data.cache_dir, name))
        with contextlib.suppress(OSError, AttributeError, KeyError, TypeError):
            found.append(_Kept(key, sum(marker["files"].values()), _used_at(data, key)))
    return found


def _used_at(data: DataSpec, key: str) -> float:
    return os.lstat(place_of(data, key) + _MARKER).st_mtime


def _remove(data: DataSpec, keep: KeepSpec, key: str) -> bool:
    """Remove a data set unless it is used; what a killed helper leaves of it is garbage that the next fetch removes."""
    place = place_of(data, key)
    aside = f"{place}.partial-evicted"
    with try_lock(lock_path(data, key)) as free:
        # Looked at again: somebody may have begun to use it since the list of living jobs was made.
        if not free or _used_at(data, key) > keep.as_of - _SLACK_S:
            return False
        try:
            remove_tree(aside)
            if os.path.lexists(place):
                os.replace(place, aside)
            os.unlink(place + _MARKER)
        except OSError:
            return False
    remove_tree(aside)
    return True
