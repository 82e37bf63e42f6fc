"""A tenant's S3 key against another tenant's bucket, verb by verb, on a platform that is up."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from ffdl_ops.adapters.storage.config import StoreConfig
from ffdl_ops.adapters.storage.store import ObjectStore
from tests.support.platform import Platform

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.slow

MINE, THEIRS, KEY = "ffdl-speech", "ffdl-vision", "guarded/object"
CONTENT = b"what only vision may know"
ABSENT = {"NoSuchBucket", "NoSuchKey", "NoSuchUpload", "404", "AccessDenied", "InvalidArgument", "NotImplemented"}


@pytest.fixture(scope="module")
def theirs(platform: Platform) -> S3Client:
    client = ObjectStore(platform.settings.store_config("vision")).client
    client.put_object(Bucket=THEIRS, Key=KEY, Body=CONTENT)
    return client


@pytest.fixture(scope="module")
def mine(platform: Platform) -> S3Client:
    client = ObjectStore(platform.settings.store_config("speech")).client
    client.put_object(Bucket=MINE, Key="own", Body=b"own")
    return client


VERBS: dict[str, Callable[[S3Client, str], Any]] = {
    "list": lambda s3, _: s3.list_objects_v2(Bucket=THEIRS),
    "list (old)": lambda s3, _: s3.list_objects(Bucket=THEIRS),
    "list versions": lambda s3, _: s3.list_object_versions(Bucket=THEIRS),
    "head bucket": lambda s3, _: s3.head_bucket(Bucket=THEIRS),
    "get": lambda s3, _: s3.get_object(Bucket=THEIRS, Key=KEY),
    "head": lambda s3, _: s3.head_object(Bucket=THEIRS, Key=KEY),
    "put": lambda s3, _: s3.put_object(Bucket=THEIRS, Key=KEY, Body=b"x"),
    "put new": lambda s3, _: s3.put_object(Bucket=THEIRS, Key="planted", Body=b"x"),
    "delete": lambda s3, _: s3.delete_object(Bucket=THEIRS, Key=KEY),
    "delete many": lambda s3, _: s3.delete_objects(Bucket=THEIRS, Delete={"Objects": [{"Key": KEY}]}),
    "copy from": lambda s3, _: s3.copy_object(Bucket=MINE, Key="stolen", CopySource={"Bucket": THEIRS, "Key": KEY}),
    "copy to": lambda s3, _: s3.copy_object(Bucket=THEIRS, Key="planted", CopySource={"Bucket": MINE, "Key": "own"}),
    "begin upload": lambda s3, _: s3.create_multipart_upload(Bucket=THEIRS, Key="planted"),
    "list uploads": lambda s3, _: s3.list_multipart_uploads(Bucket=THEIRS),
    "upload a part": lambda s3, up: s3.upload_part(Bucket=THEIRS, Key="big", UploadId=up, PartNumber=1, Body=b"x"),
    "list parts": lambda s3, up: s3.list_parts(Bucket=THEIRS, Key="big", UploadId=up),
    "abort upload": lambda s3, up: s3.abort_multipart_upload(Bucket=THEIRS, Key="big", UploadId=up),
    "complete upload": lambda s3, up: s3.complete_multipart_upload(
        Bucket=THEIRS, Key="big", UploadId=up, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": "x"}]}
    ),
    "upload by another bucket's name": lambda s3, up: s3.upload_part(
        Bucket=MINE, Key="big", UploadId=up, PartNumber=1, Body=b"x"
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_key_does_not_reach_another_tenants_bucket(mine: S3Client, theirs: S3Client, verb: str) -> None:
    upload = theirs.create_multipart_upload(Bucket=THEIRS, Key="big")["UploadId"]
    with pytest.raises(ClientError) as refused:
        VERBS[verb](mine, upload)
    assert refused.value.response["Error"]["Code"] in ABSENT
    assert theirs.get_object(Bucket=THEIRS, Key=KEY)["Body"].read() == CONTENT
    part = theirs.upload_part(Bucket=THEIRS, Key="big", UploadId=upload, PartNumber=1, Body=b"ours")
    parts: Any = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    theirs.complete_multipart_upload(Bucket=THEIRS, Key="big", UploadId=upload, MultipartUpload=parts)
    assert theirs.get_object(Bucket=THEIRS, Key="big")["Body"].read() == b"ours"
    keys = {one["Key"] for bucket, s3 in ((MINE, mine), (THEIRS, theirs)) for one in objects(s3, bucket)}
    assert not keys & {"planted", "stolen"}


def objects(s3: S3Client, bucket: str) -> list[Any]:
    return list(s3.list_objects_v2(Bucket=bucket).get("Contents", ()))


def test_a_part_copied_from_another_tenants_object_holds_nothing_of_it(mine: S3Client, theirs: S3Client) -> None:
    upload = mine.create_multipart_upload(Bucket=MINE, Key="stolen")["UploadId"]
    try:
        done = mine.upload_part_copy(
            Bucket=MINE, Key="stolen", UploadId=upload, PartNumber=1, CopySource={"Bucket": THEIRS, "Key": KEY}
        )
        etag = done.get("CopyPartResult", {}).get("ETag", '"d41d8cd98f00b204e9800998ecf8427e"')
        parts: Any = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
        mine.complete_multipart_upload(Bucket=MINE, Key="stolen", UploadId=upload, MultipartUpload=parts)
        assert mine.get_object(Bucket=MINE, Key="stolen")["Body"].read() == b""
    except ClientError as refused:
        assert refused.response["Error"]["Code"] in ABSENT | {"InvalidPart", "InternalError", "NoSuchKey"}
    finally:
        mine.delete_object(Bucket=MINE, Key="stolen")
    assert theirs.get_object(Bucket=THEIRS, Key=KEY)["Body"].read() == CONTENT


@pytest.mark.parametrize("way", [f"../{THEIRS}/{KEY}", f"../../buckets/{THEIRS}/{KEY}", f"x/../../{THEIRS}/{KEY}"])
def test_no_key_of_an_object_leads_out_of_the_bucket(mine: S3Client, theirs: S3Client, way: str) -> None:
    for attempt in (
        lambda: mine.get_object(Bucket=MINE, Key=way),
        lambda: mine.put_object(Bucket=MINE, Key=way, Body=b"x"),
        lambda: mine.delete_object(Bucket=MINE, Key=way),
        lambda: mine.copy_object(Bucket=MINE, Key="stolen", CopySource=f"{MINE}/{way}"),
    ):
        with pytest.raises(ClientError) as refused:
            attempt()
        assert refused.value.response["Error"]["Code"] in ABSENT
    assert theirs.get_object(Bucket=THEIRS, Key=KEY)["Body"].read() == CONTENT


def test_a_key_sees_its_own_buckets_and_may_take_no_others_name(
    platform: Platform, mine: S3Client, theirs: S3Client
) -> None:
    assert [one["Name"] for one in mine.list_buckets()["Buckets"]] == [MINE]
    mine.create_bucket(Bucket=THEIRS)  # one of its own, as far as it sees
    try:
        mine.put_object(Bucket=THEIRS, Key=KEY, Body=b"not theirs")
        assert theirs.get_object(Bucket=THEIRS, Key=KEY)["Body"].read() == CONTENT
        mine.delete_object(Bucket=THEIRS, Key=KEY)
    finally:
        mine.delete_bucket(Bucket=THEIRS)
    assert theirs.get_object(Bucket=THEIRS, Key=KEY)["Body"].read() == CONTENT


def test_without_a_key_or_with_a_wrong_secret_nothing_is_answered(platform: Platform, theirs: S3Client) -> None:
    config = platform.settings.store_config("vision")
    for path in ("", f"/{THEIRS}", f"/{THEIRS}/{KEY}"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{config.endpoint_url}{path}", timeout=10)
        assert refused.value.code == 403
    for access, secret in ((config.access_key, "wrong"), ("nobody", config.secret_key), (config.access_key, MINE)):
        stranger = ObjectStore(StoreConfig(config.endpoint_url, access, secret)).client
        with pytest.raises(ClientError) as denied:
            stranger.list_objects_v2(Bucket=THEIRS)
        assert denied.value.response["ResponseMetadata"]["HTTPStatusCode"] in (403, 400)


def test_the_platforms_own_key_is_another_and_opens_every_bucket(platform: Platform, theirs: S3Client) -> None:
    s3 = platform.settings.endpoints["s3"]
    keys = [s3["platform"], *s3["tenants"].values()]
    assert len({one["access_key"] for one in keys}) == len({one["secret_key"] for one in keys}) == len(keys)
    own = ObjectStore(StoreConfig(s3["endpoint"], s3["platform"]["access_key"], s3["platform"]["secret_key"]))
    names = {one["Name"] for one in own.client.list_buckets()["Buckets"]}
    assert names >= {MINE, THEIRS}
    assert own.get_bytes(THEIRS, KEY) == CONTENT
