"""What a staging command is told: the specification in `FFDL_STAGE_SPEC`, checked. It holds no secrets."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ffdl_ops.adapters.storage.errors import BadSpec

__all__ = ["KEY_SHOWN", "CheckpointSpec", "CodeSpec", "DataSpec", "KeepSpec", "ResultsSpec", "StageSpec", "load_spec"]

KEY_SHOWN = 16
"""How much of a data set's key is told to a helper, and by it: enough to tell it from every other one."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class KeepSpec:
    """What may stay in the cache beside the data set.

    :param max_bytes: of all data sets; 0 is without limit.
    :param max_age_s: seconds since the last use; 0 is without limit.
    :param in_use: the beginnings of the keys that living jobs read, at `as_of` (seconds since 1970).
    """

    max_bytes: float
    max_age_s: float
    in_use: frozenset[str]
    as_of: float


@dataclass(frozen=True)
class DataSpec:
    """The data set: where it is in the store, and the key under which it lies in the cache directory.

    :param keep: what may stay there beside it; ``None`` when nothing is to be removed.
    """

    bucket: str
    prefix: str
    key: str
    cache_dir: str
    keep: KeepSpec | None = None


@dataclass(frozen=True)
class CodeSpec:
    """The user's code: an archive in the store, or one of the platform's examples.

    :param sha256: the archive's digest; ``None`` when it is not known and so not checked.
    """

    uri: str | None = None
    sha256: str | None = None
    inline_example: str | None = None


@dataclass(frozen=True)
class CheckpointSpec:
    """How checkpoints are taken.

    :param enabled: whether they are taken at all.
    :param interval_s: seconds between two looks at the directory.
    :param per_rank: whether each rank has a directory of its own.
    :param keep: complete generations to keep.
    """

    enabled: bool = True
    interval_s: float = 2.0
    per_rank: bool = False
    keep: int = 3


@dataclass(frozen=True)
class ResultsSpec:
    """Where results go."""

    bucket: str
    prefix: str


@dataclass(frozen=True)
class StageSpec:
    """A staging command's specification.

    :param command: the command that it is read for; names the helper's log.
    :param attempt: the attempt that it serves, from 1; 0 when none has begun (data staging, a preflight).
    :param grace_s: seconds that the side-car may use after its SIGTERM.
    """

    job_id: str
    tenant: str
    attempt: int
    rank: int
    learners: int
    bucket: str
    job_dir: str
    tools_dir: str
    data: DataSpec | None
    code: CodeSpec | None
    checkpoint: CheckpointSpec
    results: ResultsSpec
    command: str = "helper"
    grace_s: float = 20.0

    @property
    def checkpoints_dir(self) -> str:
        """The directory that the learners write their checkpoints to (all ranks' together)."""
        return os.path.join(self.job_dir, "checkpoints")

    @property
    def state_dir(self) -> str:
        """The job's state directory."""
        return os.path.join(self.job_dir, "state")

    @property
    def staging_dir(self) -> str:
        """Where the helpers keep their own state of the job."""
        return os.path.join(self.state_dir, "staging")


def load_spec(text: str | None, command: str = "helper") -> StageSpec:
    """Read a specification.

    :param command: the command that it is read for.
    :param text: JSON, as `FFDL_STAGE_SPEC` holds it.
    :raises BadSpec: naming the field and what is wrong with it.
    """
    if not text:
        raise BadSpec("FFDL_STAGE_SPEC is not set: it must hold the command's specification as JSON.")
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise BadSpec(f"FFDL_STAGE_SPEC is not JSON: {error}") from None
    if not isinstance(raw, dict):
        raise BadSpec("FFDL_STAGE_SPEC must be a JSON object.")
    job_id, bucket = _name(raw, "job_id"), _text(raw, "bucket")
    checkpoint = _mapping(raw, "checkpoint") or {}
    results = _mapping(raw, "results") or {}
    return StageSpec(
        job_id=job_id,
        tenant=_text(raw, "tenant"),
        attempt=_count(raw, "attempt", 0),
        rank=_count(raw, "rank", 0),
        learners=_count(raw, "learners", 1, least=1),
        bucket=bucket,
        job_dir=_directory(raw, "job_dir", "/job"),
        tools_dir=_directory(raw, "tools_dir", "/ffdl/tools"),
        data=_data(_mapping(raw, "data")),
        code=_code(_mapping(raw, "code")),
        checkpoint=CheckpointSpec(
            enabled=bool(checkpoint.get("enabled", True)),
            interval_s=_seconds(checkpoint, "checkpoint.interval_s", 2.0),
            per_rank=bool(checkpoint.get("per_rank", False)),
            keep=_count(checkpoint, "checkpoint.keep", 3, least=1),
        ),
        results=ResultsSpec(
            bucket=str(results.get("bucket") or bucket),
            prefix=str(results.get("prefix") or f"jobs/{job_id}/results").strip("/"),
        ),
        command=command,
        grace_s=_seconds(raw, "grace_s", 20.0),
    )


def _data(raw: Mapping[str, Any] | None) -> DataSpec | None:
    if raw is None:
        return None
    return DataSpec(
        bucket=_text(raw, "data.bucket"),
        prefix=str(raw.get("prefix") or ""),
        key=_name(raw, "data.key"),
        cache_dir=_directory(raw, "data.cache_dir", "/ffdl/cache"),
        keep=_keep(_mapping(raw, "data.keep")),
    )


def _keep(raw: Mapping[str, Any] | None) -> KeepSpec | None:
    if raw is None:
        return None
    in_use = raw.get("in_use")
    if not isinstance(in_use, list) or not all(isinstance(one, str) for one in in_use):
        raise BadSpec(f"data.keep.in_use must be a list of keys, not {in_use!r}.")
    amounts = {name: _amount(raw, f"data.keep.{name}") for name in ("max_bytes", "max_age_s", "as_of")}
    return KeepSpec(in_use=frozenset(in_use), **amounts)


def _code(raw: Mapping[str, Any] | None) -> CodeSpec | None:
    if raw is None:
        return None
    example, uri, digest = raw.get("inline_example"), raw.get("uri"), raw.get("sha256")
    if example:
        return CodeSpec(inline_example=str(example))
    if not isinstance(uri, str) or not re.fullmatch(r"s3://[^/]+/.+", uri):
        raise BadSpec(f"code.uri: {uri!r} is not of the form s3://BUCKET/KEY.")
    if digest is not None and not re.fullmatch(r"[0-9a-f]{64}", str(digest)):
        raise BadSpec(f"code.sha256: {digest!r} is not a sha256 (64 hexadecimal digits).")
    return CodeSpec(uri=uri, sha256=digest)


def _last(field: str) -> str:
    return field.rsplit(".", 1)[-1]


def _text(raw: Mapping[str, Any], field: str) -> str:
    value = raw.get(_last(field))
    if not isinstance(value, str) or not value:
        raise BadSpec(f"{field} must be a text that is not empty, not {value!r}.")
    return value


def _name(raw: Mapping[str, Any], field: str) -> str:
    value = _text(raw, field)
    if not _NAME.fullmatch(value):
        raise BadSpec(f"{field}: {value!r} can't be a directory's name (letters, digits, '.', '_', '-'; at most 128).")
    return value


def _directory(raw: Mapping[str, Any], field: str, default: str) -> str:
    value = raw.get(_last(field)) or default
    if not isinstance(value, str) or not os.path.isabs(value):
        raise BadSpec(f"{field}: {value!r} is not an absolute path.")
    return value


def _count(raw: Mapping[str, Any], field: str, default: int, *, least: int = 0) -> int:
    value = raw.get(_last(field), default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BadSpec(f"{field} must be a whole number of at least {least}, not {value!r}.")
    return value


def _amount(raw: Mapping[str, Any], field: str) -> float:
    value = raw.get(_last(field))
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
        raise BadSpec(f"{field} must be a number of at least 0, not {value!r}.")
    return float(value)


def _seconds(raw: Mapping[str, Any], field: str, default: float) -> float:
    value = raw.get(_last(field), default)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e6:
        raise BadSpec(f"{field} must be a number of seconds above 0, not {value!r}.")
    return float(value)


def _mapping(raw: Mapping[str, Any], field: str) -> Mapping[str, Any] | None:
    value = raw.get(_last(field))
    if value is not None and not isinstance(value, dict):
        raise BadSpec(f"{field} must be an object or null, not {value!r}.")
    return value
