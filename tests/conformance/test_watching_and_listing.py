"""Versions, watches, selectors, pages."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

from kubernetes import client, watch

from tests.conformance.bench import Bench, eventually, shell_pod


def config_map(bench: Bench, name: str, **labels: str) -> Any:
    return bench.core.create_namespaced_config_map(bench.namespace, {"metadata": {"name": name, "labels": labels}})


def changes(bench: Bench, version: str, count: int, **options: Any) -> list[tuple[str, str]]:
    seen = []
    stream = watch.Watch().stream(
        bench.core.list_namespaced_config_map, bench.namespace, resource_version=version, timeout_seconds=10, **options
    )
    for event in stream:
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == count:
            return seen
    return seen


def test_a_watch_replays_what_happened_since_a_version(bench: Bench) -> None:
    version = config_map(bench, "a").metadata.resource_version
    config_map(bench, "b")
    bench.core.patch_namespaced_config_map("a", bench.namespace, {"data": {"k": "v"}})
    bench.core.delete_namespaced_config_map("b", bench.namespace)
    assert changes(bench, version, 3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


def test_a_watch_tells_changes_at_once(bench: Bench) -> None:
    version = bench.core.list_namespaced_pod(bench.namespace).metadata.resource_version
    arrived: list[float] = []

    def look() -> None:
        for event in watch.Watch().stream(
            bench.core.list_namespaced_pod, bench.namespace, resource_version=version, timeout_seconds=10
        ):
            arrived.append(time.monotonic())
            if event["object"].status.phase == "Succeeded":
                return

    thread = threading.Thread(target=look)
    thread.start()
    time.sleep(0.3)
    start = time.monotonic()
    bench.run("quick", "true")
    thread.join(15)
    assert arrived[0] - start < 1.0


def test_a_selector_lets_objects_come_and_go(bench: Bench) -> None:
    version = config_map(bench, "a", tier="x").metadata.resource_version
    config_map(bench, "other", tier="y")
    bench.core.patch_namespaced_config_map("a", bench.namespace, {"metadata": {"labels": {"tier": "y"}}})
    bench.core.patch_namespaced_config_map("other", bench.namespace, {"metadata": {"labels": {"tier": "x"}}})
    assert changes(bench, version, 2, label_selector="tier=x") == [("DELETED", "a"), ("ADDED", "other")]


def test_a_watch_of_one_name(bench: Bench) -> None:
    version = config_map(bench, "a").metadata.resource_version
    config_map(bench, "b")
    bench.core.delete_namespaced_config_map("a", bench.namespace)
    assert changes(bench, version, 1, field_selector="metadata.name=a") == [("DELETED", "a")]


def test_a_watch_without_version_begins_with_what_is_there(bench: Bench) -> None:
    config_map(bench, "a")
    config_map(bench, "b")
    stream = watch.Watch().stream(bench.core.list_namespaced_config_map, bench.namespace, timeout_seconds=2)
    seen = {(event["type"], event["object"].metadata.name) for event in stream}
    assert {("ADDED", "a"), ("ADDED", "b")} <= seen


def test_a_watch_ends_when_its_time_is_over(bench: Bench) -> None:
    start = time.monotonic()
    stream = watch.Watch().stream(
        bench.core.list_namespaced_pod, bench.namespace, resource_version="0", timeout_seconds=1, _request_timeout=20
    )
    assert list(stream) == []
    assert 0.5 < time.monotonic() - start < 5


def test_bookmarks_carry_the_version(bench: Bench) -> None:
    version = bench.core.list_namespaced_pod(bench.namespace).metadata.resource_version
    made = config_map(bench, "moves-the-version").metadata.resource_version
    answer = bench.core.list_namespaced_pod(
        bench.namespace, watch=True, resource_version=version, timeout_seconds=1, allow_watch_bookmarks=True,
        _preload_content=False,
    )  # fmt: skip
    events = [json.loads(line) for line in answer.read().splitlines() if line]
    marks = [event for event in events if event["type"] == "BOOKMARK"]
    assert marks and int(marks[-1]["object"]["metadata"]["resourceVersion"]) >= int(made)
    assert marks[-1]["object"]["kind"] == "Pod"


def test_label_selectors(bench: Bench) -> None:
    for name, labels in {"a": {"x": "1", "y": "1"}, "b": {"x": "2"}, "c": {"z": ""}}.items():
        config_map(bench, name, **labels)
    found = lambda text: {  # noqa: E731
        one.metadata.name
        for one in bench.core.list_namespaced_config_map(bench.namespace, label_selector=text).items
        if len(one.metadata.name) == 1
    }
    assert found("x=1") == {"a"}
    assert found("x==1,y=1") == {"a"}
    assert found("x!=1") == {"b", "c"}
    assert found("x in (1,2)") == {"a", "b"}
    assert found("x notin (1)") == {"b", "c"}
    assert found("x") == {"a", "b"}
    assert found("!x") == {"c"}
    assert found("x in (1,2),!y") == {"b"}


def test_field_selectors_of_pods(bench: Bench) -> None:
    bench.run("a", "true")
    bench.run("b", "sleep 60")
    bench.wait_phase("a", "Succeeded")
    node = bench.wait_phase("b", "Running").spec.node_name
    found = lambda text: [  # noqa: E731
        one.metadata.name for one in bench.core.list_namespaced_pod(bench.namespace, field_selector=text).items
    ]
    assert found("status.phase=Running") == ["b"]
    assert found("status.phase!=Running") == ["a"]
    assert found(f"spec.nodeName={node},metadata.name=b") == ["b"]
    code, status = bench.request("GET", f"/api/v1/namespaces/{bench.namespace}/pods?fieldSelector=spec.colour%3Dred")
    assert code == 400 and "field label not supported" in status["message"]


def test_pages_are_one_consistent_list(bench: Bench) -> None:
    for number in range(7):
        config_map(bench, f"n{number}", page="yes")
    names, token, versions = [], None, set()
    while True:
        page = bench.core.list_namespaced_config_map(
            bench.namespace, label_selector="page=yes", limit=3, _continue=token
        )
        names += [one.metadata.name for one in page.items]
        versions.add(page.metadata.resource_version)
        if not names[3:]:
            config_map(bench, "n9", page="yes")
            assert page.metadata.remaining_item_count == 4
        token = page.metadata._continue
        if not token:
            break
    assert names == [f"n{number}" for number in range(7)]
    assert len(versions) == 1


def test_lists_span_namespaces(bench: Bench) -> None:
    bench.run("here", "true")
    found = bench.core.list_pod_for_all_namespaces(field_selector="metadata.name=here").items
    assert bench.namespace in {pod.metadata.namespace for pod in found}


def test_a_version_of_the_future_is_refused(bench: Bench) -> None:
    version = int(bench.core.list_namespaced_pod(bench.namespace).metadata.resource_version)
    code, status = bench.request("GET", f"/api/v1/namespaces/{bench.namespace}/pods?resourceVersion={version + 10**9}")
    assert code == 504 and "Too large resource version" in status["message"]


def test_the_official_informer_pattern_list_then_watch_misses_nothing(bench: Bench) -> None:
    listed = bench.core.list_namespaced_pod(bench.namespace)
    for number in range(3):
        bench.run(f"p{number}", "true")
    done: set[str] = set()
    for event in watch.Watch().stream(
        bench.core.list_namespaced_pod,
        bench.namespace,
        resource_version=listed.metadata.resource_version,
        timeout_seconds=20,
    ):
        if event["object"].status.phase == "Succeeded":
            done.add(event["object"].metadata.name)
        if len(done) == 3:
            break
    assert done == {"p0", "p1", "p2"}


def test_events_are_listed_by_the_object_they_are_about(bench: Bench) -> None:
    bench.create(shell_pod("a", "true"))
    bench.create(shell_pod("b", "true"))
    bench.wait_phase("a", "Succeeded")
    selector = "involvedObject.kind=Pod,involvedObject.name=a"
    reasons = lambda: {  # noqa: E731
        one.reason for one in bench.core.list_namespaced_event(bench.namespace, field_selector=selector).items
    }
    eventually("the usual events", lambda: {"Scheduled", "Pulled", "Created", "Started"} <= reasons())
    assert isinstance(bench.core.list_namespaced_event(bench.namespace).items[0], client.CoreV1Event)
