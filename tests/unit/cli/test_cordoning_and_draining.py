"""`ffdl cordon`, `ffdl uncordon`, `ffdl drain`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from ffdl_ops.adapters.ledger import LeaseRecord
from ffdl_ops.core.scheduling.model import Placement

T = datetime(2026, 1, 1, 12, tzinfo=UTC)
HERE, THERE = "job-aaaa000001", "job-bbbb000001"


def lease(job_id: str, *nodes: str) -> LeaseRecord:
    places = tuple(Placement(rank, node) for rank, node in enumerate(nodes))
    return LeaseRecord(job_id, "vision", 1, places, 1, 500, 2**31, "V100", T, None, None)


def written(cli: Any) -> list[tuple[str, str, str]]:
    return [(line.actor, line.action, line.words) for line in cli.ledger.lines]


@pytest.fixture
def busy(cli: Any) -> None:
    cli.ledger.held = [lease(HERE, "v100-b", "v100-a"), lease(THERE, "v100-b")]


def test_a_node_is_cordoned_and_uncordoned_once_and_the_audit_says_by_whom(cli: Any) -> None:
    assert "v100-a is cordoned" in cli.ok("cordon", "v100-a", "--reason", "a fan").stdout
    assert cli.cluster.schedulable == {"v100-a": False, "v100-b": True}
    assert "already" in cli.ok("cordon", "v100-a").stdout
    assert "takes learners again" in cli.ok("uncordon", "v100-a").stdout
    assert "was not cordoned" in cli.ok("uncordon", "v100-a").stdout
    assert cli.cluster.schedulable["v100-a"] is True
    assert written(cli) == [("ann", "cordon", "node v100-a: a fan"), ("ann", "uncordon", "node v100-a")]


@pytest.mark.parametrize("command", ["cordon", "uncordon", "drain"])
def test_a_node_that_is_not_there_is_told_the_nearest_and_nothing_is_done(cli: Any, command: str) -> None:
    assert "no node 'v10-a'; did you mean 'v100-a'?" in cli.refused(2, command, "v10-a")
    assert cli.ledger.lines == []
    assert "valid here: v100-a, v100-b" in cli.refused(2, command, "zzz")


@pytest.mark.parametrize("command", ["cordon", "uncordon", "drain"])
@pytest.mark.parametrize("words", [(), ("v100-a", "--all")])
def test_it_is_one_node_or_all(cli: Any, command: str, words: tuple[str, ...]) -> None:
    assert "--all" in cli.refused(2, command, *words)


@pytest.mark.usefixtures("busy")
def test_draining_tells_the_gangs_with_a_learner_there_and_no_other(cli: Any) -> None:
    out = cli.ok("drain", "v100-a", "--reason", "a fan").stdout
    ((job_id, why),) = cli.ledger.told
    assert job_id == HERE
    assert why.startswith("Node v100-a is drained by ann (a fan).")
    assert HERE in out and "still there" in out
    assert cli.cluster.schedulable["v100-a"] is False
    cli.ok("drain", "v100-a")
    assert len(cli.ledger.told) == 1, "told once"


@pytest.mark.usefixtures("busy")
def test_waiting_shows_who_is_left_until_nobody_is(cli: Any, monkeypatch: Any) -> None:
    looks = iter([3, 3, 2])
    held = cli.ledger.held
    late = lease("job-dddd000001", "v100-a")

    def live() -> list[LeaseRecord]:
        """The gang leaves; another is granted its place by a pass that had begun before."""
        look = next(looks, 0)
        cli.ledger.held = [*(cli.ledger.held if look == 3 else held[1:]), *([late] if look == 2 else [])]
        return cli.ledger.held

    monkeypatch.setattr(cli.ledger, "live_leases", live)
    result = cli.ok("drain", "v100-a", "--wait")
    assert [job_id for job_id, _ in cli.ledger.told] == [HERE, late.job_id]
    assert f"1 job is still there: {HERE}" in result.stderr
    assert "Nothing runs on v100-a any more." in result.stdout


@pytest.mark.usefixtures("busy")
def test_waiting_too_long_says_so(cli: Any) -> None:
    said = cli.refused(75, "drain", "v100-a", "--wait", "--timeout", "0.01")
    assert f"After 0.01 s 1 job is still on v100-a, saving or stopping: {HERE}." in said


def test_closing_the_platform_needs_a_reason_and_opening_it_says_whether_it_was_closed(cli: Any) -> None:
    assert "--reason" in cli.refused(2, "cordon", "--all")
    cli.ok("cordon", "--all", "--reason", "an upgrade")
    assert cli.ledger.closure == "an upgrade"
    assert "Jobs start again." in cli.ok("uncordon", "--all").stdout
    assert "was not cordoned" in cli.ok("uncordon", "--all").stdout


@pytest.mark.usefixtures("busy")
def test_draining_the_platform_closes_it_and_tells_everybody(cli: Any) -> None:
    cli.ok("drain", "--all", "--reason", "an upgrade")
    assert cli.ledger.closure == "an upgrade"
    assert [job_id for job_id, _ in cli.ledger.told] == [HERE, THERE]
    cli.ok("drain", "--all")
    assert cli.ledger.closure == "an upgrade", "the reason that it was closed for stays"


@pytest.mark.usefixtures("busy")
def test_programs_get_one_document(cli: Any) -> None:
    told = json.loads(cli.ok("drain", "v100-a", "--json").stdout)
    assert told == {"node": "v100-a", "cordoned": True, "told": [HERE], "left": [HERE]}
    again = json.loads(cli.ok("cordon", "v100-a", "--json").stdout)
    assert again == {"node": "v100-a", "cordoned": True, "changed": False, "reason": None}
    assert json.loads(cli.ok("uncordon", "v100-a", "--json").stdout)["changed"] is True
