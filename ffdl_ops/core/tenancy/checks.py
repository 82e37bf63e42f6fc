"""Whether a tenant and a cluster could ever run a job: what can't be met even on an empty cluster is refused at once, since
waiting would not help.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ffdl_ops.core.jobs.problems import Problem, nearest
from ffdl_ops.core.jobs.sections import CUSTOM
from ffdl_ops.core.jobs.units import format_memory, normalise_gpu_type

if TYPE_CHECKING:
    from ffdl_ops.core.jobs.manifest import Manifest
    from ffdl_ops.core.platform import PlatformConfig
    from ffdl_ops.core.tenancy.tenants import Tenant

__all__ = ["ClusterShape", "NodeSize", "SIDECAR", "check_job", "check_queue"]


@dataclass(frozen=True)
class NodeSize:
    """What a node has, or a pod takes.

    :param cpu_millis: processors, in thousandths.
    """

    gpus: int
    cpu_millis: int
    memory_bytes: int


SIDECAR = NodeSize(gpus=0, cpu_millis=50, memory_bytes=512 << 20)
"""What the checkpoint side-car takes beside each learner."""


@dataclass(frozen=True)
class ClusterShape:
    """What a cluster's nodes have in all; "" stands for nodes without GPUs.

    :param gpus_by_type: GPUs of all nodes together.
    :param largest_node: for each type, its largest node.
    :param nodes: for each type, every node; when given, a gang that no way of packing could hold is refused, too.
    """

    gpus_by_type: Mapping[str, int]
    largest_node: Mapping[str, NodeSize]
    nodes: Mapping[str, Sequence[NodeSize]] = field(default_factory=dict)


def check_job(
    manifest: Manifest,
    tenant: Tenant,
    cluster: ClusterShape,
    platform: PlatformConfig | None = None,
    *,
    most_gpus: Mapping[str, int] | None = None,
    beside: NodeSize = SIDECAR,
) -> list[Problem]:
    """What of a job this tenant may not have, or this cluster has not: all of it, each naming field and limit.

    :param platform: whose images are checked, if given.
    :param most_gpus: GPUs by type that the tenant may hold, what it could borrow included; ``None``: its quota.
    :param beside: what each pod takes beside the learner itself.
    """
    pod = NodeSize(manifest.gpus, manifest.cpu_millis + beside.cpu_millis, manifest.memory_bytes + beside.memory_bytes)
    most = tenant.gpu_quota if most_gpus is None else most_gpus
    size = [*_gpu_problems(manifest, tenant.name, most, cluster), *_node_problems(manifest, cluster, pod, beside)]
    return [
        *(size or _packing_problems(manifest, cluster, pod)),
        *_quota_problems(manifest, tenant, pod),
        *_image_problems(manifest, tenant, platform),
        *_bucket_problems(manifest, tenant),
        *_order_problems(manifest, tenant),
    ]


def check_queue(tenant: Tenant, queued: int, user: str = "", queued_of_user: int = 0) -> list[Problem]:
    """Whether one more job may join a tenant's queue.

    :param queued: how many of its jobs wait already.
    :param queued_of_user: how many of those are this user's.
    """
    advice = "submit it again when some have started, or halt some"
    most = tenant.per_user.max_queued
    if queued >= tenant.max_queued:
        reason = f"{queued} jobs of tenant {tenant.name} wait already, and {tenant.max_queued} may"
    elif most is not None and queued_of_user >= most:
        reason = f"{queued_of_user} jobs of user {user} wait already, and {most} of each user of tenant {tenant.name} may"
    else:
        return []
    return [Problem("", "", reason, advice)]


def _gpu_problems(
    manifest: Manifest, tenant: str, most: Mapping[str, int], cluster: ClusterShape
) -> Iterator[Problem]:
    if not manifest.gpus:
        return
    available = {normalise_gpu_type(kind): count for kind, count in cluster.gpus_by_type.items() if kind and count}
    kinds = [manifest.gpu_type] if manifest.gpu_type else sorted(available)
    there = ", ".join(f"{kind} ({count})" for kind, count in sorted(available.items())) or "none"
    if manifest.gpu_type and manifest.gpu_type not in available:
        alike = nearest(manifest.gpu_type, available) if available else ""
        yield Problem.of("gpu_type", manifest.gpu_type, f"no node has such GPUs; the cluster has {there}", alike)
        return
    if not kinds:
        yield Problem.of("gpus", manifest.gpus, "the cluster has no GPUs", "set gpus: 0")
        return
    largest = {normalise_gpu_type(kind): node.gpus for kind, node in cluster.largest_node.items() if kind}
    widest = max(largest.get(kind, available[kind]) for kind in kinds)
    name = manifest.gpu_type or "GPU"
    if manifest.gpus > widest:
        yield Problem.of(
            "gpus", manifest.gpus, f"the largest node with {name}s has {widest}", "use more learners with fewer GPUs"
        )
        return
    kinds = [kind for kind in kinds if largest.get(kind, available[kind]) >= manifest.gpus]
    needed = manifest.learners_min * manifest.gpus
    limits = {kind: min(available[kind], most.get(kind, 0)) for kind in kinds}
    if needed <= max(limits.values()):
        return
    what = f"{manifest.learners_min} × {manifest.gpus} {name}s are {needed}"
    have = "; ".join(
        f"of {kind} the cluster has {available[kind]} and tenant {tenant} may hold {most.get(kind, 0)}"
        for kind in kinds
    )
    yield Problem.of("learners", manifest.learners_min, f"{what}; {have}", "use fewer learners or GPUs")


def _node_problems(manifest: Manifest, cluster: ClusterShape, pod: NodeSize, beside: NodeSize) -> Iterator[Problem]:
    nodes = _nodes_for(manifest, cluster)
    if not nodes:
        return
    cpus, memory = max(node.cpu_millis for node in nodes), max(node.memory_bytes for node in nodes)
    if pod.cpu_millis > cpus:
        most = f"{max(cpus - beside.cpu_millis, 0) / 1000:g}"
        yield Problem.of(
            "cpus", manifest.cpus, f"a learner can have {most} at most on the largest node", "ask for fewer"
        )
    if pod.memory_bytes > memory:
        most = format_memory(max(memory - beside.memory_bytes, 0))
        yield Problem.of(
            "memory", manifest.memory, f"a learner can have {most} at most on the largest node", "ask for less"
        )


def _packing_problems(manifest: Manifest, cluster: ClusterShape, pod: NodeSize) -> Iterator[Problem]:
    if not cluster.nodes:
        return
    room = sum(_room(node, pod) for node in _nodes_for(manifest, cluster))
    if room < manifest.learners_min:
        reason = f"only {room} such learners fit on the cluster's nodes, even when all are free"
        yield Problem.of("learners", manifest.learners_min, reason, "use fewer learners, or smaller ones")


def _quota_problems(manifest: Manifest, tenant: Tenant, pod: NodeSize) -> Iterator[Problem]:
    count = manifest.learners_min
    if tenant.cpu_quota_millis is not None and count * pod.cpu_millis > tenant.cpu_quota_millis:
        reason = (
            f"{count} learners take {count * pod.cpu_millis / 1000:g}; tenant {tenant.name} may hold {tenant.cpu_quota}"
        )
        yield Problem.of("cpus", manifest.cpus, reason, "ask for fewer")
    if tenant.memory_quota_bytes is not None and count * pod.memory_bytes > tenant.memory_quota_bytes:
        total = format_memory(count * pod.memory_bytes)
        reason = f"{count} learners take {total}; tenant {tenant.name} may hold {tenant.memory_quota}"
        yield Problem.of("memory", manifest.memory, reason, "ask for less")


def _image_problems(manifest: Manifest, tenant: Tenant, platform: PlatformConfig | None) -> Iterator[Problem]:
    name = manifest.framework.name
    if tenant.frameworks is not None and name not in tenant.frameworks:
        reason = f"tenant {tenant.name} may use {', '.join(sorted(tenant.frameworks))}"
        yield Problem.of("framework.name", name, reason)
        return
    own = manifest.framework.image or (manifest.framework.version if name == CUSTOM else None)
    if own:
        if tenant.images is not None and not any(fnmatch.fnmatchcase(own, pattern) for pattern in tenant.images):
            field = "framework.image" if manifest.framework.image else "framework.version"
            yield Problem.of(field, own, f"tenant {tenant.name} may run images like {', '.join(sorted(tenant.images))}")
        return
    if platform is None or platform.find_image(manifest) is not None:
        return
    if platform.images.of(name) is None:
        reason = f"this platform has images for {', '.join(platform.images.frameworks)}"
        hint = "or name an image of your own: framework 'custom' with version: 'name:tag'"
        yield Problem.of("framework.name", name, reason, hint)
        return
    versions = ", ".join(sorted(platform.versions.get(name, {})))
    yield Problem.of(
        "framework.version", manifest.framework.version, f"of {name} this platform has {versions}", "or leave it out"
    )


def _bucket_problems(manifest: Manifest, tenant: Tenant) -> Iterator[Problem]:
    """Buckets that the tenant's credentials may not be used for; a store that has its own is its user's matter."""
    for position, store in enumerate(manifest.data_stores):
        if store.connection is not None:
            continue
        for field_name in ("training_data", "training_results"):
            place = getattr(store, field_name)
            if place is None or tenant.may_use_bucket(place.container.partition("/")[0]):
                continue
            allowed = ", ".join([tenant.bucket, *sorted(tenant.data_buckets)])
            path = f"data_stores[{position}].{field_name}.container"
            yield Problem.of(path, place.container, f"tenant {tenant.name} may use the buckets {allowed}")


def _order_problems(manifest: Manifest, tenant: Tenant) -> Iterator[Problem]:
    if manifest.priority > tenant.priority.max:
        reason = f"tenant {tenant.name} may ask for {tenant.priority.max} at most"
        yield Problem.of("priority", manifest.priority, reason)
    gpus = manifest.learners_min * manifest.gpus
    if tenant.max_job_gpus is not None and gpus > tenant.max_job_gpus:
        reason = f"{manifest.learners_min} × {manifest.gpus} GPUs are {gpus}; a job of tenant {tenant.name} may have"
        yield Problem.of("gpus", manifest.gpus, f"{reason} {tenant.max_job_gpus}", "use fewer learners or GPUs")
    if tenant.per_user.max_gpus is not None and gpus > tenant.per_user.max_gpus:
        reason = f"{gpus} GPUs are more than one user of tenant {tenant.name} may hold, which is {tenant.per_user.max_gpus}"
        yield Problem.of("gpus", manifest.gpus, reason, "use fewer learners or GPUs")
    if manifest.learners_max > tenant.max_learners:
        reason = f"tenant {tenant.name} may use {tenant.max_learners} in a job"
        yield Problem.of("learners", manifest.learners_max, reason)


def _nodes_for(manifest: Manifest, cluster: ClusterShape) -> list[NodeSize]:
    """The nodes, as far as they are known, whose GPUs are such as the job asks for."""
    nodes = cluster.nodes or {kind: [node] for kind, node in cluster.largest_node.items()}
    return [
        node
        for kind, several in nodes.items()
        for node in several
        if node.gpus >= manifest.gpus and (not manifest.gpus or manifest.gpu_type in (None, normalise_gpu_type(kind)))
    ]


def _room(node: NodeSize, pod: NodeSize) -> int:
    """How many such pods a free node holds."""
    rooms = [node.cpu_millis // max(pod.cpu_millis, 1), node.memory_bytes // max(pod.memory_bytes, 1)]
    if pod.gpus:
        rooms.append(node.gpus // pod.gpus)
    return min(rooms)
