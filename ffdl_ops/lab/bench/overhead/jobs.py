"""The arms that are jobs of this platform: `train__<tenant>` with a manifest, whole or with one feature left out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ffdl_ops.adapters.cluster.gang import LEARNER, gang_selector
from ffdl_ops.core.errors import FfdlError
from ffdl_ops.core.failures.classes import FailureClass
from ffdl_ops.core.jobs.ids import dag_id, job_id
from ffdl_ops.lab.bench.overhead.arms import RunArm, environment_of
from ffdl_ops.lab.bench.overhead.records import Arm
from ffdl_ops.lab.bench.overhead.started import StartedRun

__all__ = ["LEFT_OUT", "JobArm"]

LEFT_OUT: Mapping[Arm, Mapping[str, Any]] = {
    Arm.NO_SIDECAR: {"checkpoint": {"enabled": False}},
    Arm.NO_FOLLOW: {"monitor": {"enabled": False}},
}
"""What the manifest of an arm says beside that of `Arm.PLATFORM`; `Arm.NO_CHECKPOINT` differs in its command."""


@dataclass
class JobArm(RunArm):
    """A job."""

    job: str = field(init=False)

    @property
    def where(self) -> dict[str, str]:
        """What finds it again."""
        return {**super().where, "job_id": self.job}

    def start(self, command: str) -> None:
        """Trigger the tenant's DAG."""
        self.submit(self.manifest(command))

    def submit(self, manifest: Mapping[str, Any]) -> None:
        """Trigger it with a manifest, of which this arm's feature is taken out."""
        dag, run_id = dag_id(self.setting.tenant), f"{self.setting.name}-{self.arm}"
        self.job = job_id(dag, run_id)
        self.run = StartedRun(dag, run_id, self.setting.namespace, gang_selector(self.job))
        text = json.dumps({**manifest, **LEFT_OUT.get(self.arm, {})})  # JSON is YAML
        self.trigger({"manifest": text})

    def manifest(self, command: str) -> dict[str, Any]:
        """The manifest of our program. It is not started again: a failure ends the pair, with its reason."""
        one = self.setting.configuration
        data = [{"id": "data", "type": "mount_cos", "training_data": {"container": self.setting.data}}]
        return {
            "name": f"{one.model} {self.arm}",
            "framework": {"name": one.framework, "image": self.setting.image, "command": command},
            "learners": one.learners, "gpus": one.gpus, **({"gpu_type": one.gpu_type} if one.gpu_type else {}),
            "cpus": str(one.threads), "memory": self.setting.memory, "env": environment_of(one),
            **({"data_stores": data} if self.setting.data else {}),
            "preflight": {"enabled": False}, "retry": {cls.value: 0 for cls in FailureClass},
        }  # fmt: skip

    def problem(self) -> str | None:
        """Whether its run has ended, and why its job failed."""
        known = super().problem()
        return f"{known}; {self._failure()}" if known else None

    def log(self) -> str:
        """The job's state, and the end of what its learners have printed."""
        return f"({self._failure()})\n{self.tail(LEARNER, 'learners')}"

    def whole_log(self) -> list[str]:
        """All lines of all learners, once the job has ended."""
        store, bucket = self._store()
        lines: list[str] = []
        for one in store.list(bucket, f"jobs/{self.job}/logs/attempt-1/"):
            if one.key.endswith(".log") and "/learner-" in one.key:
                lines += store.lines(bucket, one.key)
        return lines

    def uploaded(self) -> int:
        """Its whole checkpoints in the store."""
        from ffdl_ops.adapters.storage.checkpoints import list_generations

        store, bucket = self._store()
        return max((one.number for one in list_generations(store, bucket, self.job) if one.complete), default=0)

    def await_end(self) -> None:
        """Wait for the job's end; its checkpoints are of no use to anybody, and are removed."""
        try:
            super().await_end()
        finally:
            store, bucket = self._store()
            store.delete_many(bucket, [one.key for one in store.list(bucket, f"jobs/{self.job}/checkpoints/")])

    def _store(self) -> tuple[Any, str]:
        from ffdl_ops.adapters.storage.store import ObjectStore

        settings, tenant = self.setting.settings, self.setting.tenant
        return ObjectStore(settings.store_config(tenant)), settings.tenants[tenant].bucket

    def _failure(self) -> str:
        from ffdl_ops.adapters.ledger import Ledger

        ledger = Ledger(self.setting.settings.ledger_url)
        try:
            record = ledger.job(self.job)
        except FfdlError as error:
            return f"the ledger can't be asked: {error}"
        finally:
            ledger.close()
        if record is None:
            return f"job {self.job} was never stored: see the log of its stage `plan`"
        return f"job {self.job} is {record.state}" + (f": {record.failure.get('summary')}" if record.failure else "")
