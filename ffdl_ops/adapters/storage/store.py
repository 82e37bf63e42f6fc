"""One account's view of a store: the control calls, each with an error that says what to do.

Single objects go through here; many or large files through :mod:`ffdl_ops.adapters.storage.transfer`.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any

from ffdl_ops.adapters.storage.config import StoreConfig
from ffdl_ops.adapters.storage.errors import AccessRefused, DataChanged, DataMissing, Unreachable, from_disk
from ffdl_ops.core.errors import FfdlError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

__all__ = ["ObjectInfo", "ObjectStore"]

_PART_BYTES = 16 << 20
_LARGEST_JSON = 256 << 20
_LINE_CHUNK = 1 << 18
_LONGEST_LINE = 1 << 20
_MAX_PARTS = 9_000
_BATCH = 1_000
_REFUSED = frozenset(
    {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "401", "403"}
)
_MISSING = frozenset({"NoSuchBucket", "NoSuchKey", "NotFound", "404"})


@dataclass(frozen=True)
class ObjectInfo:
    """One object as a listing shows it (size in bytes)."""

    key: str
    size: int
    etag: str
    modified: datetime | None = None


class ObjectStore:
    """The objects that one account can reach.

    Every method raises :class:`DataMissing`, :class:`AccessRefused` or :class:`Unreachable`; messages hold no secrets.

    :param config: endpoint and credentials.
    """

    def __init__(self, config: StoreConfig) -> None:
        self.config = config

    @property
    def client(self) -> S3Client:
        """The boto3 client, made when a process first needs one for this account (importing boto3 takes a third of a second)."""
        return _client(self.config, os.getpid())

    def check_bucket(self, bucket: str) -> None:
        """Make sure that the bucket is there and that these credentials may list it."""
        with self._errors(f"bucket {bucket}"):
            self.client.list_objects_v2(Bucket=bucket, MaxKeys=1)

    def list(self, bucket: str, prefix: str = "") -> Iterator[ObjectInfo]:
        """The objects whose key begins with the prefix, in the store's order, a page at a time."""
        with self._errors(f"listing s3://{bucket}/{prefix}"):
            for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
                for item in page.get("Contents", ()):
                    etag = item.get("ETag", "").strip('"')
                    modified = item.get("LastModified")
                    yield ObjectInfo(item["Key"], item["Size"], etag, datetime.fromisoformat(str(modified)) if modified else None)

    def exists(self, bucket: str, key: str) -> bool:
        """Whether there is an object of this key."""
        return self.size(bucket, key) is not None

    def size(self, bucket: str, key: str) -> int | None:
        """An object's size in bytes, or ``None`` when there is none."""
        try:
            with self._errors(f"s3://{bucket}/{key}"):
                return int(self.client.head_object(Bucket=bucket, Key=key)["ContentLength"])
        except DataMissing:
            return None

    def get_bytes(self, bucket: str, key: str, most: int | None = None) -> bytes:
        """A small object's content.

        :param most: bytes that it may have.
        :raises DataChanged: when it has more.
        """
        with self._errors(f"s3://{bucket}/{key}"):
            answer = self.client.get_object(Bucket=bucket, Key=key)
            if most is not None and answer["ContentLength"] > most:
                raise DataChanged(f"s3://{bucket}/{key} has {answer['ContentLength']} bytes; {most} is the limit here.")
            return answer["Body"].read()

    def lines(self, bucket: str, key: str) -> Iterator[str]:
        """A text object's lines, read as they are taken; of a line that is longer than 1 MiB, only the beginning."""
        rest = b""
        with self._errors(f"s3://{bucket}/{key}"):
            for chunk in self.client.get_object(Bucket=bucket, Key=key)["Body"].iter_chunks(_LINE_CHUNK):
                *whole, rest = (rest + chunk).split(b"\n")
                yield from (line.decode("utf-8", "replace") for line in whole)
                rest = rest[:_LONGEST_LINE]
        if rest:
            yield rest.decode("utf-8", "replace")

    def get_json(self, bucket: str, key: str) -> Any:
        """A small object's content, as JSON.

        :raises DataChanged: when it is not JSON, or not small: a tenant may put anything into its bucket.
        """
        try:
            return json.loads(self.get_bytes(bucket, key, _LARGEST_JSON))
        except RecursionError:
            raise DataChanged(f"s3://{bucket}/{key} is JSON that is nested too deeply.") from None
        except ValueError as error:
            raise DataChanged(f"s3://{bucket}/{key} is not JSON: {error}") from None

    def put_bytes(self, bucket: str, key: str, content: bytes, content_type: str = "application/octet-stream") -> None:
        """Write a small object."""
        with self._errors(f"writing s3://{bucket}/{key}"):
            self.client.put_object(Bucket=bucket, Key=key, Body=content, ContentType=content_type)

    def put_json(self, bucket: str, key: str, value: Any) -> None:
        """Write a small object as JSON."""
        self.put_bytes(bucket, key, json.dumps(value, sort_keys=True).encode(), "application/json")

    def put_file(self, bucket: str, key: str, path: str | os.PathLike[str]) -> int:
        """Upload a file in parts and verify its size.

        :returns: its bytes.
        """
        with open(path, "rb") as source:
            return self.put_stream(bucket, key, source, os.fstat(source.fileno()).st_size)

    def put_stream(self, bucket: str, key: str, source: IO[bytes], size: int) -> int:
        """Upload a stream, read once and in order, in parts; memory stays below 100 MiB for files up to 140 GiB.

        :param size: what it should amount to, in bytes.
        :raises DataChanged: when the object that arrived is of another size.
        """
        from boto3.s3.transfer import TransferConfig

        part = max(_PART_BYTES, -(-size // _MAX_PARTS))
        settings = TransferConfig(multipart_threshold=part, multipart_chunksize=part, max_concurrency=3)
        with self._errors(f"uploading s3://{bucket}/{key}"):
            self.client.upload_fileobj(source, bucket, key, Config=settings)
        arrived = self.size(bucket, key)
        if arrived != size:
            raise DataChanged(f"s3://{bucket}/{key}: {arrived} bytes arrived, {size} were expected.")
        return size

    def get_file(self, bucket: str, key: str, path: str | os.PathLike[str]) -> int:
        """Download an object in parts and verify its size.

        :returns: its bytes.
        """
        expected = self.size(bucket, key)
        if expected is None:
            raise DataMissing(f"There is no object s3://{bucket}/{key}.")
        with self._errors(f"downloading s3://{bucket}/{key}"):
            self.client.download_file(bucket, key, os.fspath(path))
        arrived = os.stat(path).st_size
        if arrived != expected:
            raise DataChanged(f"s3://{bucket}/{key}: {arrived} of {expected} bytes arrived; it changed meanwhile.")
        return arrived

    def delete_many(self, bucket: str, keys: Iterable[str]) -> int:
        """Delete objects; those that are gone already count as deleted.

        :returns: how many were named.
        """
        names = list(keys)
        for start in range(0, len(names), _BATCH):
            batch = names[start : start + _BATCH]
            with self._errors(f"deleting from bucket {bucket}"):
                answer = self.client.delete_objects(
                    Bucket=bucket, Delete={"Objects": [{"Key": key} for key in batch], "Quiet": True}
                )
            failed = [one for one in answer.get("Errors", ()) if one.get("Code") not in _MISSING]
            if failed:
                raise Unreachable(f"s3://{bucket}/{failed[0].get('Key')} could not be deleted: {failed[0].get('Code')}")
        return len(names)

    def copy(self, bucket: str, key: str, to_bucket: str, to_key: str) -> None:
        """Copy an object inside the store."""
        with self._errors(f"copying s3://{bucket}/{key}"):
            self.client.copy({"Bucket": bucket, "Key": key}, to_bucket, to_key)

    def _errors(self, what: str) -> _Translated:
        return _Translated(self.config, what)


@functools.lru_cache(maxsize=16)
def _client(config: StoreConfig, pid: int) -> S3Client:
    """The client of one account in one process: clients are safe for threads, and not across a fork."""
    import boto3
    import botocore.session
    from botocore.config import Config

    settings = Config(
        connect_timeout=5,
        read_timeout=60,
        retries={"max_attempts": 3, "mode": "standard"},
        max_pool_connections=32,
        s3={"addressing_style": "path"} if config.endpoint_url else None,
        # Not every S3 server takes the newer SDKs' trailing checksums.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    core = botocore.session.Session()
    # Parsing time stamps is most of what a long listing costs; they stay text, and `list` reads the few forms that S3 uses.
    core.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=str)
    session = boto3.session.Session(
        aws_access_key_id=config.access_key,
        aws_secret_access_key=config.secret_key,
        region_name=config.region,
        botocore_session=core,
    )
    return session.client("s3", endpoint_url=config.endpoint_url, config=settings)


class _Translated:
    """Turns the client's errors into this package's, which a person can act on."""

    def __init__(self, config: StoreConfig, what: str) -> None:
        self._config = config
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, FfdlError) or not isinstance(error, Exception):
            return
        meant = self._meaning(error)
        if meant is not None:
            raise meant from None

    def _meaning(self, error: Exception) -> FfdlError | None:
        if isinstance(error, OSError) and not isinstance(error, ConnectionError | TimeoutError):
            return from_disk(error, self._what)
        module = type(error).__module__.partition(".")[0]
        if module not in ("botocore", "boto3", "s3transfer", "urllib3") and not isinstance(error, OSError):
            return None
        text = self._config.redact(" ".join(str(error).split()))[:300]
        cause: BaseException | None = error
        response: dict[str, Any] = {}
        while cause is not None and not response:
            response = getattr(cause, "response", None) or {}
            cause = cause.__cause__ or cause.__context__
        code = str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""
        where = self._config.endpoint_url or "Amazon S3"
        if code in _REFUSED or "credential" in type(error).__name__.lower():
            return AccessRefused(
                f"{self._what}: {where} refused the credentials ({code or text}); check the key and what it may use."
            )
        if code == "NoSuchBucket":
            return DataMissing(f"{self._what}: there is no such bucket at {where}; create it, or correct its name.")
        if code in _MISSING:
            return DataMissing(f"{self._what}: not there at {where}.")
        if type(error).__name__ in ("ParamValidationError", "InvalidBucketName"):
            return DataMissing(f"{self._what}: not a valid name: {text}")
        return Unreachable(f"{self._what}: {where} could not be reached or failed: {code or text}")
