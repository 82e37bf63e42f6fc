"""Alibaba's GPU trace of 2023 (github.com/alibaba/clusterdata, cluster-trace-gpu-v2023): a table of pods, one of nodes.

Pods: ``name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec, qos, pod_phase, creation_time, deletion_time,
scheduled_time``; times are seconds since the trace began; ``scheduled_time`` is empty for a pod that never was placed;
``gpu_spec`` names the GPU models that it may run on, ``|`` between them, and is empty for any. Nodes: ``sn, cpu_milli,
memory_mib, gpu, model``.

A pod of less than one GPU (``gpu_milli`` below 1000) is replayed with a whole one: leases are for whole devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ffdl_ops.core.scheduling.model import GangRequest, NodeView
from ffdl_ops.lab.simulate.results import SimJob
from ffdl_ops.lab.traces.reading import Fields, csv_rows

__all__ = ["BEGIN", "NODE_COLUMNS", "POD_COLUMNS", "Pod", "pod_jobs", "read_nodes", "read_pods"]

POD_COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase",
    "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
BEGIN = datetime(2023, 1, 1, tzinfo=UTC)
"""The moment that the trace's second 0 is put at; the trace does not say when it was."""
TENANT = "openb"
_MIB = 2**20


@dataclass(frozen=True)
class Pod:
    """A pod as it was recorded.

    :param gpu_millis: thousandths of each GPU; 1000 unless it shares its one GPU with others.
    :param models: GPU models that it may run on; empty: any.
    :param scheduled_s: when it was placed; ``None``: never. All times in seconds since the trace began.
    """

    name: str
    cpu_millis: int
    memory_bytes: int
    gpus: int
    gpu_millis: int
    models: tuple[str, ...]
    qos: str
    phase: str
    created_s: int
    deleted_s: int
    scheduled_s: int | None


def read_pods(path: Path | str) -> list[Pod]:
    """All pods of the table, in its order."""
    return [_pod(row) for row in csv_rows(path, POD_COLUMNS)]


def read_nodes(path: Path | str) -> list[NodeView]:
    """All nodes of the table, in its order."""
    return [
        NodeView(
            name=row.text("sn"),
            gpu_type=row.optional_text("model") or None,
            gpus=row.whole("gpu"),
            cpu_millis=row.whole("cpu_milli"),
            memory_bytes=row.whole("memory_mib") * _MIB,
        )
        for row in csv_rows(path, NODE_COLUMNS)
    ]


def pod_jobs(pods: Iterable[Pod], nodes: Sequence[NodeView]) -> list[SimJob]:
    """The pods that ran, each a gang of one; from its placement to its deletion it runs."""
    others: dict[tuple[str, ...], frozenset[str]] = {}
    jobs = []
    for pod in pods:
        if pod.scheduled_s is None:
            continue
        duration = float(pod.deleted_s - pod.scheduled_s)
        excluded = frozenset[str]()
        if len(pod.models) > 1:
            # A gang names one type or none; what it may not have is left to it by the nodes.
            if pod.models not in others:
                others[pod.models] = frozenset(node.name for node in nodes if node.gpu_type not in pod.models)
            excluded = others[pod.models]
        request = GangRequest(
            job_id=pod.name,
            tenant=TENANT,
            learners_min=1,
            learners_max=1,
            gpus=pod.gpus,
            gpu_type=pod.models[0] if len(pod.models) == 1 else None,
            cpu_millis=pod.cpu_millis,
            memory_bytes=pod.memory_bytes,
            priority=0,
            submitted_at=BEGIN + timedelta(seconds=pod.created_s),
            excluded_nodes=excluded,
            expected_s=duration,
        )
        jobs.append(SimJob(request, duration))
    return jobs


def _pod(row: Fields) -> Pod:
    gpus, millis = row.whole("num_gpu"), row.whole("gpu_milli")
    if not (millis == 0 if gpus == 0 else millis == 1000 if gpus > 1 else 1 <= millis <= 1000):
        raise row.wrong("gpu_milli", f"what {gpus} GPUs can have: 0 for none, 1 to 1000 for one, 1000 for more")
    created, deleted = row.whole("creation_time"), row.whole("deletion_time")
    scheduled = None if row.is_missing("scheduled_time") else row.whole("scheduled_time")
    if scheduled is not None and not created <= scheduled <= deleted:
        raise row.wrong("scheduled_time", f"between creation ({created}) and deletion ({deleted})")
    return Pod(
        name=row.text("name"),
        cpu_millis=row.whole("cpu_milli"),
        memory_bytes=row.whole("memory_mib") * _MIB,
        gpus=gpus,
        gpu_millis=millis,
        models=tuple(model for model in row.optional_text("gpu_spec").split("|") if model),
        qos=row.optional_text("qos"),
        phase=row.text("pod_phase"),
        created_s=created,
        deleted_s=deleted,
        scheduled_s=scheduled,
    )
