"""In which order gangs start, and why the others wait."""

from __future__ import annotations

from ffdl_ops.core.scheduling.decide import decide
from ffdl_ops.core.scheduling.decisions import Admit, Decision, Wait, WaitCause
from ffdl_ops.core.scheduling.model import GangRequest, Grant, NodeView, Snapshot
from ffdl_ops.core.scheduling.reasons import wait_words
from tests.support.gangs import FIFO, START, Limits, gang, grant, limits, node

TENANTS = limits(
    Limits("a", {"V100": 8, "K80": 4}),
    Limits("b", {"V100": 8, "K80": 4}),
    Limits("small", {"V100": 1, "K80": 4}),
)
NODES = (node("n1"), node("n2"), node("k1", "K80"))


def decided(
    queue: list[GangRequest], grants: tuple[Grant, ...] = (), nodes: tuple[NodeView, ...] = NODES
) -> dict[str, Decision]:
    """The decisions by job."""
    return {one.job_id: one for one in decide(Snapshot(nodes, grants), queue, TENANTS, FIFO, START)}


def test_two_gangs_that_fit_one_at_a_time_one_runs_one_waits():
    """Pitfall 29: neither runs in part."""
    decisions = decided([gang("j1", 5, 1, at=1), gang("j2", 5, 1, tenant="b", at=2)])
    first, second = decisions["j1"], decisions["j2"]
    assert isinstance(first, Admit)
    assert len(first.placements) == 5
    assert isinstance(second, Wait)
    assert second.cause is WaitCause.CAPACITY


def test_priority_then_arrival_then_name():
    queue = [gang("j3", 8, 1, at=2), gang("j2", 8, 1, at=1), gang("j1", 8, 1, at=1), gang("j4", 8, 1, priority=1, at=9)]
    decisions = decide(Snapshot(NODES), queue, TENANTS, FIFO, START)
    assert [one.job_id for one in decisions] == ["j4", "j1", "j2", "j3"]
    assert [getattr(one, "position", 0) for one in decisions] == [0, 1, 2, 3]


def test_a_thousand_waiting_jobs_of_one_tenant_hide_nothing_of_another():
    """Pitfall 18: per-tenant heads."""
    queue = [gang(f"s{number:04}", at=number, tenant="small", priority=1) for number in range(1000)]
    decisions = decided([*queue, gang("other", 4, 1, tenant="b", at=5000)])
    assert isinstance(decisions["other"], Admit)
    assert sum(isinstance(one, Admit) for one in decisions.values()) == 2


def test_a_smaller_job_does_not_overtake_the_head_of_its_tenant():
    held = (grant("x", ["n1"] * 3, tenant="b"),)
    decisions = decided([gang("big", 8, 1, at=1), gang("little", 1, 1, at=2)], held)
    wait = decisions["little"]
    assert isinstance(wait, Wait)
    assert wait.cause is WaitCause.ORDER
    assert wait.position == 2
    assert "big of the same tenant goes first" in wait_words(wait)
    assert [holder.job_id for holder in wait.holders] == ["big"]


def test_a_job_of_another_gpu_type_overtakes_a_head_that_waits_for_its_type():
    decisions = decided([gang("big", 8, 1, at=1), gang("k", gpu_type="K80", at=2)], (grant("x", ["n1"], tenant="b"),))
    assert isinstance(decisions["big"], Wait)
    assert isinstance(decisions["k"], Admit)


def test_a_job_of_any_type_behind_a_head_takes_only_what_the_head_does_not_wait_for():
    held = (grant("x", ["n1"], tenant="b"),)
    decisions = decided([gang("big", 8, 1, at=1), gang("any", 1, 1, gpu_type=None, at=2)], held)
    admit = decisions["any"]
    assert isinstance(admit, Admit)
    assert admit.gpu_type == "K80"


def test_a_cpu_job_behind_a_head_stays_off_the_nodes_the_head_waits_for():
    held = (grant("x", ["n1"], tenant="b"),)
    queue = [gang("big", 8, 1, at=1), gang("cpu", 1, 0, cpus=8, at=2)]
    admit = decided(queue, held)["cpu"]
    assert isinstance(admit, Admit)
    assert [place.node for place in admit.placements] == ["k1"]
    wait = decided(queue, held, nodes=(node("n1"), node("n2")))["cpu"]
    assert isinstance(wait, Wait)
    assert wait.cause is WaitCause.ORDER


def test_a_head_that_takes_any_type_holds_up_all_behind_it():
    held = (grant("x", ["n1"] * 4, tenant="b"), grant("y", ["k1"], tenant="b"))
    decisions = decided([gang("any", 5, 1, gpu_type=None, at=1), gang("k", gpu_type="K80", at=2)], held)
    assert isinstance(decisions["any"], Wait)
    wait = decisions["k"]
    assert isinstance(wait, Wait)
    assert wait.cause is WaitCause.ORDER


def test_a_head_that_waits_for_a_limit_of_the_whole_tenant_holds_up_all_behind_it():
    tenants = limits(Limits("a", {"V100": 8, "K80": 4}, cpu_quota_millis=8000))
    queue = [gang("wide", 1, 1, cpus=8, at=1), gang("k", gpu_type="K80", cpus=1, at=2)]
    _, wait = decide(Snapshot(NODES, (grant("x", ["n1"], cpus=2),)), queue, tenants, FIFO, START)
    assert isinstance(wait, Wait)
    assert (wait.job_id, wait.cause) == ("k", WaitCause.ORDER)


def test_a_head_that_could_not_start_on_an_idle_cluster_holds_up_nobody():
    too_large = gang("large", 9, 1, at=1)
    decisions = decided([too_large, gang("little", at=2)])
    assert isinstance(decisions["large"], Wait)
    assert isinstance(decisions["little"], Admit)
    no_node = decided([gang("cpu", 1, 1, cpus=500, at=1), gang("little", at=2)])
    assert isinstance(no_node["little"], Admit)
    assert "Even idle, these nodes could not hold it" in wait_words(no_node["cpu"])


def test_every_release_lets_the_next_start():
    """Pitfall 33: the same queue is decided anew once room is free."""
    queue = [gang("j", 8, 1)]
    assert isinstance(decided(queue, (grant("x", ["n1"], tenant="b"),))["j"], Wait)
    assert isinstance(decided(queue)["j"], Admit)


def test_a_job_that_holds_a_grant_is_not_decided_again():
    assert decided([gang("j")], (grant("j", ["n1"]),)) == {}


def test_waiting_for_capacity_says_what_is_needed_free_and_held_and_by_whom():
    held = (
        grant("x", ["n1"] * 4, tenant="b"),
        grant("y", ["n2"] * 3, tenant="b"),
        grant("z", ["k1"], tenant="b", gpu_type="K80"),
    )
    wait = decided([gang("j", 2, 1, excluded=("n1",))], held)["j"]
    assert isinstance(wait, Wait)
    assert wait.cause is WaitCause.CAPACITY
    assert [(one.job_id, one.gpus) for one in wait.holders] == [("y", 3)]
    assert wait.numbers["free_gpus"] == 1
    assert (wait.numbers["learners"], wait.numbers["gpus_each"]) == (2, 1)
    for words in (
        "2 learners of 1 GPU",
                "1 GPUs are free on 1 V100 node",
        "y of b (3 GPU, ann)",
        "Excluded for this job: n1",
    ):
        assert words in wait_words(wait)


def test_enough_gpus_in_sum_that_lie_scattered_are_fragmentation():
    held = (grant("x", ["n1", "n1", "n2", "n2"], tenant="b"),)
    wait = decided([gang("j", 1, 4)], held)["j"]
    assert isinstance(wait, Wait)
    assert wait.cause is WaitCause.FRAGMENTATION
    assert wait.numbers["free_gpus"] == 4


def test_no_ready_node_is_said():
    wait = decided([gang("j")], nodes=(node("n1", up=False),))["j"]
    assert isinstance(wait, Wait)
    assert wait.cause is WaitCause.CAPACITY
    assert "no node for it (V100) is ready" in wait_words(wait)
    assert "Not ready or closed: n1" in wait_words(wait)
    assert isinstance(decided([gang("any", gpu_type=None)], nodes=())["any"], Wait)
