"""Which object keys may become files below a data directory."""

from __future__ import annotations

import pytest

from ffdl_ops.adapters.storage.errors import UnsafeKey
from ffdl_ops.adapters.storage.keys import check_collisions, file_name


def test_a_key_below_the_prefix_becomes_a_relative_path() -> None:
    assert file_name("data/train/a b.bin", "data/") == "train/a b.bin"


@pytest.mark.parametrize("key", ["data/../x", "data//x", "data/a/../../x", "data/./x", "/etc/passwd", "..", "data/", "a\0b"])
def test_a_key_that_would_leave_the_directory_is_refused_by_name(key: str) -> None:
    with pytest.raises(UnsafeKey) as refusal:
        file_name(key, "data/")
    assert repr(key) in str(refusal.value)


def test_a_name_too_long_for_a_file_is_refused() -> None:
    with pytest.raises(UnsafeKey):
        file_name("data/" + "x" * 256, "data/")


def test_one_name_as_file_and_as_directory_is_refused_by_name() -> None:
    with pytest.raises(UnsafeKey, match="'a/b'"):
        check_collisions(["a/b", "a/b/c", "d"])
    check_collisions(["a/b", "a/bc", "a.txt"])
