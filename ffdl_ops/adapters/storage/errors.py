"""What can go wrong between this platform and a store, as errors with the exit code that a helper ends with."""

from __future__ import annotations

import errno
import re

from ffdl_ops.core.errors import FfdlError, PermanentError, TemporaryError, UserError

__all__ = [
    "AccessRefused",
    "BadSpec",
    "DataChanged",
    "DataMissing",
    "DiskTrouble",
    "Unreachable",
    "UnsafeArchive",
    "UnsafeKey",
    "exit_code",
    "from_disk",
    "from_text",
]

_REFUSED = re.compile(
    r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|ExpiredToken|Forbidden|status code: 40[13]|"
    r"AuthorizationHeaderMalformed|Unauthorized"
)
_MISSING = re.compile(r"NoSuchBucket|NoSuchKey|NotFound|no object found|status code: 404")
_DISK = re.compile(
    r"no space left|disk quota|input/output error|read-only file system|file too large|name too long", re.IGNORECASE
)


class BadSpec(PermanentError):
    """A helper was told something that it can't act on; names the field."""

    code = 64


class DataMissing(UserError):
    """A bucket, prefix or object that should be there is not."""

    code = 65


class DataChanged(UserError):
    """Objects differ from those that the job was planned with, or arrived damaged."""

    code = 65


class UnsafeKey(UserError):
    """A key can't be a file below the data directory (absolute, `..`, file and directory of one name)."""

    code = 65


class UnsafeArchive(UserError):
    """A code archive that would write outside its directory, is damaged, or is far larger than it looks."""

    code = 65


class AccessRefused(UserError):
    """The store refused the credentials."""

    code = 66


class Unreachable(TemporaryError):
    """The endpoint can't be reached, or answers with errors of its own."""

    code = 69


class DiskTrouble(TemporaryError):
    """The local volume is full or can't be written."""

    code = 74


def exit_code(error: BaseException) -> int:
    """The exit code of a helper that ends with this error (64, 65, 66, 69, 74; 1 for anything else)."""
    code = getattr(error, "code", None)
    if isinstance(error, FfdlError) and isinstance(code, int):
        return code
    return 74 if isinstance(error, OSError) else 1


def from_disk(error: OSError, doing: str) -> DiskTrouble:
    """The error of a local file operation.

    :param doing: what was being done, as the beginning of the message.
    """
    hint = ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "; the volume is full: remove what is not needed, or ask for a larger one (`storage`)"
    return DiskTrouble(f"{doing}: {error.strerror or error}{hint}")


def from_text(text: str, doing: str) -> FfdlError:
    """The error that a transfer tool's message stands for.

    :param text: the tool's message.
    :param doing: what was being done, as the beginning of the message.
    """
    brief = " ".join(text.split())[:400]
    if _DISK.search(text):
        return DiskTrouble(f"{doing}: the local volume can't take the data: {brief}")
    if _REFUSED.search(text):
        return AccessRefused(f"{doing}: the store refused the credentials: {brief}")
    if _MISSING.search(text):
        return DataMissing(f"{doing}: not there: {brief}")
    return Unreachable(f"{doing}: the store could not be reached or failed: {brief}")
