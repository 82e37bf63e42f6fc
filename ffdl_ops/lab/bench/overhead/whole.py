"""Arms that run from their start to their end, in random order, one after the other: one turn (of round 0) for each.

For several learners, for real GPUs and clusters, and for a user's own program, whose throughput is read from what it prints.
"""

from __future__ import annotations

import random
import re
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from ffdl_ops.adapters.ports import free_ports
from ffdl_ops.core.errors import TemporaryError, UserError
from ffdl_ops.core.failures.classes import FailureClass
from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.core.tenancy.defaults import with_defaults
from ffdl_ops.lab.bench.overhead.arms import Running, Setting, command_of, shown
from ffdl_ops.lab.bench.overhead.bare import BareArm
from ffdl_ops.lab.bench.overhead.jobs import JobArm
from ffdl_ops.lab.bench.overhead.pods import PodArm
from ffdl_ops.lab.bench.overhead.records import Arm, ArmRun, Turn
from ffdl_ops.lab.bench.overhead.turns import ArmFailed
from ffdl_ops.pod.learner.environment import Peer, rendezvous_variables

__all__ = ["measure", "measured", "read_by_pattern"]

_WARM_UP_STEPS = 5
_SETTLING = 1 / 3
"""So much of what a user's program prints belongs to its warm-up."""
_LOOK_S = 0.5
_LIMIT_S = 1800.0


def measure(
    setting: Setting, arms: Sequence[Arm], rng: random.Random, train_s: float, say: Callable[[str], None]
) -> list[ArmRun]:
    """Run each arm once, in random order.

    :param train_s: seconds that our own program trains after its warm-up; a user's program ends by itself.
    :raises ArmFailed: for the first that fails, with the end of its log.
    :raises UserError: for an arm that can't be had here.
    """
    _check(setting, arms)
    order = list(arms)
    rng.shuffle(order)
    found = {}
    for arm in order:
        began = time.monotonic()
        found[arm] = _run(setting, arm, train_s)
        say(f"{arm}: {found[arm].turns[0].images_per_s:.2f} images/s ({time.monotonic() - began:.0f} s in all)")
    return [found[arm] for arm in arms]


def measured(lines: Iterable[str]) -> dict[str, float]:
    """The figures of our program's last line, ``measured images=… elapsed_s=…``; empty without one."""
    figures: dict[str, float] = {}
    for line in lines:
        _, mark, rest = line.partition("measured images=")
        if mark:
            pairs = (word.partition("=") for word in f"images={rest}".split())
            figures = {name: float(value) for name, is_pair, value in pairs if is_pair}
    return figures


def read_by_pattern(lines: Iterable[str], pattern: str) -> Turn | None:
    """What a program that prints its throughput has done: the mean of the last two thirds of what the pattern finds.

    :param pattern: its first group is images per second.
    :returns: a turn of as many seconds as there were figures; ``None`` when there is none.
    """
    search = re.compile(pattern).search
    rates = [float(match.group(1)) for line in lines if (match := search(line))]
    counted = [rate for rate in rates[round(len(rates) * _SETTLING) :] if rate > 0]
    if not counted:
        return None
    images = max(1, round(statistics.fmean(counted) * len(counted)))
    return Turn(round=0, images=images, elapsed_s=images / statistics.fmean(counted), steps=len(counted))


def _check(setting: Setting, arms: Sequence[Arm]) -> None:
    one = setting.configuration
    if one.manifest is not None and (one.pattern is None or _groups_of(one.pattern) < 1):
        raise UserError(
            f"pattern: {one.pattern!r} must be a regular expression whose first group is images per second."
        )
    here = setting.training is not None
    for arm in arms:
        if arm in (Arm.BARE, Arm.BARE_AGAIN) and (not here or one.manifest is not None or one.gpus):
            why = "a user's program" if one.manifest is not None else "GPUs" if here else "a cluster of other machines"
            raise UserError(f"arms: {arm} can't be had with {why}: leave it out, and compare with {Arm.POD}.")
        if arm is Arm.POD and one.learners > 1 and not here:
            raise UserError(
                f"arms: {arm} with {one.learners} learners can be had on the embedded cluster alone: leave it out."
            )
        if arm is Arm.SHARED:
            raise UserError(f"arms: {arm} is measured by turns alone: leave it out.")


def _groups_of(pattern: str) -> int:
    try:
        return re.compile(pattern).groups
    except re.error as error:
        raise UserError(f"pattern: {pattern!r} is no regular expression: {error}.") from None


def _run(setting: Setting, arm: Arm, train_s: float) -> ArmRun:
    one = setting.configuration
    command = command_of(setting, arm, "--warm-up-steps", str(_WARM_UP_STEPS), "--seconds", f"{train_s:g}")
    if arm not in (Arm.BARE, Arm.BARE_AGAIN, Arm.POD):
        job = JobArm(setting, arm)
        job.submit(_of_user(setting, arm) if one.manifest is not None else job.manifest(command))
        _await([job], train_s)
        return ArmRun(arm, (_turn(setting, arm, [job.whole_log()]),), where=job.where)
    ranks = _ranks(one.learners)
    kind = PodArm if arm is Arm.POD else BareArm
    each: list[Any] = [kind(setting, arm, *([rank] if one.learners > 1 else [])) for rank in range(one.learners)]
    with ExitStack() as stack:
        for single, environment in zip(each, ranks, strict=True):
            if isinstance(single, BareArm):
                stack.callback(single.kill)
            elif one.manifest is not None:
                single.submit(with_defaults(load_manifest(one.manifest), setting.settings.tenants[setting.tenant],
                                            setting.settings.platform), environment)  # fmt: skip
                continue
            single.start(command, environment)
        _await(each, train_s)
        return ArmRun(arm, (_turn(setting, arm, [single.whole_log() for single in each]),), where=each[0].where)


def _await(each: Sequence[Running], train_s: float) -> None:
    """Wait until all have ended.

    :raises ArmFailed: for one that failed, or hangs.
    """
    deadline = time.monotonic() + _LIMIT_S + train_s
    for one in each:
        while one.problem() is None:
            if time.monotonic() > deadline:
                raise ArmFailed(str(one.arm), f"it has not ended within {_LIMIT_S + train_s:.0f} s{shown(one)}")
            time.sleep(_LOOK_S)
        try:
            one.await_end()
        except TemporaryError as error:
            raise ArmFailed(str(one.arm), f"{error}{shown(one)}") from None


def _turn(setting: Setting, arm: Arm, logs: Sequence[Sequence[str]]) -> Turn:
    """All learners together: their images, in the time of the slowest."""
    one = setting.configuration
    if one.pattern is not None and one.manifest is not None:
        turn = read_by_pattern([line for log in logs for line in log], one.pattern)
        if turn is None:
            raise ArmFailed(str(arm), f"nothing that it has printed matches the pattern {one.pattern!r}{_end(logs)}")
        return turn
    # A job's learners are in one log, each with its own last line.
    lines = [line for log in logs for line in log if "measured images=" in line]
    figures = [found for line in lines if (found := measured([line])) and found.get("elapsed_s", 0) > 0]
    if len(figures) != one.learners:
        raise ArmFailed(str(arm), f"{len(figures)} of {one.learners} learners have told what they measured{_end(logs)}")
    total = lambda name: sum(found.get(name, 0.0) for found in figures)  # noqa: E731
    return Turn(
        round=0, images=int(total("images")), elapsed_s=max(found["elapsed_s"] for found in figures),
        steps=int(max(found.get("steps", 0) for found in figures)), saves=int(total("saves")), cpu_s=total("cpu_s"),
        data_wait_s=max(found.get("data_wait_s", 0.0) for found in figures),
        save_s=max(found.get("save_s", 0.0) for found in figures),
    )  # fmt: skip


def _end(logs: Sequence[Sequence[str]]) -> str:
    return ". The end of its log:\n" + "\n".join(line for log in logs for line in log[-10:])


def _of_user(setting: Setting, arm: Arm) -> Mapping[str, Any]:
    """A user's manifest for one arm: tried once, without a trial run before."""
    manifest = dict(setting.configuration.manifest or {})
    manifest |= {"preflight": {"enabled": False}, "retry": {cls.value: 0 for cls in FailureClass}}
    if arm is Arm.NO_CHECKPOINT:
        framework = dict(manifest.get("framework") or {})
        command = load_manifest(manifest).framework.command
        manifest["framework"] = {**framework, "command": f"unset CHECKPOINT_DIR\n{command}"}
    return manifest


def _ranks(learners: int) -> list[dict[str, str]]:
    """What learners outside a job find each other by, all on this machine: in the words of a job's."""
    if learners == 1:
        return [{}]
    peers = [Peer(rank, "127.0.0.1", port) for rank, port in enumerate(free_ports(learners))]
    return [{**rendezvous_variables(rank, peers), "GLOO_SOCKET_IFNAME": "lo"} for rank in range(learners)]
