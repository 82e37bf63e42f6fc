"""What the arms of a pair have in common: the program, its resources, and how an arm is started, paused and ended."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ffdl_ops.adapters.cluster.embedded import AdminClient
from ffdl_ops.core.errors import FfdlError, TemporaryError
from ffdl_ops.core.jobs.ids import namespace as namespace_of
from ffdl_ops.lab.bench.overhead.records import Arm
from ffdl_ops.lab.bench.overhead.started import Started, StartedRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ffdl_ops.adapters.airflow_api import AirflowApi
    from ffdl_ops.adapters.cluster.client import Cluster
    from ffdl_ops.adapters.settings import Settings
    from ffdl_ops.lab.bench.overhead.records import Configuration

__all__ = ["PROGRAM", "RunArm", "Running", "Setting", "command_of", "environment_of", "shown"]

PROGRAM = "python3 -m ffdl_ops.pod.workloads.images"
SAVES_NOTHING = frozenset({Arm.BARE, Arm.BARE_AGAIN, Arm.POD, Arm.NO_CHECKPOINT})
_STOP, _CONTINUE = 19, 18
_LOOK_S = 2.0
_END_S = 300.0
_TAIL = 40
_SHOWN = 2000


@dataclass(frozen=True)
class Setting:
    """Where and with what a pair is measured.

    :param name: of this pair, in run ids and labels: unique, short.
    :param memory: of each learner.
    :param data: ``bucket/prefix`` of the staged data; ``None`` for a program that reads none.
    :param program: how the program is called.
    :param training: the CPUs that the arms are on; ``None`` where the cluster decides.
    :param image: the image of the framework, by the platform's configuration.
    """

    settings: Settings
    configuration: Configuration
    tenant: str
    name: str
    memory: str
    data: str | None
    program: str
    training: tuple[int, ...] | None
    image: str
    airflow: AirflowApi
    cluster: Cluster
    started: Started
    admin: AdminClient | None = None

    @property
    def namespace(self) -> str:
        """The tenant's."""
        return namespace_of(self.tenant)


class Running(Protocol):
    """An arm, from its start to its end."""

    arm: Arm

    @property
    def where(self) -> Mapping[str, str]:
        """What finds it again."""

    def start(self, command: str) -> None:
        """Start the program."""

    def problem(self) -> str | None:
        """Why nothing more will come of it; ``None`` while it may."""

    def pause(self) -> None:
        """Stop all its processes until `resume`."""

    def resume(self) -> None:
        """Let them go on."""

    def pids(self) -> list[int]:
        """All its processes, where they are on this machine."""

    def log(self) -> str:
        """The end of what it has printed."""

    def await_end(self) -> None:
        """Wait until nothing of it is left, once its program was told to end.

        :raises TemporaryError: when it ended badly, or does not end.
        """

    def uploaded(self) -> int:
        """Whole checkpoints that were taken up."""


def command_of(setting: Setting, arm: Arm, *more: str) -> str:
    """The shell command of an arm: the same program with the same arguments in all."""
    one = setting.configuration
    words = [
        "--framework", one.framework, "--model", one.model, "--batch", str(one.batch), "--image-size", str(one.image_size),
        "--threads", str(one.threads), "--data", one.data, *more,
    ]  # fmt: skip
    if one.checkpoint_every_steps:
        words += ["--checkpoint-every-steps", str(one.checkpoint_every_steps)]
    # The shell is replaced, so that the program is who gets signals, and its parent's end.
    without = "env -u CHECKPOINT_DIR " if arm in SAVES_NOTHING else ""
    return f"exec {without}{setting.program} {shlex.join(words)}"


def environment_of(configuration: Configuration) -> dict[str, str]:
    """The program's own variables, the same in all arms."""
    return {"OMP_NUM_THREADS": str(configuration.threads)}


def shown(running: Running) -> str:
    """The end of an arm's log, for its failure's message."""
    try:
        log = running.log().strip()
    except (FfdlError, OSError, AttributeError) as error:  # it may not have been started
        return f"; its log can't be read ({type(error).__name__})"
    return f". The end of its log:\n{log[-_SHOWN:]}" if log else "; it has printed nothing"


@dataclass
class RunArm:
    """An arm that is a DAG run; pods and jobs build on it.

    :param setting: of the pair.
    :param arm: which.
    """

    setting: Setting
    arm: Arm
    run: StartedRun = field(init=False)
    _looked_at: float = field(init=False, default=0.0)
    _state: str | None = field(init=False, default=None)
    _pods: list[str] = field(init=False, default_factory=list)

    @property
    def where(self) -> dict[str, str]:
        """What finds it again."""
        return {"dag_id": self.run.dag_id, "run_id": self.run.run_id}

    def trigger(self, conf: Mapping[str, Any]) -> None:
        """Start the run, written down before."""
        self.setting.started.note_run(self.run)
        self.setting.airflow.trigger(self.run.dag_id, self.run.run_id, conf)

    def problem(self) -> str | None:
        """Whether its run has ended."""
        if time.monotonic() - self._looked_at >= _LOOK_S:
            self._looked_at = time.monotonic()
            self._state = self.setting.airflow.run_state(self.run.dag_id, self.run.run_id)
        return f"its run has ended ({self._state})" if self._state in ("success", "failed") else None

    def pods(self) -> list[str]:
        """Names of its pods."""
        found = self.setting.cluster.pods(self.run.namespace, self.run.selector)
        return sorted(pod.metadata.name for pod in found)

    def _known_pods(self) -> list[str]:
        """Its pods, asked for until there are some: an attempt has the same ones from its start to its end."""
        self._pods = self._pods or self.pods()
        return self._pods

    def pause(self) -> None:
        """Stop all processes of its pods, side-cars too."""
        self._signal(_STOP)

    def resume(self) -> None:
        """Let them go on."""
        self._signal(_CONTINUE)

    def pids(self) -> list[int]:
        """The processes of its pods, on the embedded cluster."""
        admin = self.setting.admin
        return (
            [pid for name in self._known_pods() for pid in admin.processes(self.run.namespace, name)] if admin else []
        )

    def uploaded(self) -> int:
        """None: what is no job has no checkpoints."""
        return 0

    def await_end(self) -> None:
        """Wait until the run has ended and its pods are gone.

        :raises TemporaryError: when it failed, or does not end.
        """
        deadline = time.monotonic() + _END_S
        while (state := self.setting.airflow.run_state(self.run.dag_id, self.run.run_id)) not in ("success", "failed"):
            if time.monotonic() > deadline:
                raise TemporaryError(f"run {self.run.run_id} of {self.run.dag_id} has not ended within {_END_S:.0f} s")
            time.sleep(_LOOK_S / 2)
        if state == "failed":
            raise TemporaryError(f"run {self.run.run_id} of {self.run.dag_id} has failed")
        while self.pods() and time.monotonic() < deadline:
            time.sleep(_LOOK_S / 4)

    def tail(self, container: str, task: str) -> str:
        """The end of what its pods have printed; of a pod that has gone, what its task has logged."""
        text = "".join(
            self.setting.cluster.pod_log(self.run.namespace, name, container=container, tail=_TAIL)
            for name in self.pods()
        )
        text = text or self.setting.airflow.task_log(self.run.dag_id, self.run.run_id, task)
        return "\n".join(text.splitlines()[-_TAIL:])

    def _signal(self, number: int) -> None:
        admin = self.setting.admin
        if admin is not None:
            for name in self._known_pods():
                admin.kill(self.run.namespace, name, signal=number)
