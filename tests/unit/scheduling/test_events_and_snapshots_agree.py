"""An index that is fed events decides as one that is built anew from what there is by then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ffdl_ops.core.scheduling.decide import decide, explain, run
from ffdl_ops.core.scheduling.decisions import Admit, Preempt, Reserve, Unreserve
from ffdl_ops.core.scheduling.index import Index
from ffdl_ops.core.scheduling.model import GangRequest, Grant, Level, NodeView, Reservation, Snapshot, Strategy
from ffdl_ops.core.scheduling.policy import Order, Policy
from tests.support.gangs import START, Limits, gang, later, limits, node

TYPES = ("V100", "K80")
TENANTS = ("a", "b", "c")
USERS = ("ann", "bob")

counts = st.integers(0, 8)
by_type = st.none() | st.fixed_dictionaries({kind: st.integers(0, 4) for kind in TYPES})
tenants_drawn = st.tuples(
    *(
        st.builds(
            Limits,
            st.just(name),
            st.fixed_dictionaries(dict.fromkeys(TYPES, counts)),
            max_running=st.sampled_from((None, None, 2)),
            cpu_quota_millis=st.sampled_from((None, None, 6_000)),
            weight=st.sampled_from((1.0, 1.0, 3.0)),
            cohort=st.sampled_from(("x", "x", "y", None)),
            borrow_limit=by_type,
            lend_limit=by_type,
            max_running_per_user=st.sampled_from((None, None, 1)),
            max_gpus_per_user=st.sampled_from((None, None, 4)),
            min_run_seconds=st.sampled_from((0.0, 0.0, 100.0)),
        )
        for name in TENANTS
    )
)
policies_drawn = st.builds(
    Policy,
    st.sampled_from(Order),
    backfill=st.sampled_from((None, True, False)),
    reserve_after_s=st.sampled_from((None, 50.0, 200.0)),
    age_limit_s=st.sampled_from((None, 100.0)),
    strategy=st.sampled_from((Strategy.PACK, Strategy.PACK, Strategy.SPREAD, Strategy.BSA)),
    level=st.sampled_from(Level),
    relax_s=st.sampled_from((None, 60.0)),
)
nodes_drawn = st.builds(
    lambda number, kind, gpus, cpus, up, rack: replace(node(f"n{number}", kind, gpus, cpus=cpus, gib=16, up=up), rack=rack),
    st.integers(0, 4),
    st.sampled_from(TYPES),
    st.sampled_from((4, 4, 2, 8, 0)),
    st.sampled_from((16, 16, 3)),
    st.sampled_from((True, True, True, False)),
    st.sampled_from(("", "", "r1", "r2")),
)
gangs_drawn = st.builds(
    lambda number, tenant, user, least, more, gpus, kind, cpus, priority, excluded, expected, level, strategy: gang(
        f"j{number:02}",
        (least, least + more),
        gpus,
        tenant=tenant,
        user=user,
        gpu_type=kind,
        cpus=cpus,
        priority=priority,
        excluded=excluded,
        expected_s=expected,
        level=level,
        strategy=strategy,
    ),
    st.integers(0, 15),
    st.sampled_from(TENANTS),
    st.sampled_from(USERS),
    st.sampled_from((1, 1, 2, 3)),
    st.sampled_from((0, 0, 2)),
    st.sampled_from((1, 1, 2, 4, 0)),
    st.sampled_from((*TYPES, "V100", None)),
    st.sampled_from((1, 2)),
    st.sampled_from((0, 0, 0, 1)),
    st.sampled_from(((), (), (), ("n1",))),
    st.sampled_from((None, 30.0, 500.0)),
    st.sampled_from((None, None, *Level)),
    st.sampled_from((None, None, *Strategy)),
)
picks = st.integers(0, 30)
events_drawn = st.one_of(
    st.tuples(st.just("came"), gangs_drawn),
    st.tuples(st.just("came"), gangs_drawn),
    st.tuples(st.just("left"), picks),
    st.tuples(st.just("released"), picks, st.booleans()),
    st.tuples(st.just("changed"), picks, st.sampled_from((None, 10.0, 400.0))),
    st.tuples(st.just("node"), nodes_drawn),
    st.tuples(st.just("gone"), picks),
)
steps_drawn = st.lists(
    st.tuples(st.sampled_from((0.0, 1.0, 20.0, 60.0, 150.0)), st.lists(events_drawn, max_size=4)), min_size=2, max_size=14
)


class World:
    """What there is, told to an index event by event, and kept beside it as a snapshot."""

    def __init__(self, nodes: Sequence[NodeView], tenants: Sequence[Limits], policy: Policy) -> None:
        self.tenants, self.policy = limits(*tenants), policy
        self.nodes = {one.name: one for one in nodes}
        self.grants: dict[str, Grant] = {}
        self.kept: dict[str, Reservation] = {}
        self.queue: dict[str, GangRequest] = {}
        self.requests: dict[str, GangRequest] = {}
        self.now = START
        self.index = Index(self.tenants, policy, Snapshot(tuple(nodes)), (), START)

    def happen(self, event: tuple[Any, ...]) -> None:
        getattr(self, f"_{event[0]}")(*event[1:])

    def step(self) -> None:
        """Let both decide, compare, and bring what there is to what was decided."""
        snapshot = Snapshot(tuple(self.nodes.values()), tuple(self.grants.values()), tuple(self.kept.values()))
        anew = decide(snapshot, list(self.queue.values()), self.tenants, self.policy, self.now)
        fed = (*run(self.index, self.now), *explain(self.index, self.now))
        assert fed == anew
        started = {one.job_id for one in fed if isinstance(one, Admit)}
        stopped = {one.job_id for one in fed if isinstance(one, Preempt)}
        assert not started & stopped, "nobody is started only to be stopped"
        for decision in fed:
            if isinstance(decision, Admit):
                self.requests[decision.job_id] = self.queue.pop(decision.job_id)
                self.grants[decision.job_id] = self.index.grants[decision.job_id]
            elif isinstance(decision, Preempt):
                self.grants[decision.job_id] = replace(self.grants[decision.job_id], preempting=True)
            elif isinstance(decision, Reserve):
                self.kept[decision.job_id] = decision.reservation
            elif isinstance(decision, Unreserve):
                del self.kept[decision.job_id]
        assert self.index.grants == self.grants
        assert self.index.reservations == self.kept
        assert self.index.queue.requests == self.queue

    def _came(self, request: GangRequest) -> None:
        if request.job_id not in self.grants:
            before = self.queue.get(request.job_id)
            request = replace(request, submitted_at=before.submitted_at if before else self.now)
            self.queue[request.job_id] = request
            if before is not None and before.tenant != request.tenant:
                # Another job altogether.
                self.kept.pop(request.job_id, None)
                self.index.left(request.job_id)
        self.index.came(request, self.now)

    def _left(self, pick: int) -> None:
        job_id = _picked(self.queue, pick)
        if job_id is not None:
            del self.queue[job_id]
            self.kept.pop(job_id, None)
            self.index.left(job_id)

    def _released(self, pick: int, again: bool) -> None:
        job_id = _picked(self.grants, pick)
        if job_id is not None:
            grant = self.grants.pop(job_id)
            self.index.released(job_id)
            if again:
                ran_s = (self.now - (grant.granted_at or self.now)).total_seconds()
                request = replace(
                    self.requests[job_id],
                    queued_at=self.now,
                    served_s=ran_s,
                    served_gpu_s=grant.served_gpu_s + ran_s * grant.gpus_total * 100,
                )
                self.queue[job_id] = request
                self.index.came(request, self.now)

    def _changed(self, pick: int, ends_in: float | None) -> None:
        job_id = _picked(self.grants, pick)
        if job_id is not None:
            end = None if ends_in is None else later(ends_in)
            self.grants[job_id] = replace(self.grants[job_id], saved_at=self.now, expected_end=end)
            self.index.changed(self.grants[job_id])

    def _node(self, view: NodeView) -> None:
        self.nodes[view.name] = view
        self.index.node_changed(view)

    def _gone(self, pick: int) -> None:
        name = _picked(self.nodes, pick)
        if name is not None:
            del self.nodes[name]
            self.index.node_gone(name)


def _picked(among: dict[str, Any], pick: int) -> str | None:
    return sorted(among)[pick % len(among)] if among else None


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(nodes_drawn, min_size=1, max_size=4, unique_by=lambda one: one.name),
    tenants_drawn,
    policies_drawn,
    steps_drawn,
)
def test_an_index_that_is_fed_events_decides_as_one_that_is_built_anew(nodes, tenants, policy, steps):
    world = World(nodes, tenants, policy)
    for seconds, events in steps:
        world.now = later((world.now - START).total_seconds() + seconds)
        for event in events:
            world.happen(event)
        world.step()
