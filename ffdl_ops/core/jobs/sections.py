"""The manifest's sections: framework, data stores, checkpoints, preflight, number of learners."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, WithJsonSchema

from ffdl_ops.core.jobs.fields import (
    BUCKET_PATTERN,
    Command,
    Container,
    Duration,
    ImageName,
    Label,
    Section,
    Tag,
    number,
    refuse,
    text,
    whole,
)
from ffdl_ops.core.jobs.problems import nearest
from ffdl_ops.core.scheduling.model import Level, Strategy

__all__ = [
    "CUSTOM", "MAX_LEARNERS", "Checkpoint", "Connection", "DataStore", "Framework", "LearnerRange", "Layout",
    "Monitor", "Preflight", "S3Uri", "Storage", "TRUTH", "Whole",
]  # fmt: skip

CUSTOM = "custom"
"""The framework whose version is the name of an image."""
MAX_LEARNERS = 64
"""A gang's size at most: its rendezvous has so many ports."""
STORE_TYPES = ("mount_cos", "s3_datastore")
_LEVELS = tuple(level.name.lower() for level in Level)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_SECRET = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_URI = re.compile(rf"s3://{BUCKET_PATTERN}/[^\x00-\x1f\x7f\\]+", re.ASCII)


def _check_framework_name(value: Any) -> str:
    name = text(63)(value)
    if not _NAME.fullmatch(name):
        raise refuse("is no framework's name", "letters, digits, '.', '_' and '-' are possible")
    return name.lower()


def _check_store_type(value: Any) -> str:
    kind = text(63)(value)
    if kind == "mount_volume":
        raise refuse(
            "a directory of a node can't be mounted: it would be one tenant's way to another's files",
            "put the data into a bucket and use the type mount_cos",
        )
    if kind not in STORE_TYPES:
        raise refuse("is no data-store type that this platform has", nearest(kind, STORE_TYPES))
    return kind


def _check_connection_type(value: Any) -> str:
    kind = text(63)(value)
    if kind not in (*STORE_TYPES, "s3"):
        raise refuse("is no type of connection that this platform has", "leave it out: data stores are reached by S3")
    return kind


def _one_of(what: str, names: Iterable[str]) -> Callable[[Any], str]:
    known = [str(name) for name in names]

    def check(value: Any) -> str:
        name = text(63)(value).lower()
        if name not in known:
            raise refuse(f"is no {what}", f"there are {', '.join(known)}")
        return name

    return check


def _enum(names: Iterable[str]) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": [str(name) for name in names]})


def _check_url(value: Any) -> str:
    url = text(512)(value)
    try:
        parts = urlsplit(url)
        ok = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        ok = False
    if not ok or parts.username or parts.query or parts.fragment:
        raise refuse("must be the http:// or https:// address of an S3 service", "without user, query or fragment")
    return url


def _check_secret(value: Any) -> str:
    name = text(63)(value)
    if not _SECRET.fullmatch(name) or name == "ffdl-storage":
        raise refuse("is no name of a data-store secret", "`ffdl submit` makes one and names it")
    return name


def _check_uri(value: Any) -> str:
    uri = text(1024)(value)
    if not _URI.fullmatch(uri) or any(part in (".", "..", "") for part in uri[5:].split("/")):
        raise refuse("must be the address of an object, like s3://BUCKET/code/program.zip")
    if not uri.endswith(".zip"):
        raise refuse("must be a zip archive: the address has to end in .zip", "`ffdl submit --code DIR` packs one")
    return uri


def Whole(minimum: int, maximum: int) -> Any:  # noqa: N802 - reads as a type where it is used
    """The metadata of a whole number within limits."""
    return (
        BeforeValidator(whole(minimum, maximum)),
        WithJsonSchema({"type": "integer", "minimum": minimum, "maximum": maximum}),
    )


_WHOLE_LEARNERS = Whole(1, MAX_LEARNERS)
_KEEP = Whole(1, 1000)
_STEPS = Whole(1, 10**9)


def _seconds(minimum: float, maximum: float) -> Any:
    return (
        BeforeValidator(number(minimum, maximum)),
        WithJsonSchema({"type": "number", "minimum": minimum, "maximum": maximum}),
    )


_INTERVAL = _seconds(0.5, 3600)
_PREFLIGHT = _seconds(1, 3600)


def _check_truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise refuse("must be true or false", "without quotes")
    return value


TRUTH = (BeforeValidator(_check_truth), WithJsonSchema({"type": "boolean"}))

Count = Annotated[int, *_WHOLE_LEARNERS]
S3Uri = Annotated[str, BeforeValidator(_check_uri), WithJsonSchema({"type": "string", "pattern": r"^s3://.+\.zip$"})]
"""The address of a zip archive in a bucket."""


class LearnerRange(Section):
    """An elastic gang: as many learners as fit, within limits."""

    min: Count
    max: Count


class Framework(Section):
    """What the program is written for and how it is started."""

    name: Annotated[
        str, BeforeValidator(_check_framework_name), WithJsonSchema({"type": ["string", "number"], "maxLength": 63})
    ]
    version: Label | None = None
    image_tag: Tag | None = None
    image: ImageName | None = None
    command: Command


class Storage(Section):
    """A place in an object store."""

    container: Container


class Connection(Section):
    """Credentials of a data store that is not the tenant's own: the name of a secret, or (`ffdl submit` alone) in full."""

    secret: Annotated[
        str | None, BeforeValidator(_check_secret), WithJsonSchema({"type": "string", "maxLength": 63})
    ] = None
    type: Annotated[
        str | None,
        BeforeValidator(_check_connection_type),
        WithJsonSchema({"type": "string", "enum": [*STORE_TYPES, "s3"]}),
    ] = None
    auth_url: Annotated[
        str | None, BeforeValidator(_check_url), WithJsonSchema({"type": "string", "maxLength": 512})
    ] = None
    user_name: Annotated[str | None, BeforeValidator(text(256)), WithJsonSchema({"type": ["string", "number"]})] = None
    password: Annotated[str | None, BeforeValidator(text(256)), WithJsonSchema({"type": ["string", "number"]})] = Field(
        default=None, repr=False
    )
    region: Annotated[str | None, BeforeValidator(text(64)), WithJsonSchema({"type": "string"})] = None


class DataStore(Section):
    """Where the training data is and where the results go."""

    id: Label | None = None
    type: Annotated[
        str, BeforeValidator(_check_store_type), WithJsonSchema({"type": "string", "enum": list(STORE_TYPES)})
    ]
    training_data: Storage | None = None
    training_results: Storage | None = None
    connection: Connection | None = None


class Checkpoint(Section):
    """How checkpoints are taken up. ``interval_s`` in seconds; ``keep`` complete generations are kept.

    Not ``enabled``, no side-car runs beside the learners: what the program writes stays in its pods and is gone with them.
    """

    enabled: Annotated[bool, *TRUTH] = True
    interval_s: Annotated[float, *_INTERVAL] = 2.0
    keep: Annotated[int, *_KEEP] = 3
    per_rank: Annotated[bool, *TRUTH] = False


class Preflight(Section):
    """A trial of one learner before the gang starts: for so many seconds, or until so many steps were made."""

    enabled: Annotated[bool | None, *TRUTH] = None
    seconds: Annotated[float, *_PREFLIGHT] = 60.0
    steps: Annotated[int | None, *_STEPS] = None


class Monitor(Section):
    """Whether the learners' output is followed while they train: for the task's log and for MLflow.

    Not ``enabled``, both get it when training has ended.
    """

    enabled: Annotated[bool, *TRUTH] = True


class Layout(Section):
    """How the gang's learners are laid out on the cluster; what is left out is as the platform has it.

    `within` is how close together they must be; with `relax_after`, that is relaxed by a step (node, rack, cluster) each time
    the job has waited so long.
    """

    strategy: Annotated[str | None, BeforeValidator(_one_of("strategy", Strategy)), _enum(Strategy)] = None
    within: Annotated[str | None, BeforeValidator(_one_of("level", _LEVELS)), _enum(_LEVELS)] = None
    relax_after: Duration | None = None
