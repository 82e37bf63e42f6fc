"""Quota that is lent, taken back, and places that are kept: single cases."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from ffdl_ops.core.scheduling.decide import decide
from ffdl_ops.core.scheduling.decisions import Admit, Decision, Preempt, Reserve, Unreserve, Wait, WaitCause
from ffdl_ops.core.scheduling.model import GangRequest, Grant, Reservation, Snapshot
from ffdl_ops.core.scheduling.policy import Order, Policy
from ffdl_ops.core.scheduling.reasons import preemption_words, wait_words
from tests.support.gangs import START, Limits, gang, grant, later, limits, node

NODES = (node("n1", gpus=8), node("n2", gpus=8))
FAIR = Policy()
OWNER = Limits("owner", {"V100": 8}, cohort="c")
BORROWER = Limits("borrower", {"V100": 8}, cohort="c")
TWO = limits(OWNER, BORROWER)


def decided(
    queue: list[GangRequest],
    grants: Iterable[Grant] = (),
    tenants: dict[str, Limits] = TWO,
    *,
    policy: Policy = FAIR,
    at: float = 0,
    kept: tuple[Reservation, ...] = (),
    nodes: tuple = NODES,
) -> list[Decision]:
    """The decisions."""
    return list(decide(Snapshot(nodes, tuple(grants), kept), queue, tenants, policy, later(at)))


def of(kind: type, decisions: list[Decision]) -> list:
    """Those of one kind."""
    return [one for one in decisions if isinstance(one, kind)]


def test_idle_quota_is_lent_within_a_cohort_and_only_there():
    held = grant("mine", ["n1"] * 8, tenant="borrower")
    (admit,) = decided([gang("more", 1, 8, tenant="borrower")], [held])
    assert isinstance(admit, Admit)
    assert admit.borrowed == 8
    alone = limits(Limits("owner", {"V100": 8}), Limits("borrower", {"V100": 8}))
    (wait,) = decided([gang("more", 1, 8, tenant="borrower")], [held], alone)
    assert wait.cause is WaitCause.QUOTA


def test_limits_of_borrowing_and_lending_are_kept():
    held = grant("mine", ["n1"] * 8, tenant="borrower")
    for tenants in (
        limits(OWNER, Limits("borrower", {"V100": 8}, cohort="c", borrow_limit={"V100": 3})),
        limits(Limits("owner", {"V100": 8}, cohort="c", lend_limit={"V100": 3}), BORROWER),
    ):
        (wait,) = decided([gang("four", 4, 1, tenant="borrower")], [held], tenants)
        assert isinstance(wait, Wait), tenants
        (admit,) = decided([gang("three", 3, 1, tenant="borrower")], [held], tenants)
        assert isinstance(admit, Admit), tenants


def test_an_owner_gets_back_what_it_lent_and_the_places_are_kept_for_it():
    held = [grant("old", ["n1"] * 8, tenant="borrower"), grant("lent", ["n2"] * 8, tenant="borrower", epoch=2)]
    decisions = decided([gang("mine", 1, 8, tenant="owner")], held)
    (stop,), (kept,) = of(Preempt, decisions), of(Reserve, decisions)
    assert (stop.job_id, stop.for_job, stop.why) == ("lent", "mine", "borrowed")
    assert {place.node for place in kept.reservation.placements} == {"n2"}
    assert kept.reservation.preemption
    assert "mine of tenant owner needs what is its own" in preemption_words(stop)


def test_what_was_freed_goes_to_the_preemptor_and_never_round_in_circles():
    """Pitfall 32: the stopped job, first in arrival, does not get it back to be stopped again."""
    old = grant("old", ["n1"] * 8, tenant="borrower")
    queue = [gang("mine", 1, 8, tenant="owner", at=50), gang("lent", 1, 8, tenant="borrower", at=0)]
    kept = of(Reserve, decided([queue[0]], [old, grant("lent", ["n2"] * 8, tenant="borrower", epoch=2)]))[0].reservation
    decisions = decided(queue, [old], kept=(kept,))
    assert [one.job_id for one in of(Admit, decisions)] == ["mine"]
    assert [one.job_id for one in of(Unreserve, decisions)] == ["mine"]
    later_on = decided([queue[1]], [old, grant("mine", ["n2"] * 8, tenant="owner", epoch=3)], at=60)
    assert [type(one) for one in later_on] == [Wait], "nobody is stopped for a borrower"


def test_victims_that_leave_at_different_times_free_nothing_for_others():
    """Pitfall 32: the first of two has gone; what it freed waits for the preemptor, though a small job would fit."""
    stays = grant("own", ["n1"] * 8, tenant="borrower")
    leaving = grant("b2", ["n2"] * 4, tenant="borrower", epoch=3, preempting=True)
    kept = Reservation("mine", "owner", tuple(grant("x", ["n2"] * 8).placements), 1, 1000, 2**30, "V100", START, True)
    queue = [gang("mine", 8, 1, tenant="owner", at=9), gang("b1", 4, 1, tenant="borrower", at=0)]
    first, second = decided(queue, [stays, leaving], kept=(kept,))
    assert (first.job_id, first.cause) == ("b1", WaitCause.RESERVATION)
    assert [holder.job_id for holder in first.holders] == ["mine"]
    assert isinstance(second, Wait)


def test_those_who_lose_least_are_stopped_and_no_more_of_them_than_needed():
    held = [
        grant("own", ["n1"] * 8, tenant="borrower"),
        grant("dear", ["n2"] * 4, tenant="borrower", epoch=2, saved_at=later(0)),
        grant("cheap", ["n2"] * 4, tenant="borrower", epoch=3, saved_at=later(90)),
    ]
    stopped = of(Preempt, decided([gang("mine", 4, 1, tenant="owner")], held, at=100))
    assert [one.job_id for one in stopped] == ["cheap"]
    assert stopped[0].lost_gpu_s == 40
    both = of(Preempt, decided([gang("mine", 8, 1, tenant="owner")], held, at=100))
    assert {one.job_id for one in both} == {"cheap", "dear"}


def test_one_large_victim_is_better_than_a_small_one_that_would_not_have_been_enough():
    held = [
        grant("own", ["n1"] * 8, tenant="borrower"),
        grant("small", ["n2"], tenant="borrower", epoch=2, saved_at=later(99)),
        grant("large", ["n2"] * 7, tenant="borrower", epoch=3, saved_at=later(0)),
    ]
    stopped = of(Preempt, decided([gang("mine", 1, 7, tenant="owner")], held, at=100))
    assert [one.job_id for one in stopped] == ["large"], "the small one is spared"


def test_nobody_is_stopped_before_its_tenants_shortest_run_time():
    tenants = limits(OWNER, Limits("borrower", {"V100": 8}, cohort="c", min_run_seconds=60))
    held = [
        grant("own", ["n1"] * 8, tenant="borrower"),
        grant("lent", ["n2"] * 8, tenant="borrower", epoch=2, granted_at=START),
    ]
    assert of(Preempt, decided([gang("mine", 1, 8, tenant="owner")], held, tenants, at=59)) == []
    assert len(of(Preempt, decided([gang("mine", 1, 8, tenant="owner")], held, tenants, at=60))) == 1


def test_nobody_is_stopped_twice_for_the_same_places():
    held = [
        grant("own", ["n1"] * 8, tenant="borrower"),
        grant("lent", ["n2"] * 8, tenant="borrower", epoch=2, preempting=True),
    ]
    assert of(Preempt, decided([gang("mine", 1, 8, tenant="owner")], held)) == []


def test_a_higher_priority_stops_a_lower_one_of_its_own_tenant_but_never_anothers_own():
    tenants = limits(Limits("owner", {"V100": 8}), Limits("borrower", {"V100": 8}))
    held = [grant("low", ["n1"] * 8, tenant="owner", priority=1), grant("other", ["n2"] * 8, tenant="borrower")]
    (stop,) = of(Preempt, decided([gang("high", 1, 8, tenant="owner", priority=9)], held, tenants))
    assert (stop.job_id, stop.why) == ("low", "priority")
    only_other = [grant("other", ["n1"] * 8, tenant="borrower"), grant("too", ["n2"] * 8, tenant="borrower", epoch=2)]
    wide = limits(Limits("owner", {"V100": 8}), Limits("borrower", {"V100": 16}))
    assert of(Preempt, decided([gang("high", 1, 8, tenant="owner", priority=9)], only_other, wide)) == []


def test_nobody_is_stopped_for_a_gang_that_only_waits_to_be_allowed_farther_apart():
    held = [grant("own", ["n1"] * 4, tenant="borrower"), grant("b", ["n2"] * 4, tenant="borrower", epoch=2)]
    tight = limits(OWNER, Limits("borrower", {"V100": 4}, cohort="c"))
    (wait,) = decided([gang("mine", 8, 1, tenant="owner")], held, tight)
    assert wait.cause is WaitCause.FRAGMENTATION
    (admit,) = decided([gang("mine", 8, 1, tenant="owner")], held, tight, at=120)
    assert isinstance(admit, Admit), "relaxed by then"


def test_tenants_take_turns_by_their_weighted_shares():
    tenants = limits(
        Limits("heavy", {"V100": 2}, cohort="c", weight=2), Limits("light", {"V100": 2}, cohort="c"), OWNER
    )
    queue = [gang(f"{name}{number}", 1, 1, tenant=name, at=number) for name in ("light", "heavy") for number in range(12)]
    started = [one.job_id for one in of(Admit, decided(queue, (), tenants, nodes=(node("n1", gpus=12),)))]
    assert sum(name.startswith("heavy") for name in started) == 8
    assert sum(name.startswith("light") for name in started) == 4


def test_an_aged_gang_gets_places_that_backfill_does_not_take():
    """Pitfall 19: many small jobs do not starve a large one."""
    held = [grant("a", ["n1"] * 4, tenant="borrower"), grant("b", ["n2"] * 8, tenant="borrower", epoch=2)]
    tenants = limits(Limits("owner", {"V100": 16}), Limits("borrower", {"V100": 16}))
    large = gang("large", 1, 8, tenant="owner", at=0)
    small = [gang(f"s{number}", 1, 1, tenant="borrower", at=901 + number) for number in range(4)]
    decisions = decided([large, *small], held, tenants, at=905)
    assert len(of(Admit, decisions)) == 4, "backfill before it is reserved"
    (kept,) = of(Reserve, decided([large], held, tenants, at=905))
    node_kept = {place.node for place in kept.reservation.placements}
    assert node_kept == {"n1"} or node_kept == {"n2"}
    decisions = decided([large, *small], held, tenants, at=906, kept=(kept.reservation,))
    if node_kept == {"n1"}:
        waits = of(Wait, decisions)
        assert {one.cause for one in waits if one.job_id != "large"} == {WaitCause.RESERVATION}
        assert "large of owner" in wait_words(next(one for one in waits if one.job_id == "s0"))
    done = decided([large, *small], [held[1]] if node_kept == {"n1"} else [held[0]], tenants, at=950, kept=(kept.reservation,))
    assert "large" in [one.job_id for one in of(Admit, done)]


def test_an_elastic_gang_borrows_for_more_only_what_nobody_else_waits_for():
    held = [grant("own", ["n1"] * 8, tenant="borrower")]
    (admit,) = decided([gang("e", (1, 8), 1, tenant="borrower")], held)
    assert len(admit.placements) == 8
    blocked = gang("w", 1, 8, tenant="owner", at=1, excluded=("n1", "n2"))
    decisions = decided([gang("e", (1, 8), 1, tenant="borrower"), blocked], held)
    assert [len(one.placements) for one in of(Admit, decisions)] == [1]


def test_a_wait_says_until_when_and_how_soon():
    end = START + timedelta(hours=2)
    held = [grant("x", ["n1"] * 8, tenant="owner", expected_end=end, user="eve"), grant("y", ["n2"] * 8, epoch=2, tenant="owner")]
    tenants = limits(Limits("owner", {"V100": 16}), Limits("borrower", {"V100": 16}))
    (wait,) = decided([gang("j", 1, 8, tenant="borrower")], held, tenants)
    assert (wait.cause, wait.earliest) == (WaitCause.CAPACITY, end)
    words = wait_words(wait)
    assert "x of owner (8 GPU, eve, until about 2026-01-01 14:00 UTC)" in words
    assert "Not before 2026-01-01 14:00 UTC" in words


def test_a_closed_platform_starts_nothing_and_says_why():
    snapshot = Snapshot(NODES, closed="an upgrade (closed by ann)")
    (wait,) = decide(snapshot, [gang("j", tenant="owner")], TWO, FAIR, START)
    assert wait.cause is WaitCause.CLOSED
    assert "an upgrade" in wait_words(wait)


def test_limits_of_a_user_stop_that_user_alone():
    tenants = limits(Limits("owner", {"V100": 16}, max_running_per_user=1, max_gpus_per_user=4))
    held = [grant("x", ["n1"], tenant="owner", user="ann")]
    queue = [
        gang("more", tenant="owner", user="ann"),
        gang("large", 1, 8, tenant="owner", user="bob"),
        gang("ok", tenant="owner", user="cyd"),
    ]
    decisions = {one.job_id: one for one in decided(queue, held, tenants)}
    assert isinstance(decisions["ok"], Admit)
    assert "user ann: 1 of 1 running jobs" in wait_words(decisions["more"])
    assert "it never starts" in wait_words(decisions["large"])


def test_srtf_stops_the_job_with_longer_to_go_and_sjf_stops_nobody():
    held = [grant("long", ["n1"] * 8, expected_end=later(9000)), grant("other", ["n2"] * 8, epoch=2, expected_end=later(50))]
    tenants = limits(Limits("a", {"V100": 16}))
    queue = [gang("short", 1, 8, expected_s=100)]
    (stop,) = of(Preempt, decided(queue, held, tenants, policy=Policy(Order.SRTF)))
    assert (stop.job_id, stop.why) == ("long", "order")
    assert of(Preempt, decided(queue, held, tenants, policy=Policy(Order.SJF))) == []


def test_las_serves_those_first_who_have_had_least():
    queue = [gang("much", 1, 8, served_gpu_s=50_000, at=0), gang("new", 1, 8, at=9)]
    decisions = decided(queue, [grant("x", ["n1"] * 8)], limits(Limits("a", {"V100": 16})), policy=Policy(Order.LAS))
    assert [one.job_id for one in of(Admit, decisions)] == ["new"]


def none_is_started_only_to_be_stopped(decisions: list[Decision]) -> None:
    """No job is told to start and to stop by one pass."""
    assert not {one.job_id for one in of(Admit, decisions)} & {one.job_id for one in of(Preempt, decisions)}


def test_a_job_that_had_waited_too_long_is_not_stopped_by_the_order_that_made_it_wait():
    policy = Policy(Order.SRTF, age_limit_s=100)
    tenants = limits(Limits("a", {"V100": 16}, max_running_per_user=1))
    queue = [gang("unknown", 1, 8, at=0), gang("short", 1, 8, at=150, expected_s=500)]
    decisions = decided(queue, (), tenants, policy=policy, at=150)
    none_is_started_only_to_be_stopped(decisions)
    assert [one.job_id for one in of(Admit, decisions)] == ["unknown"]


def test_a_gang_of_lower_priority_is_not_started_for_a_moment_before_a_higher_one_claims_its_places():
    tenants = limits(Limits("a", {"V100": 0}, cohort="c"), Limits("b", {"V100": 1}, cohort="c"))
    nodes = (node("n1", gpus=1, cpus=3),)
    queue = [gang("cpu", (1, 3), 0, cpus=1), gang("high", 1, 1, cpus=1, priority=1, at=5)]
    decisions = decided(queue, (), tenants, nodes=nodes)
    none_is_started_only_to_be_stopped(decisions)
    assert "high" in {one.job_id for one in of(Admit, decisions)}


def test_places_reserved_for_a_borrower_give_way_to_a_quota_without_starting_it_for_a_moment():
    tenants = limits(
        Limits("a", {"V100": 1}, cohort="x"), Limits("b", {"V100": 4}, cohort="x"), Limits("c", {"V100": 4}, cohort="x")
    )
    placements = tuple(grant("x", ["n1"] * 4).placements)
    kept = Reservation("large", "a", placements, 1, 1000, 2**30, "V100", START)
    queue = [gang("large", 4, 1, tenant="a", at=0), gang("own", 1, 1, tenant="b", at=60)]
    decisions = decided(queue, (), tenants, at=2000, kept=(kept,), nodes=(node("n1", gpus=4),))
    none_is_started_only_to_be_stopped(decisions)
    assert "own" in {one.job_id for one in of(Admit, decisions)}
