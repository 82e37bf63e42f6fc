"""Which arms are up together, which rounds save, and what is read from a program that runs to its end. Pure."""

from __future__ import annotations

import pytest

from ffdl_ops.core.errors import UserError
from ffdl_ops.lab.bench.overhead.records import Arm
from ffdl_ops.lab.bench.overhead.rounds import groups_of, spread
from ffdl_ops.lab.bench.overhead.whole import measured, read_by_pattern

EVERY = list(Arm)


@pytest.mark.parametrize("places", [None, 5, 8])
def test_arms_that_have_their_gpus_at_once_are_one_group(places: int | None) -> None:
    assert groups_of(EVERY, places) == [EVERY]


@pytest.mark.parametrize("places", [2, 3, 4])
def test_where_they_have_not_the_platforms_arm_is_in_every_group(places: int) -> None:
    groups = groups_of(EVERY, places)
    assert len(groups) > 1 and all(Arm.PLATFORM in group for group in groups)
    assert [arm for group in groups for arm in group if arm in (Arm.BARE, Arm.BARE_AGAIN, Arm.SHARED)] == [
        Arm.BARE, Arm.BARE_AGAIN, Arm.SHARED,
    ]  # fmt: skip
    assert {arm for group in groups for arm in group} == set(EVERY)
    for group in groups:
        assert len([arm for arm in group if arm not in (Arm.BARE, Arm.BARE_AGAIN, Arm.SHARED)]) <= places
    assert Arm.PLATFORM in groups[0] and Arm.SHARED in groups[0]  # they are one job


@pytest.mark.parametrize(("arms", "places"), [(EVERY, 1), (EVERY, 0), ([Arm.POD], 0)])
def test_a_cluster_without_room_for_two_is_refused(arms: list[Arm], places: int) -> None:
    with pytest.raises(UserError, match=f"^arms: .*can have {places} times what one needs"):
        groups_of(arms, places)


def test_bare_arms_need_no_place() -> None:
    assert groups_of([Arm.BARE, Arm.BARE_AGAIN], 0) == [[Arm.BARE, Arm.BARE_AGAIN]]


@pytest.mark.parametrize(("rounds", "saves"), [(1, 0), (1, 1), (6, 2), (5, 5), (12, 1)])
def test_rounds_that_save_are_spread_among_the_others(rounds: int, saves: int) -> None:
    found = spread(rounds, saves)
    assert (len(found), sum(found)) == (rounds + saves, saves)
    assert not found[0] or rounds < saves


def test_the_last_line_of_our_program_is_read() -> None:
    last = "measured images=160 elapsed_s=8.5 cpu_s=8.1 data_wait_s=0.2 save_s=0 saves=0 peak_rss_bytes=123 images_per_sec=18.8"
    lines = ["step=3 loss=0.5 images_per_sec=12.5", "measured images=80 elapsed_s=4.0", f"[learner 1] {last}", "bye"]
    found = measured(lines)
    assert (found["images"], found["elapsed_s"], found["peak_rss_bytes"]) == (160, 8.5, 123)
    assert measured(["nothing", ""]) == {}


def test_a_users_figures_are_read_without_those_of_the_warm_up() -> None:
    lines = [f"[1] {rate} img/s" for rate in (1, 1, 10, 10, 20, 20)]
    turn = read_by_pattern(lines, r"([\d.]+) img/s")
    assert turn is not None and turn.steps == 4 and turn.images_per_s == pytest.approx(15)
    assert read_by_pattern(lines, r"([\d.]+) frames") is None
    assert read_by_pattern(["0 img/s"], r"([\d.]+) img/s") is None
