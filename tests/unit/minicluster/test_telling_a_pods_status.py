"""A pod's status and its row, from what its containers did."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ffdl_ops.local.minicluster.containers import Run
from ffdl_ops.local.minicluster.podstatus import Ending, Observed, Waiting, build_status, with_condition
from ffdl_ops.local.minicluster.tables import age, pod_status_word
from ffdl_ops.local.minicluster.times import iso


def run(directory: Path, name: str = "main", *, code: int | None = None, attempt: int = 0, **ending: Any) -> Run:
    made = Run("uid-1", name, attempt, directory, shim=1, pid=os.getpid(), started=1000.0)
    if code is not None:
        made.exit = {"code": code, "started": 1000.0, "finished": 1010.0, **ending}
    return made


def pod(*containers: str, inits: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    spec = {"containers": [{"name": name, "image": "busybox:1"} for name in containers], "initContainers": list(inits)}
    return {"metadata": {"name": "p", "uid": "uid-1"}, "spec": spec, "status": {"phase": "Pending"}}


def status(body: dict[str, Any], runs: dict[str, list[Run]], **more: Any) -> dict[str, Any]:
    return build_status(body, Observed(runs, **more))


def test_before_anything_runs() -> None:
    found = status(pod("main"), {})
    assert found["phase"] == "Pending"
    assert found["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}


def test_while_it_runs(tmp_path: Path) -> None:
    found = status(pod("main"), {"main": [run(tmp_path)]})
    assert found["phase"] == "Running" and found["containerStatuses"][0]["ready"] is True
    assert {one["type"]: one["status"] for one in found["conditions"]}["Ready"] == "True"


def test_phases_at_the_end(tmp_path: Path) -> None:
    good, bad = run(tmp_path, "a", code=0), run(tmp_path, "b", code=3)
    assert status(pod("a", "b"), {"a": [good], "b": [bad]}, finished=True)["phase"] == "Failed"
    assert status(pod("a"), {"a": [good]}, finished=True)["phase"] == "Succeeded"
    assert status(pod("a", "b"), {"a": [good], "b": [run(tmp_path, "b")]})["phase"] == "Running"


def test_an_ending_gives_its_reason_only_when_all_is_over(tmp_path: Path) -> None:
    ending = Ending("Evicted", "low on memory")
    going = status(pod("a"), {"a": [run(tmp_path, "a")]}, ending=ending)
    assert going["phase"] == "Running" and "reason" not in going
    gone = status(pod("a"), {"a": [run(tmp_path, "a", code=0)]}, ending=ending, finished=True)
    assert (gone["phase"], gone["reason"], gone["message"]) == ("Failed", "Evicted", "low on memory")


@pytest.mark.parametrize(
    ("ending", "reason", "code"),
    [({"code": 0}, "Completed", 0), ({"code": 1}, "Error", 1), ({"code": 137, "lost": True}, "ContainerStatusUnknown", 137),
     ({"code": 128, "error": 'exec: "x": not found'}, "StartError", 128)],
)  # fmt: skip
def test_reasons_of_a_container(tmp_path: Path, ending: dict[str, Any], reason: str, code: int) -> None:
    state = status(pod("main"), {"main": [run(tmp_path, **ending)]}, finished=True)["containerStatuses"][0]["state"][
        "terminated"
    ]
    assert (state["reason"], state["exitCode"]) == (reason, code)
    assert (state["startedAt"], state["finishedAt"]) == (iso(1000), iso(1010))


def test_out_of_memory_is_told_whatever_the_exit_code(tmp_path: Path) -> None:
    """Pitfall 21."""
    (tmp_path / "oom").touch()
    found = status(pod("main"), {"main": [run(tmp_path, code=0)]}, finished=True)
    assert found["phase"] == "Succeeded"
    assert found["containerStatuses"][0]["state"]["terminated"]["reason"] == "OOMKilled"


def test_a_waiting_restart_shows_the_last_end(tmp_path: Path) -> None:
    waiting = {"main": Waiting("CrashLoopBackOff", "back-off 10s")}
    found = status(pod("main"), {"main": [run(tmp_path, code=1, attempt=2)]}, waiting=waiting)["containerStatuses"][0]
    assert found["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert found["lastState"]["terminated"]["exitCode"] == 1 and found["restartCount"] == 2


def test_a_conditions_time_moves_only_with_its_status() -> None:
    first = with_condition({}, "Ready", "False", "A")
    first["conditions"][0]["lastTransitionTime"] = "2020-01-01T00:00:00Z"
    again = with_condition(first, "Ready", "False", "B")["conditions"][0]
    assert again["lastTransitionTime"] == "2020-01-01T00:00:00Z" and again["reason"] == "B"
    assert with_condition(first, "Ready", "True")["conditions"][0]["lastTransitionTime"] != "2020-01-01T00:00:00Z"
    assert len(with_condition(first, "Other", "True")["conditions"]) == 2


def test_the_status_column(tmp_path: Path) -> None:
    init = {"name": "init", "image": "busybox:1"}
    body = pod("main", inits=(init,))
    body["status"] = status(body, {"init": [run(tmp_path, "init")]})
    assert pod_status_word(body) == "Init:0/1"
    body["status"] = status(body, {"init": [run(tmp_path, "init", code=0)], "main": [run(tmp_path)]})
    assert pod_status_word(body) == "Running"
    body["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z"
    assert pod_status_word(body) == "Terminating"
    assert json.dumps(body)


def test_ages() -> None:
    import time

    now = time.time()
    texts = [age(iso(now - seconds)) for seconds in (5, 119, 130, 3600, 3 * 3600 + 60, 49 * 3600, 30 * 86400)]
    assert [text.rstrip("0123456789dhms") == "" for text in texts] == [True] * 7
    assert texts[0] in ("5s", "6s") and texts[3] == "60m" and texts[4].startswith("3h1m") and texts[6] == "30d"
    assert age(None) == "<unknown>"
