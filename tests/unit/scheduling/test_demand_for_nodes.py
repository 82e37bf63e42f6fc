"""What waits, as demand for nodes."""

from __future__ import annotations

import pytest

from ffdl_ops.core.scheduling.decisions import WaitCause
from ffdl_ops.core.scheduling.demand import demands
from tests.support.gangs import gang, later


def test_gangs_that_are_alike_are_one_shape() -> None:
    waiting = [
        (gang("a", 2, 4, gpu_type="V100", at=5), WaitCause.CAPACITY),
        (gang("b", 2, 4, gpu_type="V100", at=3), WaitCause.QUOTA),
        (gang("c", 1, 4, gpu_type="V100"), WaitCause.FRAGMENTATION),
        (gang("d", 1, 4, gpu_type="K80"), None),
    ]
    first, second, third = demands(waiting)
    assert (first.gangs, first.gpus, first.more_nodes, first.gpus_for_nodes, first.limits) == (2, 16, 1, 8, 1)
    assert first.oldest == later(3)
    assert (second.shape.learners, second.gpus_for_nodes) == (1, 4)
    assert (third.shape.gpu_type, third.unknown, third.more_nodes) == ("K80", 1, 0)


@pytest.mark.parametrize("cause", [None, *WaitCause])
def test_each_cause_is_counted_once(cause: WaitCause | None) -> None:
    (one,) = demands([(gang("a", 1, 1), cause)])
    assert one.more_nodes + one.behind_others + one.limits + one.unknown == one.gangs == 1
    assert bool(one.more_nodes) == (cause in ("capacity", "fragmentation"))
    assert bool(one.limits) == (cause in ("quota", "fair_share", "closed"))


def test_an_elastic_gang_asks_for_the_fewest_that_it_can_start_with() -> None:
    (one,) = demands([(gang("a", (2, 8), 1), WaitCause.CAPACITY)])
    assert (one.shape.learners, one.gpus) == (2, 2)


def test_a_gang_without_gpus_has_no_gpu_type() -> None:
    (one,) = demands([(gang("a", 3, 0, gpu_type="V100"), WaitCause.CAPACITY)])
    assert (one.shape.gpu_type, one.gpus_for_nodes, one.more_nodes) == (None, 0, 1)


def test_nothing_waits() -> None:
    assert demands([]) == []
