"""A gang as pods: one template for the job's attempt, one pod per rank from it, one headless service beside them.

Names are deterministic by job, attempt and rank, so that creating a gang twice creates it once.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.cluster import specs
from ffdl_ops.adapters.cluster.kueue import mark_pod
from ffdl_ops.core.jobs.ids import namespace as namespace_of
from ffdl_ops.core.jobs.ids import pod_name

if TYPE_CHECKING:
    from kubernetes import client as k8s

    from ffdl_ops.core.jobs.manifest import Manifest
    from ffdl_ops.core.platform import PlatformConfig

__all__ = ["GangSpec", "gang_selector", "gang_service", "learner_pod", "learner_template"]

LEARNER = "learner"
GPU_RESOURCE = "nvidia.com/gpu"


@dataclass(frozen=True)
class GangSpec:
    """Everything that decides how one attempt's pods look.

    :param job_id: the job.
    :param tenant: its tenant.
    :param manifest: what the user asked for.
    :param attempt: number of the attempt, from 1.
    :param learners: size of the gang (at most the manifest's maximum).
    :param base_port: first port of the gang's rendezvous range.
    :param stage_spec: the staging helper's specification (without rank).
    :param data_dir: where the staged data set lies in the container, or ``None``.
    :param restored: the generation that the attempt starts from, or ``None``.
    :param data_secret: secret of the manifest's own data store, or ``None``.
    :param overrides: environment that differs from an ordinary attempt's (a preflight's directories).
    """

    job_id: str
    tenant: str
    manifest: Manifest
    attempt: int
    learners: int
    base_port: int
    stage_spec: Mapping[str, Any]
    data_dir: str | None = None
    restored: int | None = None
    data_secret: str | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> specs.PodIdentity:
        """Whose pods these are."""
        extra = {"ffdl.dev/attempt": str(self.attempt)}
        return specs.PodIdentity(self.job_id, self.tenant, namespace_of(self.tenant), LEARNER, extra)


def gang_selector(job_id: str, attempt: int | None = None) -> str:
    """The label selector of a job's learners, of one attempt or of all."""
    selector = f"ffdl.dev/job={job_id},app.kubernetes.io/component={LEARNER}"
    return selector if attempt is None else f"{selector},ffdl.dev/attempt={attempt}"


def gang_service(spec: GangSpec) -> k8s.V1Service:
    """The headless service that gives the learners names on a cluster with DNS."""
    from kubernetes import client

    identity = spec.identity
    return client.V1Service(
        metadata=client.V1ObjectMeta(name=spec.job_id, namespace=identity.namespace, labels=specs.labels_of(identity)),
        spec=client.V1ServiceSpec(
            cluster_ip="None",
            publish_not_ready_addresses=True,
            selector={"ffdl.dev/job": spec.job_id, "app.kubernetes.io/component": LEARNER},
            ports=[client.V1ServicePort(name="rendezvous", port=spec.base_port)],
        ),
    )


def learner_template(spec: GangSpec, platform: PlatformConfig) -> k8s.V1Pod:
    """The gang's pod template: all that its ranks have in common."""
    from kubernetes import client

    manifest = spec.manifest
    pod = specs.pod_skeleton(platform, spec.identity, spec.job_id)
    pod.spec.volumes, mounts = specs.volumes_of(platform, spec.identity)
    helper = {"data_secret": spec.data_secret}
    prepare = specs.helper_container(platform, "prepare", "prepare", spec.stage_spec, mounts, **helper)
    pod.spec.init_containers = [prepare]
    if manifest.checkpoint.enabled:
        sidecar = specs.helper_container(platform, "sidecar", "sidecar", spec.stage_spec, mounts)
        sidecar.restart_policy = "Always"
        pod.spec.init_containers.append(sidecar)
    size = {"cpu": f"{manifest.cpu_millis}m", "memory": str(manifest.memory_bytes)}
    gpus = {GPU_RESOURCE: str(manifest.gpus)} if manifest.gpus else {}
    if gpus:
        pod.spec.tolerations = [client.V1Toleration(key=GPU_RESOURCE, operator="Exists", effect="NoSchedule")]
    termination = f"{specs.RUN_DIR}/learner.termination"
    pod.spec.containers = [
        client.V1Container(
            name=LEARNER,
            image=platform.image_for(manifest),
            command=["python3", f"{specs.TOOLS_DIR}/learner.pyz"],
            env=specs.env_vars(_environment(spec, platform, termination))
            + [
                client.V1EnvVar(
                    name=name,
                    value_from=client.V1EnvVarSource(field_ref=client.V1ObjectFieldSelector(field_path=path)),
                )
                for name, path in (("POD_IP", "status.podIP"), ("POD_NAME", "metadata.name"))
            ],
            resources=client.V1ResourceRequirements(
                requests={**size, **gpus}, limits={"memory": size["memory"], **gpus}
            ),
            volume_mounts=specs.mounts_of(mounts, cache_read_only=True),
            security_context=specs.restricted(),
            termination_message_path=termination,
            termination_message_policy="FallbackToLogsOnError",
        )
    ]
    pod.spec.subdomain = spec.job_id
    mark_pod(pod, platform.cluster, spec.job_id, spec.attempt, spec.learners)
    return pod


def learner_pod(template: k8s.V1Pod, spec: GangSpec, rank: int, node: str | None) -> k8s.V1Pod:
    """One rank's pod.

    :param node: the node that the lease names: a required affinity, so that the cluster can't place it elsewhere.
    """
    from kubernetes import client

    pod = copy.deepcopy(template)
    pod.metadata.name = pod_name(spec.job_id, spec.attempt, rank)
    pod.metadata.labels["ffdl.dev/rank"] = str(rank)
    pod.spec.hostname = f"l{rank}"
    learner = next(container for container in pod.spec.containers if container.name == LEARNER)
    checkpoint_dir = f"{specs.JOB_DIR}/checkpoints"
    if spec.manifest.checkpoint.per_rank:
        checkpoint_dir += f"/rank-{rank}"
    own = {"LEARNER_ID": str(rank + 1), "FFDL_RANK": str(rank), "CHECKPOINT_DIR": checkpoint_dir}
    learner.env = specs.env_vars(own) + [entry for entry in learner.env if entry.name not in own]
    for container in pod.spec.init_containers:
        for entry in container.env:
            if entry.name == "FFDL_STAGE_SPEC":
                entry.value = specs.env_vars({"": json.dumps({**spec.stage_spec, "rank": rank}, sort_keys=True)})[
                    0
                ].value
    if node:
        term = client.V1NodeSelectorTerm(
            match_expressions=[
                client.V1NodeSelectorRequirement(key="kubernetes.io/hostname", operator="In", values=[node])
            ]
        )
        required = client.V1NodeSelector(node_selector_terms=[term])
        pod.spec.affinity = client.V1Affinity(
            node_affinity=client.V1NodeAffinity(required_during_scheduling_ignored_during_execution=required)
        )
    return pod


def _environment(spec: GangSpec, platform: PlatformConfig, termination: str) -> dict[str, str]:
    """The learner's environment, FfDL's names first; the user's own values can't replace the platform's."""
    manifest = spec.manifest
    metrics = manifest.evaluation_metrics
    metrics_spec = json.dumps(metrics.model_dump(mode="json", by_alias=True)) if metrics else ""
    return {
        **manifest.env,
        "DATA_DIR": spec.data_dir or f"{specs.JOB_DIR}/state/no-data",
        "RESULT_DIR": f"{specs.JOB_DIR}/results",
        "MODEL_DIR": f"{specs.JOB_DIR}/code",
        "LOG_DIR": f"{specs.JOB_DIR}/logs/attempt-{spec.attempt}",
        "JOB_STATE_DIR": f"{specs.JOB_DIR}/state",
        "NUM_LEARNERS": str(spec.learners),
        "LEARNER_NAME_PREFIX": f"{spec.job_id}-a{spec.attempt}-l",
        "GPU_COUNT": str(manifest.gpus),
        "TRAINING_ID": spec.job_id,
        "TRAINING_COMMAND": manifest.framework.command,
        "FFDL_ATTEMPT": str(spec.attempt),
        "FFDL_FRAMEWORK": manifest.framework.name,
        "FFDL_BASE_PORT": str(spec.base_port),
        "FFDL_GRACE_SECONDS": str(platform.timeouts.grace_seconds),
        "FFDL_START_TIMEOUT_SECONDS": str(platform.timeouts.rendezvous_seconds),
        "FFDL_RESTORED_GENERATION": "" if spec.restored is None else str(spec.restored),
        "FFDL_METRICS_SPEC": metrics_spec,
        "FFDL_TERMINATION_LOG": termination,
        **spec.overrides,
    }
