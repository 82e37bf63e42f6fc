"""What a tenant may hold at once."""

from __future__ import annotations

from ffdl_ops.core.scheduling.decide import decide
from ffdl_ops.core.scheduling.decisions import Admit, Holder, Wait, WaitCause
from ffdl_ops.core.scheduling.model import GangRequest, Grant, Snapshot
from ffdl_ops.core.scheduling.reasons import wait_words
from ffdl_ops.core.tenancy.tenants import Tenants
from tests.support.gangs import FIFO, GIB, START, Limits, gang, grant, limits, node

NODES = (node("n1", gpus=8), node("n2", gpus=8), node("k1", "K80", gpus=8))


def all_of(queue: list[GangRequest], tenant: Limits, grants: tuple[Grant, ...] = ()) -> dict[str, Admit | Wait]:
    """The decisions by job."""
    decisions = decide(Snapshot(NODES, grants), queue, limits(tenant), FIFO, START)
    return {decision.job_id: decision for decision in decisions}


def test_a_gang_beyond_the_quota_waits_though_gpus_are_free():
    """Pitfall 14: what is held and what is needed are shown; nothing fails."""
    tenant = Limits("a", {"V100": 4})
    wait = all_of([gang("j", 3, 1)], tenant, (grant("x", ["n1", "n1"]),))["j"]
    assert isinstance(wait, Wait)
    assert wait.cause is WaitCause.QUOTA
    assert wait.holders == (Holder("x", "a", 2),)
    assert (wait.numbers["limit"], wait.numbers["held"], wait.numbers["needed"]) == (4, 2, 3)
    assert "2 of 4 V100 GPUs are held and 3 are needed" in wait_words(wait)
    assert "x of a (2 GPU, ann)" in wait_words(wait)


def test_a_type_that_the_quota_does_not_name_is_none():
    wait = all_of([gang("j", gpu_type="K80")], Limits("a", {"V100": 8}))["j"]
    assert isinstance(wait, Wait)
    assert wait.cause is WaitCause.QUOTA
    assert "never starts unless an admin raises it" in wait_words(wait)


def test_what_other_tenants_hold_is_not_counted():
    grants = (grant("x", ["n1"] * 4, tenant="b"),)
    assert isinstance(all_of([gang("j", 4, 1)], Limits("a", {"V100": 4}), grants)["j"], Admit)


def test_gangs_of_one_pass_share_the_quota():
    decisions = all_of([gang("j1", 3, 1, at=1), gang("j2", 3, 1, at=2)], Limits("a", {"V100": 4}))
    assert isinstance(decisions["j1"], Admit)
    assert isinstance(decisions["j2"], Wait)


def test_any_type_goes_to_the_type_that_the_quota_allows():
    decision = all_of([gang("j", 4, 1, gpu_type=None)], Limits("a", {"K80": 4, "V100": 3}))["j"]
    assert isinstance(decision, Admit)
    assert decision.gpu_type == "K80"


def test_an_elastic_gang_is_cut_to_the_quota():
    decision = all_of([gang("j", (1, 8), 2)], Limits("a", {"V100": 7}))["j"]
    assert isinstance(decision, Admit)
    assert len(decision.placements) == 3


def test_running_jobs_cpu_and_memory_are_limited_too():
    held = (grant("x", ["n1"], cpus=4, gib=4),)
    for tenant, words in (
        (Limits("a", {"V100": 8}, max_running=1), "1 of 1 running jobs"),
        (Limits("a", {"V100": 8}, cpu_quota_millis=4500), "4 of 4.5 CPU cores"),
        (Limits("a", {"V100": 8}, memory_quota_bytes=4 * GIB), "4 of 4 GiB of memory"),
    ):
        wait = all_of([gang("j")], tenant, held)["j"]
        assert isinstance(wait, Wait)
        assert wait.cause is WaitCause.QUOTA
        assert words in wait_words(wait)
        assert wait.holders == (Holder("x", "a", 1),)


def test_a_tenant_that_is_configured_no_more_gets_nothing_and_is_told():
    wait = all_of([gang("j", tenant="gone")], Limits("a", {"V100": 8}))["j"]
    assert isinstance(wait, Wait)
    assert wait.cause is WaitCause.QUOTA
    assert "Tenant gone is not in the tenants' configuration" in wait_words(wait)


def test_a_configured_tenant_is_kept_to_all_its_limits():
    for limit, words in (
        ({"cpu_quota": "1500m"}, "1 of 1.5 CPU cores"),
        ({"memory_quota": "1Gi"}, "1 of 1 GiB of memory"),
        ({"max_running": 1}, "1 of 1 running jobs"),
    ):
        tenants = Tenants.load({"tenants": [{"name": "a", "gpu_quota": {"V100": 8}, **limit}]})
        snapshot = Snapshot(NODES, (grant("x", ["n1"]),))
        (wait,) = decide(snapshot, [gang("j")], {tenant.name: tenant for tenant in tenants}, FIFO, START)
        assert isinstance(wait, Wait)
        assert words in wait_words(wait)
