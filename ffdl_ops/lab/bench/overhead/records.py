"""What the overhead benchmark measures and keeps: plain values, as JSON and back. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["FEATURE_OF", "Arm", "ArmRun", "Configuration", "Pair", "Turn"]


class Arm(StrEnum):
    """One way of running the same program at the same resources."""

    BARE = "bare"
    """Started directly on the machine."""
    BARE_AGAIN = "bare-again"
    """Bare a second time: what differs from `BARE` is the noise floor."""
    POD = "pod"
    """A plain KubernetesPodOperator on the same cluster."""
    PLATFORM = "platform"
    """A job of ``train__<tenant>`` with everything on."""
    SHARED = "platform-shared-cpus"
    """The same, with the platform's own processes let onto the training's CPUs."""
    NO_SIDECAR = "platform-no-sidecar"
    """Without the checkpoint side-car."""
    NO_FOLLOW = "platform-no-follow"
    """Without the follower of logs and metrics."""
    NO_CHECKPOINT = "platform-no-checkpoint"
    """The program saves nothing."""


FEATURE_OF = {Arm.NO_SIDECAR: "side-car", Arm.NO_FOLLOW: "log follower", Arm.NO_CHECKPOINT: "checkpoints"}
"""What an arm leaves out of `Arm.PLATFORM`: the feature whose cost it shows."""


@dataclass(frozen=True)
class Configuration:
    """A point of the grid: a program and its resources.

    :param model: ``resnet50``, ``inception_v3``, ``vgg16``, ``tiny``; or the name of a user's program.
    :param framework: ``pytorch``, ``tensorflow``, or a user program's framework.
    :param gpu_type: as the cluster's nodes say; ``None`` asks for no GPU.
    :param gpus: for each learner.
    :param batch: images for each learner and step.
    :param image_size: pixels of an edge, as the model gets them.
    :param threads: CPU threads of each learner, for computing and for reading input.
    :param data: ``jpeg`` (shards staged from the object store, decoded in the loop) or ``memory``.
    :param checkpoint_every_s: how often a real job of this kind saves; what one checkpoint costs is spread over it.
    :param checkpoint_every_steps: save after so many steps in the measured loop itself; 0 doesn't.
    :param manifest: a user's program: its manifest; ``None`` for ours.
    :param pattern: a user's program: the regular expression whose first group is images per second in a printed line.
    """

    model: str
    framework: str
    gpu_type: str | None = None
    learners: int = 1
    gpus: int = 0
    batch: int = 8
    image_size: int = 64
    threads: int = 1
    data: str = "jpeg"
    checkpoint_every_s: float = 600.0
    checkpoint_every_steps: int = 0
    manifest: Mapping[str, Any] | None = None
    pattern: str | None = None

    @property
    def key(self) -> str:
        """The same for the same configuration, in every sweep; readable, and safe in names and tags."""
        gpus = f"{self.gpus}x{self.gpu_type}" if self.gpus else "cpu"
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:6]
        return (
            f"{self.model}-{self.framework}-{self.learners}x{gpus}-b{self.batch}-t{self.threads}-{self.data}-{digest}"
        )

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Configuration:
        """Back from JSON."""
        return cls(**value)


@dataclass(frozen=True)
class Turn:
    """A stretch of training in one arm. Seconds, and shares of the wall time of the CPUs that the arm is pinned to.

    :param round: turns of one round are neighbours in time: they are compared with each other.
    :param saves: checkpoints that were begun in it (its first is at its very start).
    :param cpu_s: processor time of the program.
    :param data_wait_s: time in which the loop waited for its next batch.
    :param save_s: time in which the loop stood still to save.
    :param foreign: share of the time that others than the arm's own processes used; ``None`` when it isn't known.
    :param stolen: share that the machine's host took away (steal).
    """

    round: int
    images: int
    elapsed_s: float
    steps: int
    saves: int = 0
    cpu_s: float | None = None
    data_wait_s: float | None = None
    save_s: float = 0.0
    foreign: float | None = None
    stolen: float | None = None
    started_at: float | None = None

    @property
    def images_per_s(self) -> float:
        """Throughput of the loop."""
        return self.images / self.elapsed_s


@dataclass(frozen=True)
class ArmRun:
    """A program's life in one arm: its start, and its turns.

    :param start_s: by step, seconds until it could take its first turn (``import``, ``build``, ``first_step``, …).
    :param peak_rss_bytes: most memory of the program.
    :param where: what finds it again (job id, DAG run id, pod, log).
    """

    arm: Arm
    turns: tuple[Turn, ...]
    start_s: Mapping[str, float] = field(default_factory=dict)
    peak_rss_bytes: int | None = None
    where: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Pair:
    """All arms of one configuration, started once and measured against each other.

    :param number: from 1, within the sweep and the configuration.
    :param seed: of the random order of the arms.
    :param machine: CPUs, load, clock and throttling, as found; for people and validity checks.
    :param started_at: seconds since the epoch.
    """

    configuration: Configuration
    number: int
    seed: int
    runs: tuple[ArmRun, ...]
    machine: Mapping[str, Any]
    started_at: float
    ended_at: float

    def run(self, arm: Arm) -> ArmRun | None:
        """That arm's run, if it was measured."""
        return next((one for one in self.runs if one.arm == arm), None)

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Pair:
        """Back from JSON."""
        runs = tuple(
            ArmRun(**{**run, "arm": Arm(run["arm"]), "turns": tuple(Turn(**turn) for turn in run["turns"])})
            for run in value["runs"]
        )
        return cls(**{**value, "configuration": Configuration.from_dict(value["configuration"]), "runs": runs})
