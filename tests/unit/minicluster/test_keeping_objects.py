"""The store: versions, changes, what a restart finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ffdl_ops.local.minicluster.errors import ApiError
from ffdl_ops.local.minicluster.isolation import FIRST_UID, Isolation
from ffdl_ops.local.minicluster.store import Change, Store


def body(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}, "data": data}


def test_versions_only_grow(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    versions = [int(store.create("configmaps", body(name))["metadata"]["resourceVersion"]) for name in "abc"]
    versions.append(int(store.update("configmaps", body("a", k="v"))["metadata"]["resourceVersion"]))
    versions.append(int(store.delete("configmaps", "n", "b")["metadata"]["resourceVersion"]))
    assert versions == sorted(set(versions))
    store.close()
    again = Store(tmp_path / "s")
    assert again.version == versions[-1]
    assert [one["metadata"]["name"] for one in again.list("configmaps", "n")] == ["a", "c"]
    assert int(again.create("configmaps", body("d"))["metadata"]["resourceVersion"]) > versions[-1]


def test_an_update_that_changes_nothing_makes_no_version(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    made = store.create("configmaps", body("a", k="v"))
    assert store.update("configmaps", body("a", k="v")) is made


def test_objects_that_were_read_never_change(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    before = store.create("configmaps", body("a", k="1"))
    store.update("configmaps", {**before, "data": {"k": "2"}})
    assert before["data"] == {"k": "1"}


def test_a_stale_writer_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    made = store.create("configmaps", body("a"))
    store.update("configmaps", body("a", k="1"))
    with pytest.raises(ApiError) as refused:
        store.update("configmaps", body("a", k="2"), expected=made["metadata"]["resourceVersion"])
    assert refused.value.code == 409


def test_the_history_is_bounded_and_says_when_it_is_over(tmp_path: Path) -> None:
    store = Store(tmp_path / "s", history=3)
    first = int(store.create("configmaps", body("a"))["metadata"]["resourceVersion"])
    for number in range(5):
        store.update("configmaps", body("a", k=str(number)))
    assert [change.object["data"]["k"] for change in store.since(store.version - 3)] == ["2", "3", "4"]
    assert store.since(store.version) == ()
    with pytest.raises(ApiError) as refused:
        store.since(first)
    assert (refused.value.code, refused.value.reason) == (410, "Expired")


def test_a_listener_that_writes_does_not_turn_the_order_around(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    seen: list[int] = []

    def writes(change: Change) -> None:
        if change.object["metadata"]["name"] == "a" and change.type == "ADDED":
            store.create("configmaps", body("b"))

    store.listen(writes)
    store.listen(lambda change: seen.append(change.version))
    store.create("configmaps", body("a"))
    assert len(seen) == 2 and seen == sorted(seen)


def test_uids_of_namespaces_are_given_once_and_kept(tmp_path: Path) -> None:
    isolation = Isolation(True)
    store = Store(tmp_path / "s")
    assert [isolation.uid_of(store, name) for name in ("a", "b", "a")] == [FIRST_UID, FIRST_UID + 1, FIRST_UID]
    store.close()
    assert isolation.uid_of(Store(tmp_path / "s"), "b") == FIRST_UID + 1
    assert Isolation(False).uid_of(store, "a") is None
