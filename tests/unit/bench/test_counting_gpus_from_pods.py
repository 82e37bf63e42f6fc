"""GPUs counted from the cluster's own changes, and how long those waited that fitted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ffdl_ops.adapters.cluster.watching import PodChange
from ffdl_ops.core.platform import PlatformConfig
from ffdl_ops.core.tenancy.tenants import Tenants
from ffdl_ops.lab.bench.latencies import Started, fits_at, summary
from ffdl_ops.lab.bench.ownplatform import V100_NODES, configuration
from ffdl_ops.lab.bench.podbook import PodBook


def pod(name: str, gpus: int = 2, node: str = "n1", tenant: str = "red", at: float = 0.0) -> PodChange:
    return PodChange(f"ffdl-{tenant}", name, f"uid-{name}", f"job-{name}", 1, node, True, gpus, True, False, False, at)


def over(change: PodChange, at: float = 1.0) -> PodChange:
    return replace(change, running=False, ended=True, seen_at=at)


def book(*changes: PodChange, size: int = 4) -> PodBook:
    kept = PodBook({"n1": size, "n2": size})
    for change in changes:
        kept.note(change)
    return kept


def test_two_pods_that_fit_together_are_no_oversubscription() -> None:
    kept = book(pod("a"), pod("b"), pod("c", node="n2"))
    assert not kept.oversubscribed
    assert kept.peak_by_node == {"n1": 4, "n2": 2}
    assert kept.peak == 6


def test_one_gpu_too_many_is_told_with_the_pods() -> None:
    kept = book(pod("a"), pod("b"), pod("c", gpus=1, tenant="blue"))
    assert kept.oversubscribed
    assert kept.over == ["n1: 5 GPUs of 4 by ffdl-blue/c, ffdl-red/a, ffdl-red/b"]


def test_a_pod_that_waits_for_its_node_counts_as_promised() -> None:
    kept = book(pod("a", gpus=4), replace(pod("b", gpus=1), bound=False, running=False))
    assert kept.oversubscribed
    assert kept.bound_peak_by_node["n1"] == 4


@pytest.mark.parametrize("end", [over, lambda one: replace(one, removed=True)])
def test_what_is_over_or_gone_holds_nothing(end) -> None:  # type: ignore[no-untyped-def]
    first = pod("a", gpus=4)
    assert not book(first, end(first), pod("b", gpus=4)).oversubscribed


def test_the_order_counts_and_not_the_clock() -> None:
    first = pod("a", gpus=4, at=10.0)
    assert not book(first, over(first, at=10.0), pod("b", gpus=4, at=10.0)).oversubscribed
    assert book(first, pod("b", gpus=4, at=10.0), over(first, at=10.0)).oversubscribed


def test_gpus_of_tenants_at_one_moment() -> None:
    first = pod("a")
    kept = book(first, pod("b", tenant="blue"), over(first), pod("c", gpus=1))
    assert kept.peak_by_tenant == {"ffdl-red": 2, "ffdl-blue": 2}


def start(job: str, asked: float, granted: float, *nodes: str, gpus: int = 1) -> Started:
    return Started(job, 1, asked, granted, nodes, gpus, granted + 1, granted + 2)


def test_what_finds_its_places_free_fits_when_it_asks() -> None:
    assert fits_at([start("a", 5.0, 5.5, "n1")], {}, {"n1": 1}) == [(5.0, False)]


def test_what_waits_fits_when_the_last_of_its_places_is_free() -> None:
    starts = [
        start("a", 0.0, 0.1, "n1", gpus=2), start("b", 0.0, 0.2, "n2", gpus=2), start("c", 1.0, 9.0, "n1", "n2", gpus=2)
    ]  # fmt: skip
    ends = {"n1": [(7.0, 2)], "n2": [(8.5, 2)]}
    assert fits_at(starts, ends, {"n1": 2, "n2": 2})[2] == (8.5, True)


def test_the_place_that_is_free_longest_is_taken_first() -> None:
    starts = [
        start("a", 0.0, 0.0, "n1"),
        start("b", 0.0, 0.0, "n1"),
        start("c", 0.0, 6.0, "n1"),
        start("d", 0.0, 7.0, "n1"),
    ]
    found = fits_at(starts, {"n1": [(5.0, 1), (3.0, 1)]}, {"n1": 2})
    assert [at for at, _ in found[2:]] == [3.0, 5.0]


def test_a_summary_of_nothing_is_empty() -> None:
    assert summary([]) == {"n": 0, "median": None, "p90": None, "max": None}
    assert summary([1.0, 3.0, 2.0]) == {"n": 3, "median": 2.0, "p90": 3.0, "max": 3.0}


def test_the_benchmarks_own_configuration_is_a_right_one() -> None:
    files = configuration(("north", "east", "south", "west"), 2, (1, 2, 3, 4))
    tenants = Tenants.load(files["tenants.yaml"])
    PlatformConfig.load(files["platform.yaml"])
    assert sum(tenant.gpu_quota["V100"] for tenant in tenants) == sum(V100_NODES.values())
    assert tenants.most_gpus("north") == {"V100": 8}
