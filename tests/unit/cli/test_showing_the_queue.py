"""`ffdl queue`, `ffdl demand`, `ffdl tenants`, `ffdl audit`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ffdl_ops.adapters.ledger import AuditRecord, LeaseRecord, QueuedRecord
from ffdl_ops.core.scheduling.decisions import Holder, WaitCause
from ffdl_ops.core.scheduling.model import GangRequest, Placement

T = datetime(2026, 1, 1, 12, tzinfo=UTC)
ID = "job-aaaa000001"
OTHER = "job-cccc000001"
WHY = f"2 V100 needed, quota has 1 left. Held by: {ID} of vision (6 GPU, ann, until about 13:00)."


def lease(gpus: int = 3, **changes: Any) -> LeaseRecord:
    places = (Placement(0, "node-a"), Placement(1, "node-b"))
    fields = {"released_at": None, "release_reason": None, "user": "ann", **changes}
    return LeaseRecord(ID, "vision", 12, places, gpus, 500, 2**31, "V100", T, **fields)


def waiting(cause: WaitCause | None = WaitCause.QUOTA, learners: tuple[int, int] = (2, 2)) -> QueuedRecord:
    request = GangRequest(OTHER, "vision", *learners, 1, "V100", 500, 2**31, 50, T, user="bob")
    holder = Holder(ID, "vision", 6, "ann", T + timedelta(hours=1))
    return QueuedRecord(request, 1, T, cause, WHY if cause else None, (holder,), T + timedelta(hours=1))


def test_the_queue_says_who_waits_why_how_long_and_who_holds(cli: Any) -> None:
    cli.ledger.waiting, cli.ledger.held = [waiting()], [lease(1)]
    out = cli.ok("queue").stdout
    for words in (OTHER, "bob", "2 learners × 1 V100", "2 min 00 s", "quota", "2026-01-01 13:00:00Z", ID, "ann"):
        assert words in out, words
    told = json.loads(cli.ok("queue", "--json").stdout)
    assert told["waiting"][0]["cause"] == "quota"
    assert told["waiting"][0]["earliest"] == "2026-01-01T13:00:00Z"
    assert told["waiting"][0]["holders"][0]["user"] == "ann"
    assert told["holding"][0]["epoch"] == 12
    nobody = json.loads(cli.ok("queue", "--json", "--tenant", "speech").stdout)
    assert nobody == {"closed": None, "waiting": [], "holding": []}


def test_an_elastic_gang_needs_at_least_and_would_like(cli: Any) -> None:
    cli.ledger.waiting = [waiting(None, (2, 4))]
    out = cli.ok("queue").stdout
    assert "2-4 learners × 1 V100" in out
    assert "not looked at yet" in " ".join(out.split())


def test_an_idle_queue_says_so(cli: Any) -> None:
    out = cli.ok("queue").stdout
    assert "Nobody waits." in out
    assert "Nobody holds anything." in out
    assert "at present" not in out


def test_a_closed_platform_says_why_nothing_starts(cli: Any) -> None:
    cli.ledger.closure = "an upgrade"
    assert "Nothing starts at present: an upgrade." in cli.ok("queue").stdout
    assert json.loads(cli.ok("queue", "--json").stdout)["closed"] == "an upgrade"


def test_demand_tells_what_more_nodes_would_help(cli: Any) -> None:
    cli.ledger.waiting = [waiting(), waiting(WaitCause.CAPACITY), waiting(WaitCause.FRAGMENTATION)]
    (one,) = json.loads(cli.ok("demand", "--json").stdout)["demand"]
    assert one["shape"] == {
        "gpu_type": "V100", "gpus": 1, "learners": 2, "cpu_millis": 500, "memory_bytes": 2**31,
    }  # fmt: skip
    assert (one["gangs"], one["gpus"], one["more_nodes"], one["gpus_for_nodes"], one["limits"]) == (3, 6, 2, 4, 1)
    assert "V100" in cli.ok("demand").stdout


def test_no_demand_says_so(cli: Any) -> None:
    assert "Nobody waits." in cli.ok("demand").stdout
    assert json.loads(cli.ok("demand", "--json").stdout) == {"demand": []}


def test_tenants_show_what_is_held_and_what_waits(cli: Any) -> None:
    cli.ledger.waiting, cli.ledger.held = [waiting()], [lease(2)]
    out = cli.ok("tenants").stdout
    assert "quota 1 (2 min 00 s)" in out
    assert "ABOVE QUOTA" not in out
    assert "Without a GPU quota, and idle: speech." in out
    vision, speech = json.loads(cli.ok("tenants", "--json").stdout)
    (row,) = vision["gpus"]
    assert (row["quota"], row["held"], row["running"], row["queued"]) == (4, 4, 1, 1)
    assert row["waits"] == [{"cause": "quota", "jobs": 1, "longest_s": 120.0}]
    assert speech["gpus"] == []


def test_a_tenant_above_its_quota_is_marked_with_a_word(cli: Any) -> None:
    cli.ledger.held = [lease(3)]
    assert "ABOVE QUOTA by 2" in cli.ok("tenants").stdout
    assert json.loads(cli.ok("tenants", "--json").stdout)[0]["gpus"][0]["above_quota"] == 2


def test_json_of_a_subcommand_belongs_behind_it(cli: Any) -> None:
    assert "behind `apply`" in cli.refused(2, "tenants", "--json", "apply")


@pytest.fixture
def lines(cli: Any) -> None:
    cli.ledger.lines = [
        AuditRecord(T, "scheduler", "admit", "vision", ID, "1 learners with 1 V100 GPUs"),
        AuditRecord(T, "ann", "cordon", None, None, "node v100-a: a fan"),
        AuditRecord(T, "ann", "forget", "vision", OTHER, "its record was removed, HALTED"),
    ]


@pytest.mark.usefixtures("lines")
def test_the_audit_says_who_did_what_when(cli: Any, job: Any) -> None:
    out = cli.ok("audit").stdout
    for words in ("2026-01-01 12:00:00Z", "scheduler", "node v100-a: a fan", ID):
        assert words in out, words
    cli.ledger.add(job(ID))
    told = json.loads(cli.ok("audit", "--json", "--job", "aaaa").stdout)
    assert [one["action"] for one in told] == ["admit"]
    assert "--limit shows more" in cli.ok("audit", "--limit", "2").stdout


@pytest.mark.usefixtures("lines")
def test_the_audit_outlives_the_job(cli: Any) -> None:
    assert "forget" in cli.ok("audit", "--job", OTHER).stdout
    assert "no job 'job-dddd'" in cli.refused(2, "audit", "--job", "job-dddd")


def test_an_empty_audit_says_so(cli: Any) -> None:
    assert "nothing in the audit" in cli.ok("audit").stdout
    assert json.loads(cli.ok("audit", "--json").stdout) == []
