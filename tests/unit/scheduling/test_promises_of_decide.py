"""What holds for every cluster and every queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ffdl_ops.core.scheduling.decide import decide
from ffdl_ops.core.scheduling.decisions import Admit, Decision, Wait
from ffdl_ops.core.scheduling.model import GangRequest, Grant, NodeView, Snapshot
from tests.support.gangs import FIFO, START, Limits, admitted, gang, node

TYPES = ("V100", "K80")
TENANTS = ("a", "b", "c")

nodes_drawn = st.lists(
    st.builds(
        lambda number, kind, gpus, cpus, up: node(f"n{number}", kind, gpus, cpus=cpus, gib=16, up=up),
        st.integers(0, 9),
        st.sampled_from(TYPES),
        st.integers(0, 4),
        st.integers(0, 8),
        st.sampled_from((True, True, True, False)),
    ),
    max_size=5,
    unique_by=lambda one: one.name,
)
gangs_drawn = st.lists(
    st.builds(
        lambda number, tenant, least, more, gpus, kind, cpus, priority, at, excluded: gang(
            f"j{number:02}",
            (least, least + more),
            gpus,
            tenant=tenant,
            gpu_type=kind,
            cpus=cpus,
            priority=priority,
            at=at,
            excluded=excluded,
        ),
        st.integers(0, 40),
        st.sampled_from(TENANTS),
        st.integers(1, 4),
        st.integers(0, 2),
        st.integers(0, 3),
        st.sampled_from((*TYPES, None)),
        st.integers(1, 3),
        st.integers(0, 2),
        st.integers(0, 3),
        st.sampled_from(((), ("n1",), ("n2", "n3"))),
    ),
    max_size=10,
    unique_by=lambda one: one.job_id,
)
tenants_drawn = st.fixed_dictionaries(
    {
        name: st.builds(
            lambda v, k, running, cpus, name=name: Limits(name, {"V100": v, "K80": k}, running, cpus * 1000),
            st.integers(0, 8),
            st.integers(0, 4),
            st.sampled_from((None, 1, 3)),
            st.integers(4, 20),
        )
        for name in TENANTS
    }
)


def slots(nodes: list[NodeView], grants: list[Grant], request: GangRequest, kind: str | None) -> int:
    """How many learners fit beside what is held, counted node by node."""
    total = 0
    for one in nodes:
        if one.usable and one.name not in request.excluded_nodes and (kind is None or (one.gpus and one.gpu_type == kind)):
            here = [grant for grant in grants for place in grant.placements if place.node == one.name]
            free = (
                (one.gpus - sum(grant.gpus for grant in here), request.gpus),
                (one.cpu_millis - sum(grant.cpu_millis for grant in here), request.cpu_millis),
                (one.memory_bytes - sum(grant.memory_bytes for grant in here), request.memory_bytes),
            )
            total += min(have // need for have, need in free if need)
    return total


def in_two_passes(
    nodes: list[NodeView], first: list[GangRequest], second: list[GangRequest], tenants: dict[str, Limits]
) -> Iterator[tuple[Snapshot, list[GangRequest], tuple[Decision, ...], list[Grant]]]:
    """Decide twice: on the idle cluster, and with what the first pass granted."""
    grants: list[Grant] = []
    for queue in (first, second):
        queue = [replace(one, job_id=f"{one.job_id}-{len(grants)}") for one in queue]
        snapshot = Snapshot(tuple(nodes), tuple(grants))
        decisions = decide(snapshot, queue, tenants, FIFO, START)
        grants = [*grants, *admitted(decisions, queue)]
        yield snapshot, queue, decisions, grants


@settings(max_examples=150, deadline=None)
@given(nodes_drawn, gangs_drawn, gangs_drawn, tenants_drawn)
def test_no_node_and_no_quota_is_ever_passed(nodes, first, second, tenants):
    for _, _, _, grants in in_two_passes(nodes, first, second, tenants):
        for one in nodes:
            here = [(grant, place) for grant in grants for place in grant.placements if place.node == one.name]
            assert sum(grant.gpus for grant, _ in here) <= one.gpus
            assert sum(grant.cpu_millis for grant, _ in here) <= one.cpu_millis
            assert sum(grant.memory_bytes for grant, _ in here) <= one.memory_bytes
            assert not here or one.usable
        for tenant in tenants.values():
            mine = [grant for grant in grants if grant.tenant == tenant.name]
            held: Counter[str | None] = Counter()
            for grant in mine:
                held[grant.gpu_type] += grant.gpus_total
            assert all(count <= tenant.gpu_quota[kind] for kind, count in held.items() if kind)
            assert tenant.max_running is None or len(mine) <= tenant.max_running
            assert sum(grant.cpu_millis * grant.learners for grant in mine) <= (tenant.cpu_quota_millis or 0)


@settings(max_examples=150, deadline=None)
@given(nodes_drawn, gangs_drawn, tenants_drawn)
def test_a_gang_is_whole_on_one_type_and_where_it_may_be_or_not_at_all(nodes, queue, tenants):
    kinds = {one.name: one.gpu_type for one in nodes}
    by_id = {request.job_id: request for request in queue}
    decisions = decide(Snapshot(tuple(nodes)), queue, tenants, FIFO, START)
    assert sorted(one.job_id for one in decisions) == sorted(by_id)
    for one in decisions:
        if isinstance(one, Admit):
            request = by_id[one.job_id]
            assert request.learners_min <= len(one.placements) <= request.learners_max
            assert [place.rank for place in one.placements] == list(range(len(one.placements)))
            used = {place.node for place in one.placements}
            assert not used & request.excluded_nodes
            if request.gpus:
                assert {kinds[name] for name in used} == {one.gpu_type}
                assert request.gpu_type in (None, one.gpu_type)


@settings(max_examples=100, deadline=None)
@given(nodes_drawn, gangs_drawn, tenants_drawn, st.randoms(use_true_random=False))
def test_the_same_facts_in_any_order_give_the_same_decisions(nodes, queue, tenants, random):
    expected = decide(Snapshot(tuple(nodes)), queue, tenants, FIFO, START)
    random.shuffle(nodes)
    random.shuffle(queue)
    assert decide(Snapshot(tuple(nodes)), queue, dict(reversed(tenants.items())), FIFO, START) == expected


@settings(max_examples=200, deadline=None)
@given(nodes_drawn, gangs_drawn, gangs_drawn, tenants_drawn)
def test_no_head_of_a_tenants_queue_is_held_though_it_fits(nodes, first, second, tenants):
    for _, queue, decisions, grants in in_two_passes(nodes, first, second, tenants):
        by_id = {request.job_id: request for request in queue}
        for one in decisions:
            if isinstance(one, Wait) and one.position == 1:
                request = by_id[one.job_id]
                tenant = tenants[request.tenant]
                kinds = [None] if not request.gpus else [request.gpu_type] if request.gpu_type else list(TYPES)
                mine = [grant for grant in grants if grant.tenant == tenant.name]
                for kind in kinds:
                    held = sum(grant.gpus_total for grant in mine if grant.gpu_type == kind)
                    cpu = sum(grant.cpu_millis * grant.learners for grant in mine)
                    within = (
                        (kind is None or held + request.gpus * request.learners_min <= tenant.gpu_quota[kind])
                        and (tenant.max_running is None or len(mine) < tenant.max_running)
                        and cpu + request.cpu_millis * request.learners_min <= (tenant.cpu_quota_millis or 0)
                    )
                    fits = slots(nodes, grants, request, kind) >= request.learners_min
                    assert not (within and fits), one


@settings(max_examples=150, deadline=None)
@given(nodes_drawn, gangs_drawn, tenants_drawn)
def test_nothing_overtakes_a_gang_of_its_tenant_that_waits_for_the_same_type(nodes, queue, tenants):
    """A gang that could start on the idle cluster is never passed by a later one of the same tenant on its type."""
    decisions = {one.job_id: one for one in decide(Snapshot(tuple(nodes)), queue, tenants, FIFO, START)}
    waiting: list[GangRequest] = []
    for request in sorted(queue, key=lambda one: (-one.priority, one.submitted_at, -one.gpus * one.learners_min, one.job_id)):
        decision = decisions[request.job_id]
        if isinstance(decision, Wait):
            alone = decide(Snapshot(tuple(nodes)), [request], tenants, FIFO, START)
            if isinstance(alone[0], Admit):
                waiting.append(request)
        else:
            passed = [one for one in waiting if one.tenant == request.tenant]
            assert not any(one.gpus and one.gpu_type in (decision.gpu_type, None) for one in passed)
            assert not any(not one.gpus for one in passed)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.integers(1, 10))
def test_packing_uses_the_fewest_nodes_there_are(sizes, learners):
    nodes = [node(f"n{number}", gpus=size, cpus=64, gib=64) for number, size in enumerate(sizes)]
    (decision,) = decide(Snapshot(tuple(nodes)), [gang("j", learners, 1)], {"a": Limits("a", {"V100": 99})}, FIFO, START)
    largest = sorted(sizes, reverse=True)
    fewest = next((count for count in range(1, len(sizes) + 1) if sum(largest[:count]) >= learners), None)
    used = {place.node for place in decision.placements} if isinstance(decision, Admit) else None
    assert (len(used) if used else None) == fewest
