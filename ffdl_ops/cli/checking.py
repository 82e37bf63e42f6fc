"""What can be said of a manifest without the cluster and the store: its own rules, and the tenant's limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ffdl_ops.core.jobs.problems import Problem, nearest

if TYPE_CHECKING:
    from ffdl_ops.core.jobs.manifest import Manifest
    from ffdl_ops.core.platform import PlatformConfig
    from ffdl_ops.core.tenancy.tenants import Tenant

__all__ = ["tenant_problems"]

_PLENTY = 10**15


def tenant_problems(manifest: Manifest, tenant: Tenant, platform: PlatformConfig) -> list[Problem]:
    """What of a job this tenant may not have, whatever the cluster has: each problem names field and limit.

    The nodes, the credentials and the data themselves are checked when the job is planned.
    """
    from ffdl_ops.core.tenancy.checks import ClusterShape, NodeSize, check_job
    from ffdl_ops.core.tenancy.defaults import with_defaults

    manifest = with_defaults(manifest, tenant, platform)
    # Without GPUs and on a node that takes everything, what is left to judge is the tenant's.
    boundless = ClusterShape({}, {"": NodeSize(gpus=0, cpu_millis=_PLENTY, memory_bytes=_PLENTY)})
    without_gpus = manifest.model_copy(update={"gpus": 0})
    return [*_gpu_problems(manifest, tenant), *check_job(without_gpus, tenant, boundless, platform)]


def _gpu_problems(manifest: Manifest, tenant: Tenant) -> Iterator[Problem]:
    if not manifest.gpus:
        return
    quota = {kind: count for kind, count in tenant.gpu_quota.items() if count}
    has = ", ".join(f"{kind} ({count})" for kind, count in sorted(quota.items())) or "none"
    if manifest.gpu_type and manifest.gpu_type not in quota:
        reason = f"tenant {tenant.name} may hold no such GPUs; its quota is {has}"
        yield Problem.of("gpu_type", manifest.gpu_type, reason, nearest(manifest.gpu_type, quota))
        return
    most = quota[manifest.gpu_type] if manifest.gpu_type else max(quota.values(), default=0)
    needed = manifest.learners_min * manifest.gpus
    if needed > most:
        name = manifest.gpu_type or "GPU"
        reason = f"{manifest.learners_min} × {manifest.gpus} {name}s are {needed}; tenant {tenant.name} may hold {has}"
        yield Problem.of("learners", manifest.learners_min, reason, "use fewer learners or GPUs")
