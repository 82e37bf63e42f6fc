"""Replays of the Philly trace that others have published (Hu et al., "Helios", SC'21; artifact's QSSF notebook).

One virtual cluster alone on eight-GPU nodes, consolidated placement, the queue blocks at its head.
"""

from __future__ import annotations

import pytest

from ffdl_ops.core.scheduling.policy import Order, Policy
from ffdl_ops.lab.simulate.compare import SimTenant, stops_for, strictly
from ffdl_ops.lab.simulate.replay import replay
from ffdl_ops.lab.simulate.results import Replay
from ffdl_ops.lab.traces.gangs import KIND, equal_nodes
from tests.support.traces import replayed_jobs

VC, NODES = "7f04ca", 32


def replayed(order: Order) -> Replay:
    jobs = replayed_jobs(VC)
    assert len(jobs) == 1_098
    return replay(
        jobs,
        equal_nodes(NODES),
        {VC: SimTenant(VC, {KIND: 8 * NODES})},
        strictly(Policy(order)),
        stop_s=stops_for(7, 30, 60),
    )


@pytest.mark.parametrize(("order", "completion_s", "wait_s"), [(Order.FIFO, 133_826, 1_412), (Order.SJF, 133_271, 857)])
def test_completion_and_queueing_are_as_published(order, completion_s, wait_s):
    result = replayed(order)
    assert result.unstarted == []
    assert result.mean_completion_s() == pytest.approx(completion_s, abs=1)
    assert result.mean_wait_s() == pytest.approx(wait_s, abs=1)
    assert result.preemptions == 0


def test_with_preemption_completion_is_near_the_published_one():
    """Ours stops the fewest jobs for a gang, which the published replay does not say of itself."""
    result = replayed(Order.SRTF)
    assert result.unstarted == []
    assert result.mean_completion_s() == pytest.approx(132_980, rel=0.01)
    assert result.preemptions > 0


def test_what_is_held_in_all_is_what_the_jobs_ran():
    result = replayed(Order.FIFO)
    ran = sum(one.job.duration_s * one.job.request.gpus * one.job.request.learners_min for one in result.outcomes.values())
    assert result.busy_gpu_s == pytest.approx(ran)
