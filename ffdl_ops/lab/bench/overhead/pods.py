"""The arm `pod`: the program in a plain KubernetesPodOperator, by the DAG `bench_plain_pod`.

Its data is the same as a job's: the objects are staged into the tenant's cache by the same helper, in an init container that ends
before the program starts, and mounted in the same way. So no arm reads from another place, or another copy, than the others.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.cluster.plain import BASE, RUN_LABEL
from ffdl_ops.lab.bench.overhead.arms import RunArm, environment_of
from ffdl_ops.lab.bench.overhead.started import StartedRun

if TYPE_CHECKING:
    from ffdl_ops.core.jobs.manifest import Manifest

__all__ = ["PLAIN_DAG", "PodArm"]

PLAIN_DAG = "bench_plain_pod"
_LIMIT_S = 6 * 3600


@dataclass
class PodArm(RunArm):
    """A run of the plain DAG.

    :param rank: of several learners, which one.
    """

    rank: int | None = None

    def start(self, command: str, environment: dict[str, str] | None = None) -> None:
        """Trigger the run.

        :param environment: of this learner alone.
        """
        one = self.setting.configuration
        self._begin({
            "command": _with(environment, command), "cpus": str(one.threads), "memory": self.setting.memory, "gpus": one.gpus,
            "gpu_type": one.gpu_type, "data": self.setting.data,
        }, environment_of(one))  # fmt: skip

    def submit(self, manifest: Manifest, environment: dict[str, str]) -> None:
        """Trigger the run for a user's program: what its manifest says, without the platform.

        :param environment: of this learner alone.
        """
        store = manifest.data_stores[0].training_data if manifest.data_stores else None
        self._begin({
            "command": _with(environment, manifest.framework.command), "cpus": str(manifest.cpus),
            "memory": manifest.memory, "gpus": manifest.gpus, "gpu_type": manifest.gpu_type,
            "data": store.container if store else None, "code": manifest.code, "example": manifest.example,
        }, manifest.env)  # fmt: skip

    def _begin(self, conf: dict[str, Any], variables: Mapping[str, str]) -> None:
        setting = self.setting
        run_id = f"{setting.name}-{self.arm}" + (f"-{self.rank}" if self.rank is not None else "")
        self.run = StartedRun(PLAIN_DAG, run_id, setting.namespace, f"{RUN_LABEL}={run_id}")
        lines = "\n".join(f"{name}={value}" for name, value in variables.items())
        given = {"tenant": setting.tenant, "image": setting.image, "env": lines, "limit_seconds": _LIMIT_S, **conf}
        self.trigger({name: value for name, value in given.items() if value is not None})

    def log(self) -> str:
        """The end of what it has printed, and why its task failed if it did."""
        return self.tail(BASE, "pod")

    def whole_log(self) -> list[str]:
        """All lines, once the run has ended."""
        return self.setting.airflow.task_log(self.run.dag_id, self.run.run_id, "pod").splitlines()


def _with(environment: Mapping[str, str] | None, command: str) -> str:
    """A command that sets variables itself: those of the rendezvous are the platform's, which no manifest may set."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in (environment or {}).items()) + command
