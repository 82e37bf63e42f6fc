"""What of a run's configuration Airflow can't give to its tasks is replaced by a note, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ffdl_ops.core.jobs.passable import passable


def nested(depth: int, leaf: Any = 1) -> Any:
    value = leaf
    for level in range(depth):
        value = {"a": value} if level % 2 else [value]
    return value


@pytest.mark.parametrize(
    "value",
    [None, True, 1, 1e300, 2**64 - 1, -(2**63), "x" * 10_000, nested(50), list(range(10_000)), {"a": [1, {"b": "c"}]}],
)
def test_what_can_be_passed_on_is_left_alone(value: Any) -> None:
    msgspec.msgpack.encode(value)
    assert passable({"example": "probe", "whatever": value}) is None


@pytest.mark.parametrize(
    "value", [10**30, -(10**30), 2**64, -(2**63) - 1, [10**30], {"a": [1, {"b": 10**400}]}, nested(50, 10**30)]
)
def test_a_number_beyond_64_bits_becomes_a_note(value: Any) -> None:
    with pytest.raises(OverflowError):
        msgspec.msgpack.encode(value)
    assert passable({"example": "probe", "whatever": value}) == {
        "example": "probe", "whatever": "not passed on: a number beyond 64 bits",
    }  # fmt: skip


@pytest.mark.parametrize("depth", [51, 250, 100_000])
def test_deep_nesting_becomes_a_note(depth: int) -> None:
    assert passable({"whatever": nested(depth)}) == {"whatever": "not passed on: nested deeper than 50 levels"}


def test_there_may_be_no_configuration() -> None:
    assert passable({}) is None
