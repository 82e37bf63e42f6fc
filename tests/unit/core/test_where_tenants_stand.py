"""What tenants hold, borrow and lend, and what they wait for."""

from __future__ import annotations

import random

import pytest

from ffdl_ops.core.scheduling.decisions import WaitCause
from ffdl_ops.core.scheduling.model import Placement, Reservation
from ffdl_ops.core.scheduling.quota import Accounts
from ffdl_ops.core.tenancy.standing import ANY, NO_GPU, GpuStanding, standings
from tests.support.gangs import Limits, gang, grant, later


def rows(*tenants: Limits, **held: int) -> dict[str, GpuStanding]:
    """The standing of each tenant's V100s, of which it holds so many."""
    grants = [grant(f"job-{name}", ["n"], gpus, tenant=name) for name, gpus in held.items() if gpus]
    found = standings(tenants, grants, [], later(0))
    return {one.tenant: next((row for row in one.gpus if row.gpu_type == "V100"), GpuStanding("V100")) for one in found}


def member(name: str, quota: int, **more: dict[str, int] | None) -> Limits:
    return Limits(name, {"V100": quota}, cohort="c", **more)


def test_what_one_borrows_the_others_lend_in_proportion_to_what_is_idle() -> None:
    found = rows(member("a", 4), member("b", 6), member("c", 3), a=8, b=0, c=0)
    assert (found["a"].borrowed, found["a"].above_quota, found["a"].lent) == (4, 0, 0)
    assert (found["b"].lent, found["c"].lent) == (3, 1)
    free = {name: one.free_to_borrow for name, one in found.items()}
    assert free == {"a": 5, "b": 0, "c": 2}, "what is left in the pool, without one's own"


def test_a_lending_limit_keeps_back_and_a_borrowing_limit_stops() -> None:
    found = rows(member("a", 4, borrow_limit={"V100": 1}), member("b", 6, lend_limit={"V100": 2}), a=4, b=0)
    assert found["a"].free_to_borrow == 1
    found = rows(member("a", 4), member("b", 6, lend_limit={"V100": 2}), a=5, b=0)
    assert (found["a"].free_to_borrow, found["b"].lent) == (1, 1)


@pytest.mark.parametrize(
    ("tenants", "above"),
    [
        ((Limits("a", {"V100": 2}), member("b", 9)), 4),  # nobody lends it anything
        ((member("a", 2), member("b", 3)), 1),  # less is idle than it holds
        ((member("a", 2, borrow_limit={"V100": 1}), member("b", 9)), 3),  # its own limit was lowered
        ((Limits("b", {}),), 6),  # it is gone from the configuration
    ],
)
def test_what_no_idle_quota_stands_behind_is_above_quota(tenants: tuple[Limits, ...], above: int) -> None:
    found = standings(tenants, [grant("j", ["n"], 6, tenant="a")], [], later(0))
    (mine,) = [one for one in found if one.tenant == "a"]
    assert mine.above_quota
    assert mine.gpus[0].above_quota == above
    assert mine.gpus[0].borrowed == 6 - mine.gpus[0].quota - above
    assert mine.configured is (tenants[0].name == "a")


def test_sums_agree_and_so_does_the_scheduler() -> None:
    """What is lent is borrowed; what is free to borrow is what the scheduler would grant beyond the quota."""
    draw = random.Random(7)
    for _ in range(300):
        tenants = [
            member(
                name, quota := draw.randint(0, 6),
                lend_limit=draw.choice([None, {"V100": draw.randint(0, quota)}]),
                borrow_limit=draw.choice([None, {"V100": draw.randint(0, 5)}]),
            )
            for name in "abc"
        ]  # fmt: skip
        held = {name: draw.randint(0, 7) for name in "abc"}
        found = rows(*tenants, **held)
        accounts = Accounts({one.name: one for one in tenants})
        for name, gpus in held.items():
            if gpus:
                accounts.add(grant(name, ["n"], gpus, tenant=name))
        assert sum(one.lent for one in found.values()) == sum(one.borrowed for one in found.values())
        for name, one in found.items():
            assert one.borrowed + one.above_quota == accounts.borrowed(name, "V100")
            assert 0 <= one.lent <= max(one.quota - one.held, 0)
            own = max(one.quota - one.held, 0)
            most = max(int(accounts.gpus_left(gang("j", tenant=name), "V100")), 0)
            assert one.free_to_borrow == max(most - own, 0), (tenants, held, name)


def test_jobs_are_counted_by_type_and_waits_by_cause() -> None:
    waiting = [
        (gang("a", tenant="a", at=0), WaitCause.QUOTA),
        (gang("b", tenant="a", at=50), WaitCause.QUOTA),
        (gang("c", tenant="a", at=70), None),
        (gang("d", tenant="a", gpu_type=None), WaitCause.CAPACITY),
        (gang("e", tenant="a", gpus=0), WaitCause.ORDER),
    ]
    running = [grant("f", ["n", "n"], 1, tenant="a"), grant("g", ["n"], 0, tenant="a", gpu_type=None)]
    (one,) = standings([Limits("a", {"V100": 4, "K80": 1})], running, waiting, later(100))
    by_type = {row.gpu_type: row for row in one.gpus}
    assert set(by_type) == {"V100", "K80", ANY, NO_GPU}
    v100 = by_type["V100"]
    assert (v100.held, v100.running, v100.queued) == (2, 1, 3)
    assert [(wait.cause, wait.jobs, wait.longest_s) for wait in v100.waits] == [("quota", 2, 100.0), (None, 1, 30.0)]
    assert (by_type[ANY].queued, by_type[NO_GPU].queued, by_type[NO_GPU].running) == (1, 1, 1)
    assert by_type[NO_GPU].held == by_type[NO_GPU].above_quota == 0


def test_what_is_kept_for_a_waiting_gang_is_shown_with_its_tenant() -> None:
    kept = Reservation("j", "a", (Placement(0, "n1"), Placement(1, "n2")), 4, 0, 0, "V100", later(0))
    found = {
        one.tenant: one
        for one in standings([Limits("a", {"K80": 1}), Limits("b", {"V100": 8})], [], [], later(9), [kept])
    }
    assert {row.gpu_type: row.reserved for row in found["a"].gpus} == {"K80": 0, "V100": 8}
    assert [row.reserved for row in found["b"].gpus] == [0]
