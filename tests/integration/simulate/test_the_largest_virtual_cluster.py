"""A whole large virtual cluster of the Philly trace."""

from __future__ import annotations

import pytest

from ffdl_ops.core.scheduling.policy import Order, Policy
from ffdl_ops.lab.simulate.compare import SimTenant, strictly
from ffdl_ops.lab.simulate.replay import replay
from ffdl_ops.lab.traces.gangs import KIND, equal_nodes
from tests.support.traces import replayed_jobs


@pytest.mark.slow
@pytest.mark.parametrize("order", [Order.FIFO, Order.FAIR])
def test_two_months_of_the_largest_virtual_cluster_are_replayed_to_the_end(order):
    jobs = replayed_jobs("6214e9")
    assert len(jobs) == 34_033
    tenants = {"6214e9": SimTenant("6214e9", {KIND: 8 * 64})}
    result = replay(jobs, equal_nodes(64), tenants, strictly(Policy(order)))
    assert result.unstarted == []
    assert result.ended == len(jobs)
    if order is Order.FIFO:
        # Not published; ours since the first release, so that a change of the engine is seen.
        assert result.mean_completion_s() == pytest.approx(5_777.7, abs=1)
        assert result.mean_wait_s() == pytest.approx(8.7, abs=1)
