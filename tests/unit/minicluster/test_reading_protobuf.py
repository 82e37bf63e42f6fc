"""What kubectl's typed commands send."""

from __future__ import annotations

import base64

import pytest

from ffdl_ops.local.minicluster.errors import ApiError
from ffdl_ops.local.minicluster.protobuf import decode


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return bytes([number << 3]) + bytes([value])
    return bytes([number << 3 | 2, len(value)]) + value


def body(version: bytes, kind: bytes, raw: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, version) + field(2, kind)) + field(2, raw)


META = field(1, b"s") + field(3, b"n") + field(8, b"") + field(11, field(1, b"k") + field(2, b"v")) + field(14, b"f")


def test_a_secret() -> None:
    raw = field(1, META) + field(2, field(1, b"key") + field(2, b"\x00\xff")) + field(3, b"Opaque")
    assert decode(body(b"v1", b"Secret", raw)) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "n", "labels": {"k": "v"}, "finalizers": ["f"]},
        "data": {"key": base64.b64encode(b"\x00\xff").decode()},
        "type": "Opaque",
    }


def test_a_quota_and_delete_options() -> None:
    raw = field(1, META) + field(2, field(1, field(1, b"pods") + field(2, field(1, b"3"))))
    assert decode(body(b"v1", b"ResourceQuota", raw))["spec"] == {"hard": {"pods": "3"}}
    options = field(1, 5) + field(2, field(1, b"uid-1")) + field(4, b"Foreground")
    found = decode(body(b"meta.k8s.io/v1", b"DeleteOptions", options))
    assert (found["gracePeriodSeconds"], found["preconditions"], found["propagationPolicy"]) == (
        5,
        {"uid": "uid-1"},
        "Foreground",
    )


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"{}", 400),
        (body(b"v1", b"Pod", b""), 415),
        (b"k8s\x00\xff\xff", 400),
        (b"k8s\x00\x0a\x7f", 400),
        (b"k8s\x00" + field(2, 1), 415),
    ],
)
def test_what_is_not_read_is_refused(data: bytes, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        decode(data)
    assert refused.value.code == code
