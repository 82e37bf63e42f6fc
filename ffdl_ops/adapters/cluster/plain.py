"""A manifest's program in one plain pod, without this platform: what benchmarks compare a job with.

It has the job's image, command, environment and resources, on a node of the same GPU type. Its data lies where a job's does,
in the tenant's cache, mounted in the same way; the staging helper puts data and code there before the program starts. There is no
launcher, no side-car, nothing that follows it, and no CHECKPOINT_DIR: it saves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.cluster import specs
from ffdl_ops.adapters.cluster.observe import GPU_RESOURCE, GPU_TYPE_LABEL
from ffdl_ops.core.jobs.ids import namespace as namespace_of

if TYPE_CHECKING:
    from kubernetes import client as k8s

    from ffdl_ops.adapters.storage.datasets import Dataset
    from ffdl_ops.core.jobs.manifest import Manifest
    from ffdl_ops.core.platform import PlatformConfig

__all__ = ["BASE", "RUN_LABEL", "plain_pod"]

BASE = "base"
"""The container whose end is the pod's, as Airflow's operator calls it."""
RUN_LABEL = "ffdl.dev/bench-run"
"""Which run of the benchmark's DAG a pod belongs to."""


def plain_pod(
    platform: PlatformConfig,
    manifest: Manifest,
    tenant: str,
    run_id: str,
    bucket: str,
    data: Dataset | None,
    limit_s: int,
) -> k8s.V1Pod:
    """The pod.

    :param run_id: the DAG run, as a label's value.
    :param bucket: the tenant's own.
    :param data: the manifest's data set.
    :param limit_s: seconds after which the cluster ends it, whatever became of who started it.
    """
    from kubernetes import client

    identity = specs.PodIdentity(run_id, tenant, namespace_of(tenant), "benchmark")
    pod = specs.pod_skeleton(platform, identity, f"plain-{run_id}".lower()[:50].rstrip("-."))
    pod.metadata.labels = {RUN_LABEL: run_id, "ffdl.dev/tenant": tenant, "app.kubernetes.io/part-of": "ffdl-ops"}
    volumes, mounts = specs.volumes_of(platform, identity)
    # The cache is the tenant's; what a job keeps on its volume, this one loses with its pod.
    private = client.V1Volume(name="job", empty_dir=client.V1EmptyDirVolumeSource())
    pod.spec.volumes = [private if one.name == "job" else one for one in volumes]
    mounts = {**mounts, "job": {}}
    stage = _stage_spec(manifest, tenant, run_id, bucket, data)
    if data is not None or manifest.code or manifest.example:
        pod.spec.init_containers = [specs.helper_container(platform, "prepare", "prepare", stage, mounts)]
    gpus = {GPU_RESOURCE: str(manifest.gpus)} if manifest.gpus else {}
    size = {"cpu": f"{manifest.cpu_millis}m", "memory": str(manifest.memory_bytes)}
    if gpus:
        pod.spec.tolerations = [client.V1Toleration(key=GPU_RESOURCE, operator="Exists", effect="NoSchedule")]
    if manifest.gpu_type:
        pod.spec.node_selector = {GPU_TYPE_LABEL: manifest.gpu_type}
    pod.spec.active_deadline_seconds = limit_s
    job = specs.JOB_DIR
    environment = {
        **manifest.env,
        "DATA_DIR": f"{specs.CACHE_DIR}/{data.key}" if data is not None else f"{job}/state/no-data",
        "MODEL_DIR": f"{job}/code",
        "RESULT_DIR": job,
        "PYTHONUNBUFFERED": "1",
    }
    code = manifest.code or manifest.example
    pod.spec.containers = [
        client.V1Container(
            name=BASE,
            image=platform.image_for(manifest),
            command=["/bin/sh", "-c", manifest.framework.command.replace("$", "$$")],
            working_dir=f"{job}/code" if code else None,
            env=specs.env_vars(environment),
            resources=client.V1ResourceRequirements(
                requests={**size, **gpus}, limits={"memory": size["memory"], **gpus}
            ),
            volume_mounts=specs.mounts_of(mounts, cache_read_only=True),
            security_context=specs.restricted(),
        )
    ]
    return pod


def _stage_spec(manifest: Manifest, tenant: str, run_id: str, bucket: str, data: Dataset | None) -> dict[str, Any]:
    """What `prepare` is told: attempt 0 restores nothing and keeps nothing."""
    code = (
        {"inline_example": manifest.example} if manifest.example else {"uri": manifest.code} if manifest.code else None
    )
    found = data and {"bucket": data.bucket, "prefix": data.prefix, "key": data.key, "cache_dir": specs.CACHE_DIR}
    return {
        "job_id": run_id, "tenant": tenant, "attempt": 0, "rank": 0, "learners": 1, "bucket": bucket, "data": found,
        "code": code, "job_dir": specs.JOB_DIR, "tools_dir": specs.TOOLS_DIR, "checkpoint": {"enabled": False}, "results": {},
    }  # fmt: skip
