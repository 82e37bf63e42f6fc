"""`ffdl tenants apply`: what it shows, and how it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ffdl_ops.adapters.cluster.changes import Change, LeftAlone
from ffdl_ops.adapters.cluster.tenants import Applied

CHANGED = Change(
    "vision", "ResourceQuota", "ffdl-vision", "ffdl", "update", "--- old\n+++ new\n-    pods: '1'\n+    pods: '2'"
)
NEW = Change(None, "ClusterRole", None, "ffdl-platform-nodes", "create", "+rules")
RIGHT = Change("vision", "Namespace", None, "ffdl-vision", "none")
LEFT = LeftAlone(
    "Namespace", None, "ffdl-old", "tenant old is not in the configuration", "kubectl delete namespace ffdl-old"
)


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the next call finds; `asked` is how it was called."""
    found: dict[str, Any] = {"changes": (CHANGED, NEW, RIGHT), "left": (LEFT,), "notes": ("mind the gap",)}

    def apply(settings: Any, *, dry_run: bool = False) -> Applied:
        found["asked"] = dry_run
        return Applied(found["changes"], found["left"], found["notes"], ("ffdl-vision",))

    monkeypatch.setattr("ffdl_ops.adapters.cluster.tenants.apply_tenants", apply)
    return found


def test_what_was_changed_is_listed(cli: Any, applied: dict[str, Any]) -> None:
    out = cli.ok("tenants", "apply").stdout
    assert applied["asked"] is False
    assert "ffdl-vision/ffdl" in out and "changed" in out and "created" in out
    assert "kubectl delete namespace ffdl-old" in out and "Note: mind the gap" in out
    assert "2 changed; 1 objects are as they should be." in out
    assert "pods: '2'" not in out


def test_a_dry_run_shows_the_difference_and_ends_with_its_own_code(cli: Any, applied: dict[str, Any]) -> None:
    result = cli.run("tenants", "apply", "--dry-run")
    assert result.exit_code == 5
    assert applied["asked"] is True
    assert "to be changed" in result.stdout and "+    pods: '2'" in result.stdout
    assert result.stderr == ""


def test_a_dry_run_without_a_difference_ends_well(cli: Any, applied: dict[str, Any]) -> None:
    applied["changes"] = (RIGHT,)
    assert "Nothing to do; 1 objects are as they should be." in cli.ok("tenants", "apply", "--dry-run").stdout


def test_programs_get_one_document(cli: Any, applied: dict[str, Any]) -> None:
    result = cli.run("tenants", "apply", "--dry-run", "--json")
    told = json.loads(result.stdout)
    assert result.exit_code == 5
    assert [one["action"] for one in told["changes"]] == ["update", "create"] and told["unchanged"] == 1
    assert told["changes"][0]["difference"].endswith("+    pods: '2'")
    assert told["left_alone"][0]["remove_with"] == "kubectl delete namespace ffdl-old"
    assert told["notes"] == ["mind the gap"] and told["dry_run"] is True
