"""The arms of a pair by turns: all are up, one trains, the others are stopped; neighbouring turns are compared.

A turn that saves goes on until its checkpoint is taken up, so that all that it costs is in it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ffdl_ops.core.errors import FfdlError, TemporaryError, UserError
from ffdl_ops.lab.bench.overhead import machine
from ffdl_ops.lab.bench.overhead.arms import SAVES_NOTHING, Running, Setting, command_of, shown
from ffdl_ops.lab.bench.overhead.bare import BareArm
from ffdl_ops.lab.bench.overhead.cpus import Partition
from ffdl_ops.lab.bench.overhead.jobs import JobArm
from ffdl_ops.lab.bench.overhead.pods import PodArm
from ffdl_ops.lab.bench.overhead.records import Arm, ArmRun, Turn
from ffdl_ops.lab.bench.overhead.turns import ArmFailed, Asked, Meeting

__all__ = ["by_turns", "groups_of", "spread"]

_START_S = 900.0
_PRACTICE = 0.25
"""So much of a turn is practised, to know how long a step takes."""
_FEWEST_STEPS = 2
_UPLOAD_TURNS = 8
_BARE = (Arm.BARE, Arm.BARE_AGAIN)


def by_turns(
    setting: Setting, partition: Partition, arms: Sequence[Arm], rng: random.Random, rounds: int, save_rounds: int,
    turn_s: float, say: Callable[[str], None],
) -> list[ArmRun]:  # fmt: skip
    """All arms by turns; in several groups, each with the platform's arm, where not all have GPUs at once."""
    found: dict[Arm, ArmRun] = {}
    first = 0
    for group in groups_of(arms, _places(setting)):
        running = {arm: _running(setting, arm) for arm in group if not (arm is Arm.SHARED and Arm.PLATFORM in group)}
        with Meeting() as meeting:
            one = _Group(setting, partition, running, Arm.SHARED in group and Arm.PLATFORM in group, meeting, turn_s)
            try:
                one.start(rng)
                one.practise()
                say(f"{', '.join(group)}: turns of {one.steps} steps")
                saves = spread(rounds, save_rounds)
                for number, save in enumerate(saves, start=first + 1):
                    one.round(number, rng, save=save)
                first += len(saves)
                runs = one.end()
            except ArmFailed as failed:
                raise ArmFailed(failed.arm, f"{failed.problem}{shown(running[Arm(failed.arm)])}") from None
            finally:
                for arm in running.values():
                    if isinstance(arm, BareArm):
                        arm.kill()
        for run in runs:
            known = found.get(run.arm)
            found[run.arm] = replace(known, turns=known.turns + run.turns) if known else run
        # The next group has other pods of the same names.
        setting = replace(setting, name=f"{setting.name}x")
    return [found[arm] for arm in arms]


def groups_of(arms: Sequence[Arm], places: int | None) -> list[list[Arm]]:
    """Arms that are up at the same time, when the cluster has places for so many of them; ``None`` is for all.

    :raises UserError: when there is no place for two, of which one is the platform's.
    """
    pods = [arm for arm in arms if arm not in _BARE and not (arm is Arm.SHARED and Arm.PLATFORM in arms)]
    if places is None or len(pods) <= places:
        return [list(arms)]
    if places < 1 or (Arm.PLATFORM in pods and places < 2):
        raise UserError(
            f"arms: {', '.join(pods)} need GPUs at the same time, and the tenant can have {places} times what one needs; "
            "measure fewer GPUs for each learner, or fewer arms."
        )
    common = [Arm.PLATFORM] if Arm.PLATFORM in pods else []
    others = [arm for arm in pods if arm not in common]
    room = places - len(common)
    groups = [common + others[at : at + room] for at in range(0, len(others), room)]
    groups[0] = [arm for arm in arms if arm not in pods] + groups[0]
    return groups


def _places(setting: Setting) -> int | None:
    """How many arms can have their GPUs at the same time; ``None`` without a limit."""
    from ffdl_ops.adapters.cluster.observe import node_view

    one = setting.configuration
    if not one.gpus:
        return None
    views = [node_view(node) for node in setting.cluster.nodes()]
    there = sum(view.gpus // one.gpus for view in views if view.usable and one.gpu_type in (None, view.gpu_type))
    most = setting.settings.tenants.most_gpus(setting.tenant)
    allowed = sum(count for kind, count in most.items() if one.gpu_type in (None, kind)) // one.gpus
    return min(there, allowed)


def _running(setting: Setting, arm: Arm) -> Running:
    if arm in _BARE:
        return BareArm(setting, arm)
    return PodArm(setting, arm) if arm is Arm.POD else JobArm(setting, arm)


@dataclass
class _Group:
    """Arms that are up at the same time, and what they have trained.

    :param shared: whether the platform's arm has turns as `Arm.SHARED` too.
    """

    setting: Setting
    partition: Partition
    running: dict[Arm, Running]
    shared: bool
    meeting: Meeting
    turn_s: float
    steps: int = 0
    number: int = 0
    turns: dict[Arm, list[Turn]] = field(default_factory=dict)

    def problem(self, arm: str) -> str | None:
        """Why nothing more will come of an arm."""
        return self.running[Arm(arm)].problem()

    def start(self, rng: random.Random) -> None:
        """Start all; each is stopped as soon as it has come."""
        order = list(self.running)
        rng.shuffle(order)
        flags = ["--turns", self.meeting.address, "--turns-token", self.meeting.token]
        for arm in order:
            self.running[arm].start(command_of(self.setting, arm, *flags, "--arm", str(arm)))
        self.meeting.wait_for(
            [str(arm) for arm in order],
            within_s=_START_S,
            problem=self.problem,
            met=self._pause,
        )

    def practise(self) -> None:
        """A short turn of each, which doesn't count; how many steps a turn has is taken from the first arm's."""
        for position, arm in enumerate(self.running):
            hello = self.meeting.players[str(arm)].hello
            guess = max(1, round(_PRACTICE * self.turn_s * hello.images_per_s / self.setting.configuration.batch))
            turn = self._play(arm, arm, 0, guess, save=False)
            if position == 0:
                self.steps = max(_FEWEST_STEPS, math.ceil(self.turn_s * turn.steps / turn.elapsed_s))

    def round(self, number: int, rng: random.Random, *, save: bool) -> None:
        """One turn of each arm; of those alone that save, when it is a save round."""
        order = [arm for arm in self.running if not (save and arm in SAVES_NOTHING)] + [Arm.SHARED] * (
            self.shared and not save
        )
        rng.shuffle(order)
        for arm in order:
            host = Arm.PLATFORM if arm is Arm.SHARED and self.shared else arm
            if arm is Arm.SHARED:
                self.partition.open()
            try:
                self.turns.setdefault(arm, []).append(self._play(arm, host, number, self.steps, save=save))
            finally:
                if arm is Arm.SHARED:
                    self.partition.close()

    def _pause(self, arm: str) -> None:
        """Stop an arm's processes.

        :raises ArmFailed: when it has none any more.
        """
        try:
            self.running[Arm(arm)].pause()
        except FfdlError as error:
            raise ArmFailed(arm, f"it can't be stopped for another's turn: {error}") from None

    def _play(self, arm: Arm, host: Arm, round_number: int, steps: int, *, save: bool) -> Turn:
        """One turn; one that saves goes on until the checkpoint is taken up, so that all it costs is in it."""
        running, images = self.running[host], self.setting.configuration.batch
        uploads = save and arm is not Arm.NO_SIDECAR
        before = running.uploaded() if uploads else 0
        try:
            running.resume()
            load = machine.Load(self.setting.training, running.pids) if self.setting.training else None
        except FfdlError as error:
            raise ArmFailed(str(host), f"it can't go on with its turn: {error}") from None
        limit = 60 + 20 * self.turn_s
        self.number += 1
        player = self.meeting.players[str(host)]
        turn = _turn(
            round_number, player.play(Asked(self.number, steps, images, save=save, limit_s=limit), self.problem)
        )
        for _ in range(_UPLOAD_TURNS if uploads and turn.saves else 0):
            if running.uploaded() > before:
                break
            self.number += 1
            asked = Asked(self.number, steps, images, settle=0, limit_s=limit)
            turn = _added(turn, _turn(round_number, player.play(asked, self.problem)))
        share = load.share() if load else None
        self._pause(str(host))
        return replace(turn, foreign=share.foreign, stolen=share.stolen) if share else turn

    def end(self) -> list[ArmRun]:
        """Let all end in their own way; what they have trained."""
        runs = []
        for arm, running in self.running.items():
            hello = self.meeting.players[str(arm)].hello
            peak = _peak_bytes(hello.pid) if self.setting.training else None
            runs.append(ArmRun(arm, tuple(self.turns.get(arm, ())), hello.start_s, peak, running.where))
            running.resume()
            self.meeting.players[str(arm)].end()
        if self.shared:
            of = next(run for run in runs if run.arm is Arm.PLATFORM)
            runs.append(replace(of, arm=Arm.SHARED, turns=tuple(self.turns.get(Arm.SHARED, ()))))
        for arm, running in self.running.items():
            try:
                running.await_end()
            except TemporaryError as error:
                raise ArmFailed(str(arm), str(error)) from None
        return runs


def spread(rounds: int, save_rounds: int) -> list[bool]:
    """The rounds in their order, those that save spread among the others."""
    total = rounds + save_rounds
    return [(at + 1) * save_rounds // total > at * save_rounds // total for at in range(total)]


def _turn(round_number: int, answer: dict[str, Any]) -> Turn:
    return Turn(round=round_number, **answer)


def _added(one: Turn, more: Turn) -> Turn:
    """Two stretches of one turn."""
    both = {
        name: getattr(one, name) + getattr(more, name) for name in ("images", "steps", "elapsed_s", "saves", "save_s")
    }
    for name in ("cpu_s", "data_wait_s"):
        values = (getattr(one, name), getattr(more, name))
        both[name] = None if None in values else sum(values)
    return replace(one, **both)


def _peak_bytes(pid: int | None) -> int | None:
    """Most memory that a process of this machine has had."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration, ValueError):
        return None
