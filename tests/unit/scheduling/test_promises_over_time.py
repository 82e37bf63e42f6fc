"""What holds at every moment of every stream of jobs: in virtual time, through the live decision code."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from ffdl_ops.core.scheduling.decide import explain
from ffdl_ops.core.scheduling.decisions import WaitCause
from ffdl_ops.core.scheduling.index import Index
from ffdl_ops.core.scheduling.model import GangRequest, Grant, Level, Snapshot
from ffdl_ops.core.scheduling.policy import Order, Policy
from ffdl_ops.core.scheduling.serving import best_start
from ffdl_ops.lab.simulate.replay import Replay, SimJob, replay
from tests.support.gangs import START, Limits, gang, limits, node

KINDS = ("V100", "K80")

_NODES = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(1, 4), st.sampled_from(("", "r1", "r2"))), min_size=1, max_size=4
)
nodes_drawn = _NODES.map(
    lambda drawn: [replace(node(f"n{number}", kind, gpus), rack=rack) for number, (kind, gpus, rack) in enumerate(drawn)]
)
tenants_drawn = st.tuples(
    *[
        st.builds(
            lambda v, k, cohort, borrow, lend, weight, name=name: Limits(
                name,
                {"V100": v, "K80": k},
                cohort=cohort,
                borrow_limit={"V100": borrow} if cohort and borrow is not None else None,
                lend_limit={"V100": min(lend, v)} if cohort and lend is not None else None,
                weight=weight,
            ),
            st.integers(0, 6),
            st.integers(0, 4),
            st.sampled_from((None, "c", "c")),
            st.sampled_from((None, None, 1)),
            st.sampled_from((None, None, 2)),
            st.sampled_from((1.0, 2.0)),
        )
        for name in ("a", "b", "c")
    ]
).map(lambda drawn: limits(*drawn))
jobs_drawn = st.lists(
    st.builds(
        lambda tenant, least, more, gpus, kind, priority, at, lasts, user: (
            tenant,
            (least, least + more),
            gpus,
            kind,
            priority,
            at,
            lasts,
            user,
        ),
        st.sampled_from(("a", "b", "c")),
        st.integers(1, 3),
        st.integers(0, 2),
        st.integers(0, 3),
        st.sampled_from((*KINDS, None)),
        st.integers(0, 1),
        st.integers(0, 120),
        st.integers(1, 90),
        st.sampled_from(("ann", "bob")),
    ),
    max_size=14,
).map(
    lambda drawn: [
        SimJob(
            gang(
                f"j{number:02}", learners, gpus, tenant=tenant, gpu_type=kind, priority=priority, at=at, user=user,
                expected_s=float(lasts),
            ),
            float(lasts),
        )
        for number, (tenant, learners, gpus, kind, priority, at, lasts, user) in enumerate(drawn)
    ]
)  # fmt: skip
policies_drawn = st.builds(
    lambda order, backfill, reserve, level: Policy(
        order, backfill=backfill, reserve_after_s=reserve, age_limit_s=60.0, level=level, relax_s=10.0
    ),
    st.sampled_from(list(Order)),
    st.sampled_from((None, True, False)),
    st.sampled_from((None, 30.0)),
    st.sampled_from(list(Level)),
)


def stop_s(request: GangRequest) -> float:
    """Seconds to save and stop."""
    return 3.0


def borrowed(index: Index) -> list[Grant]:
    """What is held beyond quotas, counted anew: of a tenant's grants of a type, the least important and the newest."""
    found = []
    for tenant in index.tenants.values():
        for kind, quota in tenant.gpu_quota.items():
            mine = [
                one for one in index.grants.values() if one.tenant == tenant.name and one.gpus and one.gpu_type == kind
            ]
            total = 0
            for one in sorted(mine, key=lambda one: (-one.priority, one.epoch)):
                total += one.gpus_total
                if total > quota:
                    found.append(one)
    return found


def check_capacity(index: Index) -> None:
    """No node, no cohort and no limit is passed, and every gang is whole."""
    for one in index.nodes.values():
        here = [grant for grant in index.grants.values() for place in grant.placements if place.node == one.name]
        assert sum(grant.gpus for grant in here) <= one.gpus
        assert sum(grant.cpu_millis for grant in here) <= one.cpu_millis
    for tenant in index.tenants.values():
        for kind in KINDS:
            held = sum(
                one.gpus_total for one in index.grants.values() if one.tenant == tenant.name and one.gpu_type == kind
            )
            quota = tenant.gpu_quota.get(kind, 0)
            if tenant.cohort is None:
                assert held <= quota
            elif tenant.borrow_limit is not None:
                assert held <= quota + tenant.borrow_limit.get(kind, 0)


def check_quota_is_sure(index: Index, now: datetime) -> None:
    """No gang within its tenant's quota waits for what others hold beyond theirs, once these had their time to stop."""
    beyond = [one for one in borrowed(index) if not one.preempting]
    leaving = [one for one in index.grants.values() if one.preempting]
    behind = {wait.job_id for wait in explain(index, now) if wait.cause is WaitCause.ORDER}
    for request in index.queue.requests.values():
        if request.job_id in behind:
            continue  # under a policy that lets nobody pass, its own tenant's first is who has the right
        within = any(
            index.accounts.within_quota(request, request.learners_min, kind) for kind in index.rooms.kinds(request)
        )
        others = [one for one in beyond if one.tenant != request.tenant]
        if not within or not others or request.job_id in index.reservations or leaving:
            continue
        loosest = index.policy.loosest(request)
        if best_start(index, request, loosest) is not None:
            continue  # it waits only to be allowed farther apart
        with index.without(*others):
            assert best_start(index, request, loosest, borrow=False) is None, (request, others)


@settings(max_examples=120, deadline=None)
@given(nodes_drawn, tenants_drawn, jobs_drawn, policies_drawn)
def test_capacity_and_quota_hold_at_every_moment_and_whoever_can_start_does(nodes, tenants, jobs, policy):
    idle = Index(tenants, policy, Snapshot(tuple(nodes)), (), START)

    def check(index: Index, now: datetime, so_far: Replay) -> None:
        check_capacity(index)
        check_quota_is_sure(index, now)

    result = replay(jobs, nodes, tenants, policy, stop_s=stop_s, on_pass=check)
    for job_id in result.unstarted:
        request = result.outcomes[job_id].job.request
        alone = best_start(idle, request, idle.policy.loosest(request))
        assert alone is None, f"{job_id} could have started once all others had ended"
    for outcome in result.outcomes.values():
        assert outcome.ended is None or outcome.preempted < 20, "no endless rounds"


@settings(max_examples=60, deadline=None)
@given(nodes_drawn, tenants_drawn, jobs_drawn, policies_drawn)
def test_the_same_stream_has_the_same_outcome(nodes, tenants, jobs, policy):
    first = replay(jobs, nodes, tenants, policy, stop_s=stop_s)
    again = replay(jobs, list(reversed(nodes)), dict(reversed(tenants.items())), policy, stop_s=stop_s)
    assert {one: out.ended for one, out in first.outcomes.items()} == {
        one: out.ended for one, out in again.outcomes.items()
    }


@settings(max_examples=150, deadline=None)
@given(nodes_drawn, jobs_drawn)
def test_backfill_never_delays_a_gang_for_which_places_are_reserved(nodes, jobs):
    """It starts no later than when those have ended who held its places as they were reserved, whoever came since."""
    tenants = limits(*(Limits(name, {"V100": 99, "K80": 99}) for name in "abc"))
    jobs = [replace(one, request=replace(one.request, priority=0)) for one in jobs]
    policy = Policy(reserve_after_s=30.0, level=Level.CLUSTER, relax_s=None)
    first: dict[str, tuple[datetime, set[str]]] = {}

    def note(index: Index, now: datetime, so_far: Replay) -> None:
        for kept in index.reservations.values():
            places = {place.node for place in kept.placements}
            holders = {one.job_id for one in index.grants.values() if places & {place.node for place in one.placements}}
            first.setdefault(kept.job_id, (now, holders))

    result = replay(jobs, nodes, tenants, policy, on_pass=note)
    for job_id, (moment, holders) in first.items():
        ends = [result.outcomes[holder].ended for holder in holders]
        assert result.outcomes[job_id].started <= max([moment, *ends])


def test_a_large_gang_starts_within_a_bound_amid_an_endless_stream_of_small_ones():
    """Pitfall 19. Small jobs keep every GPU busy; without a reservation the large one starves as long as they come."""
    tenants = limits(Limits("a", {"V100": 16}), Limits("b", {"V100": 16}))
    nodes = [node("n1", gpus=8), node("n2", gpus=8)]
    small = [SimJob(gang(f"s{number:05}", tenant="b", at=number * 5, cpus=0.1), 100.0) for number in range(1600)]
    large = SimJob(gang("large", 2, 8, tenant="a", at=200, cpus=0.1), 100.0)
    started = {}
    for reserve in (600.0, None):
        policy = Policy(reserve_after_s=reserve, relax_s=None)
        result = replay([*small, large], nodes, tenants, policy)
        started[reserve] = result.outcomes["large"].started - START
    assert started[600.0] <= timedelta(seconds=200 + 600 + 100), "its age, then one job's length"
    assert started[None] > timedelta(seconds=8000), "the stream's whole length"


def test_a_tenants_thousand_jobs_do_not_keep_another_from_its_quota_longer_than_the_grace():
    tenants = limits(Limits("a", {"V100": 8}, cohort="c"), Limits("b", {"V100": 8}, cohort="c"))
    nodes = [node("n1", gpus=8), node("n2", gpus=8)]
    many = [SimJob(gang(f"m{number:04}", tenant="b", at=0, cpus=0.1), 1000.0) for number in range(1000)]
    mine = SimJob(gang("mine", 1, 8, tenant="a", at=50, cpus=0.1), 10.0)
    result = replay([*many, mine], nodes, tenants, Policy(), stop_s=lambda request: 7.0)
    assert result.outcomes["mine"].waited_s == 7.0
    assert sum(one.preempted for one in result.outcomes.values()) == 8
