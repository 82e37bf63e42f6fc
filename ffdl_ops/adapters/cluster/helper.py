"""Helper pods: a job's staging steps that run outside the gang, on CPUs only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.cluster import specs
from ffdl_ops.core.jobs.ids import namespace as namespace_of

if TYPE_CHECKING:
    from kubernetes import client as k8s

    from ffdl_ops.core.platform import PlatformConfig

__all__ = ["HELPER", "helper_pod", "helper_selector"]

HELPER = "helper"


def helper_selector(job_id: str, stage: str | None = None) -> str:
    """The label selector of a job's helper pods, of one stage or of all."""
    selector = f"ffdl.dev/job={job_id},ffdl.dev/stage"
    return selector if stage is None else f"{selector}={stage}"


def helper_pod(
    platform: PlatformConfig,
    *,
    job_id: str,
    tenant: str,
    stage: str,
    number: int,
    command: str,
    spec: Mapping[str, Any],
    data_secret: str | None = None,
    all_jobs: bool = False,
) -> k8s.V1Pod:
    """One helper pod; the cluster stops it after ``timeouts.helper_seconds``.

    :param stage: the stage that it serves; part of its name.
    :param number: counts the tries of the stage, so that a finished pod is never taken for a new one.
    :param command: the staging command.
    :param spec: the command's specification.
    :param all_jobs: whether it has the directory of the tenant's jobs in place of the job's own.
    """
    identity = specs.PodIdentity(
        job_id,
        tenant,
        namespace_of(tenant),
        HELPER,
        {"ffdl.dev/stage": stage, "ffdl.dev/number": str(number)},
    )
    pod = specs.pod_skeleton(platform, identity, f"{job_id}-{stage}-{number}")
    pod.spec.active_deadline_seconds = platform.timeouts.helper_seconds
    pod.spec.volumes, mounts = specs.volumes_of(platform, identity, all_jobs=all_jobs)
    pod.spec.containers = [specs.helper_container(platform, HELPER, command, spec, mounts, data_secret=data_secret)]
    return pod
