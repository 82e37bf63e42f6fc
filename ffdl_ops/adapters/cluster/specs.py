"""The parts that every pod of this platform is made of: labels, volumes, security, helper containers.

A pod's paths are the contract of the learner's environment: `/job` is shared by the gang and by the job's helper pods,
`/ffdl/cache` is the tenant's dataset cache, `/ffdl/tools` holds the launcher, `/ffdl/run` the termination messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubernetes import client as k8s

    from ffdl_ops.core.platform import PlatformConfig

__all__ = [
    "HELPER_CPU_MILLIS",
    "HELPER_MEMORY_BYTES",
    "PodIdentity",
    "helper_container",
    "labels_of",
    "pod_skeleton",
    "volumes_of",
]

CACHE_DIR = "/ffdl/cache"
JOB_DIR = "/job"
POD_ACCOUNT = "ffdl-job"
RUN_DIR = "/ffdl/run"
STORAGE_SECRET = "ffdl-storage"
TOOLS_DIR = "/ffdl/tools"

HELPER_CPU_MILLIS = 50
HELPER_MEMORY_BYTES = 512 << 20
"""What a helper container requests: it streams, so its memory does not grow with the data (measured below 300 MiB)."""


@dataclass(frozen=True)
class PodIdentity:
    """Whose pod it is.

    :param job_id: the job.
    :param tenant: its tenant.
    :param namespace: the tenant's namespace.
    :param component: "learner" or the helper's stage.
    :param extra: further labels ("ffdl.dev/attempt", …).
    """

    job_id: str
    tenant: str
    namespace: str
    component: str
    extra: Mapping[str, str] = field(default_factory=dict)


def labels_of(identity: PodIdentity) -> dict[str, str]:
    """Kubernetes' recommended labels and this platform's own."""
    return {
        "app.kubernetes.io/name": "ffdl-job",
        "app.kubernetes.io/instance": identity.job_id,
        "app.kubernetes.io/component": identity.component,
        "app.kubernetes.io/part-of": "ffdl-ops",
        "app.kubernetes.io/managed-by": "ffdl-ops",
        "ffdl.dev/job": identity.job_id,
        "ffdl.dev/tenant": identity.tenant,
        **identity.extra,
    }


def volumes_of(
    platform: PlatformConfig, identity: PodIdentity, *, all_jobs: bool = False
) -> tuple[list[k8s.V1Volume], dict[str, dict[str, Any]]]:
    """The pod's volumes, and by volume name the mount arguments that place the tenant's own part of each.

    The tenant's directory (its claim, or one below the host path) is divided by `subPath`: a pod sees its own job and its
    own tenant's cache alone.

    :param all_jobs: whether it sees the directory of all the tenant's jobs: what removes a job's directory must.
    """
    from kubernetes import client

    parts = {"job": "jobs" if all_jobs else f"jobs/{identity.job_id}", "cache": "cache"}
    volumes: list[k8s.V1Volume] = []
    mounts: dict[str, dict[str, Any]] = {}
    for name, part in parts.items():
        volume = getattr(platform.volumes, name)
        if volume.kind == "hostPath":
            path = f"{volume.path.rstrip('/')}/{identity.namespace}"
            source = client.V1HostPathVolumeSource(path=path, type="DirectoryOrCreate")
            volumes.append(client.V1Volume(name=name, host_path=source))
        else:
            claim = client.V1PersistentVolumeClaimVolumeSource(claim_name=volume.claim)
            volumes.append(client.V1Volume(name=name, persistent_volume_claim=claim))
        mounts[name] = {"sub_path": part}
    for name in ("tools", "run"):
        volumes.append(client.V1Volume(name=name, empty_dir=client.V1EmptyDirVolumeSource()))
        mounts[name] = {}
    return volumes, mounts


def mounts_of(mounts: Mapping[str, Mapping[str, Any]], *, cache_read_only: bool) -> list[k8s.V1VolumeMount]:
    """The volume mounts of one container."""
    from kubernetes import client

    places = {"job": JOB_DIR, "cache": CACHE_DIR, "tools": TOOLS_DIR, "run": RUN_DIR}
    return [
        client.V1VolumeMount(
            name=name,
            mount_path=path,
            read_only=True if name == "cache" and cache_read_only else None,
            **mounts[name],
        )
        for name, path in places.items()
    ]


def restricted() -> k8s.V1SecurityContext:
    """A container's security context under Pod Security "restricted"."""
    from kubernetes import client

    return client.V1SecurityContext(
        allow_privilege_escalation=False,
        capabilities=client.V1Capabilities(drop=["ALL"]),
        run_as_non_root=True,
    )


def env_vars(values: Mapping[str, str]) -> list[k8s.V1EnvVar]:
    """Plain values as a container's environment, in a fixed order.

    A dollar sign is doubled: Kubernetes would expand `$(NAME)` in a tenant's text, and make one of two.
    """
    from kubernetes import client

    return [client.V1EnvVar(name=name, value=value.replace("$", "$$")) for name, value in sorted(values.items())]


def helper_container(
    platform: PlatformConfig,
    name: str,
    command: str,
    spec: Mapping[str, Any],
    mounts: Mapping[str, Mapping[str, Any]],
    *,
    data_secret: str | None = None,
) -> k8s.V1Container:
    """A container of the helper image that runs one staging command.

    :param command: "fetch", "prepare", "sidecar", "checkpoint", "store" or "remove".
    :param spec: the command's specification, without secrets.
    :param data_secret: the secret with the manifest's own data-store credentials (keys `FFDL_DATA_S3_*`), if any.
    """
    from kubernetes import client

    termination = f"{RUN_DIR}/{name}.termination"
    sources = [client.V1EnvFromSource(secret_ref=client.V1SecretEnvSource(name=STORAGE_SECRET))]
    if data_secret:
        sources.append(client.V1EnvFromSource(secret_ref=client.V1SecretEnvSource(name=data_secret)))
    request = {"cpu": f"{HELPER_CPU_MILLIS}m", "memory": str(HELPER_MEMORY_BYTES)}
    return client.V1Container(
        name=name,
        image=platform.images.helper,
        command=["python3", "-m", "ffdl_ops.pod.staging", command],
        env=env_vars({"FFDL_STAGE_SPEC": json.dumps(spec, sort_keys=True), "FFDL_TERMINATION_LOG": termination}),
        env_from=sources,
        resources=client.V1ResourceRequirements(requests=request, limits={"memory": request["memory"]}),
        volume_mounts=mounts_of(mounts, cache_read_only=False),
        security_context=restricted(),
        termination_message_path=termination,
        termination_message_policy="FallbackToLogsOnError",
    )


def pod_skeleton(platform: PlatformConfig, identity: PodIdentity, name: str) -> k8s.V1Pod:
    """A pod without containers: metadata, security and the settings that every pod of the platform shares."""
    from kubernetes import client

    return client.V1Pod(
        api_version="v1",
        kind="Pod",
        metadata=client.V1ObjectMeta(name=name, namespace=identity.namespace, labels=labels_of(identity)),
        spec=client.V1PodSpec(
            containers=[],
            restart_policy="Never",
            service_account_name=POD_ACCOUNT,
            automount_service_account_token=False,
            enable_service_links=False,
            security_context=client.V1PodSecurityContext(
                run_as_non_root=True,
                run_as_user=platform.run_as_user,
                fs_group=platform.run_as_user,
                seccomp_profile=client.V1SeccompProfile(type="RuntimeDefault"),
            ),
            termination_grace_period_seconds=platform.timeouts.grace_seconds,
        ),
    )
