"""Where a gang is put when it fits."""

from __future__ import annotations

from collections import Counter

from ffdl_ops.core.scheduling.decide import decide
from ffdl_ops.core.scheduling.decisions import Admit, Wait
from ffdl_ops.core.scheduling.model import GangRequest, Grant, NodeView, Snapshot
from tests.support.gangs import FIFO, START, Limits, gang, grant, limits, node

PLENTY = limits(Limits("a", {"V100": 100, "K80": 100}))


def one(request: GangRequest, nodes: list[NodeView], grants: list[Grant] | None = None) -> Admit | Wait:
    """The decision for a single request."""
    (decision,) = decide(Snapshot(tuple(nodes), tuple(grants or [])), [request], PLENTY, FIFO, START)
    return decision


def nodes_of(decision: Admit | Wait) -> list[str]:
    """The nodes by rank."""
    assert isinstance(decision, Admit), decision
    assert [place.rank for place in decision.placements] == list(range(len(decision.placements)))
    return [place.node for place in decision.placements]


def test_a_gang_that_fits_on_one_node_is_put_on_one():
    nodes = [node("n1"), node("n2")]
    assert nodes_of(one(gang("j", 2, 2), nodes, [grant("x", ["n1"])])) == ["n2", "n2"]


def test_among_nodes_that_fit_the_fullest_is_taken():
    nodes = [node("n1", gpus=8), node("n2"), node("n3")]
    assert nodes_of(one(gang("j", 1, 1), nodes, [grant("x", ["n3", "n3"])])) == ["n3"]


def test_a_gang_over_several_nodes_takes_as_few_as_it_can():
    nodes = [node("n1", gpus=2), node("n2", gpus=2), node("n3", gpus=4), node("n4", gpus=3)]
    assert Counter(nodes_of(one(gang("j", 6, 1), nodes))) == {"n3": 4, "n1": 2}


def test_a_learner_is_never_split_over_nodes():
    assert isinstance(one(gang("j", 1, 4), [node("n1", gpus=3), node("n2", gpus=3)]), Wait)


def test_excluded_and_closed_nodes_are_left_out():
    nodes = [node("n1"), node("n2", up=False), node("n3")]
    assert nodes_of(one(gang("j", excluded=("n1",)), nodes)) == ["n3"]
    assert isinstance(one(gang("j", excluded=("n1", "n3")), nodes), Wait)


def test_a_named_type_is_kept_to():
    assert nodes_of(one(gang("j", gpu_type="K80"), [node("n1"), node("k1", "K80")])) == ["k1"]


def test_any_type_is_still_one_type_for_the_whole_gang():
    nodes = [node("n1", gpus=2), node("k1", "K80", gpus=2)]
    assert isinstance(one(gang("j", 3, 1, gpu_type=None), nodes), Wait)
    decision = one(gang("j", 2, 1, gpu_type=None), nodes)
    assert len(set(nodes_of(decision))) == 1


def test_any_type_takes_the_type_that_has_room():
    decision = one(gang("j", 2, 2, gpu_type=None), [node("n1"), node("k1", "K80")], [grant("x", ["n1"])])
    assert isinstance(decision, Admit)
    assert decision.gpu_type == "K80"


def test_cpu_and_memory_limit_what_a_node_takes():
    assert isinstance(one(gang("j", 2, 1, cpus=20), [node("n1", cpus=32)]), Wait)
    assert isinstance(one(gang("j", 2, 1, gib=40), [node("n1", gib=64)]), Wait)
    assert nodes_of(one(gang("j", 2, 1, cpus=20, gib=40), [node("n1"), node("n2")])) == ["n1", "n2"]


def test_a_gang_without_gpus_needs_cpu_and_memory_alone_and_leaves_gpu_nodes_free():
    nodes = [node("n1"), node("cpu", gpus=0)]
    decision = one(gang("j", 2, 0), nodes)
    assert nodes_of(decision) == ["cpu", "cpu"]
    assert isinstance(decision, Admit)
    assert decision.gpu_type is None
    full = [grant("x", ["n1"] * 4)]
    assert nodes_of(one(gang("j", 2, 0), [node("n1")], full)) == ["n1", "n1"]
    assert nodes_of(one(gang("j", 1, 0), nodes, full)) == ["cpu"], "it may be in use again soon"


def test_an_elastic_gang_gets_the_most_learners_that_fit():
    nodes = [node("n1"), node("n2")]
    assert len(nodes_of(one(gang("j", (1, 8), 1), nodes, [grant("x", ["n1"] * 3)]))) == 5
    assert len(nodes_of(one(gang("j", (2, 3), 1), nodes))) == 3
    assert isinstance(one(gang("j", (6, 8), 1), nodes, [grant("x", ["n1"] * 3)]), Wait)


def test_a_grant_on_a_node_that_is_gone_takes_nothing_from_the_others():
    assert nodes_of(one(gang("j", 1, 4), [node("n1")], [grant("x", ["gone"] * 4)])) == ["n1"]
