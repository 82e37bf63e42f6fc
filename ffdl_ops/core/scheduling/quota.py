"""What tenants hold, what they may still take, and what they lend each other.

GPUs are lent within a cohort, by type. A tenant keeps back what its lending limit leaves (by default nothing); the rest of the
members' quotas is the cohort's pool. A gang that stays within its tenant's quota never asks the pool: what is lent of it is
taken back. One that goes beyond needs the pool to have as much left, and its tenant's borrowing limit to allow it. CPU, memory
and numbers of jobs are never lent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ffdl_ops.core.scheduling.decisions import WaitCause
from ffdl_ops.core.scheduling.model import GangRequest, Grant, Reservation, TenantLimits

__all__ = ["Accounts", "Shortage", "Usage"]

_INFINITE = float("inf")


@dataclass(frozen=True)
class Shortage:
    """A limit that leaves no room for the gang.

    :param cause: :attr:`WaitCause.QUOTA` for a limit of its own, :attr:`WaitCause.FAIR_SHARE` when there is nothing to borrow.
    :param what: what is limited, in a person's words ("V100 GPUs", "CPU cores", …).
    :param limit: the limit; `held` what counts against it; `needed` what the gang needs at least. All in the same unit.
    :param gpu_type: the GPU type that is short; ``None`` when the limit holds for the whole tenant.
    :param user: whose limit it is, when it is a user's.
    """

    cause: WaitCause
    what: str
    limit: float
    held: float
    needed: float
    gpu_type: str | None = None
    user: str = ""

    @property
    def never(self) -> bool:
        """Whether the gang is larger than the limit itself, so that waiting can't help."""
        return self.needed > self.limit


@dataclass
class Usage:
    """What one tenant holds now: `gpus` by type; `running` and `user_gpus` by user are jobs and GPUs with a live lease."""

    gpus: dict[str, int] = field(default_factory=dict)
    cpu_millis: int = 0
    memory_bytes: int = 0
    running: dict[str, int] = field(default_factory=dict)
    user_gpus: dict[str, int] = field(default_factory=dict)
    jobs: int = 0

    def add(self, held: Grant | Reservation, sign: int = 1) -> None:
        """Count what is held or kept (`sign` 1), or not any more (-1)."""
        learners = len(held.placements)
        gpus = held.gpus * learners * sign
        if gpus:
            kind = held.gpu_type or ""
            self.gpus[kind] = self.gpus.get(kind, 0) + gpus
            self.user_gpus[held.user] = self.user_gpus.get(held.user, 0) + gpus
        self.cpu_millis += held.cpu_millis * learners * sign
        self.memory_bytes += held.memory_bytes * learners * sign
        self.running[held.user] = self.running.get(held.user, 0) + sign
        self.jobs += sign


class Accounts:
    """All tenants' usage, and their cohorts' pools.

    :param tenants: by name.
    """

    def __init__(self, tenants: Mapping[str, TenantLimits]) -> None:
        self.tenants = tenants
        self.usage: dict[str, Usage] = {}
        self._pools: dict[tuple[str, str], int] = {}
        self._taken: dict[tuple[str, str], int] = {}
        for tenant in tenants.values():
            if tenant.cohort is not None:
                for kind in tenant.gpu_quota:
                    key = (tenant.cohort, kind)
                    self._pools[key] = self._pools.get(key, 0) + tenant.gpu_quota[kind] - _kept_back(tenant, kind)

    def of(self, tenant: str) -> Usage:
        """What a tenant holds."""
        usage = self.usage.get(tenant)
        if usage is None:
            usage = self.usage[tenant] = Usage()
        return usage

    def add(self, held: Grant | Reservation, sign: int = 1) -> None:
        """Count what is held or kept (`sign` 1), or not any more (-1)."""
        tenant = self.tenants.get(held.tenant)
        usage = self.of(held.tenant)
        kind = held.gpu_type or ""
        if held.gpus and tenant is not None and tenant.cohort is not None:
            before = usage.gpus.get(kind, 0)
            after = before + held.gpus * len(held.placements) * sign
            key = (tenant.cohort, kind)
            change = _from_pool(tenant, kind, after) - _from_pool(tenant, kind, before)
            self._taken[key] = self._taken.get(key, 0) + change
        usage.add(held, sign)

    def pool_left(self, cohort: str, kind: str) -> int:
        """GPUs of a type that a cohort's members could still borrow; below zero while owners take theirs back."""
        return self._pools.get((cohort, kind), 0) - self._taken.get((cohort, kind), 0)

    def within_quota(self, request: GangRequest, learners: int, kind: str | None) -> bool:
        """Whether its tenant would not hold more GPUs of the type than its quota."""
        if kind is None:
            return True
        return self.of(request.tenant).gpus.get(kind, 0) + request.gpus * learners <= self.quota(request.tenant, kind)

    def quota(self, tenant: str, kind: str) -> int:
        """The tenant's quota of a GPU type."""
        limits = self.tenants.get(tenant)
        return limits.gpu_quota.get(kind, 0) if limits else 0

    def borrowed(self, tenant: str, kind: str) -> int:
        """GPUs of a type that it holds beyond its quota."""
        return max(self.of(tenant).gpus.get(kind, 0) - self.quota(tenant, kind), 0)

    def gpus_left(self, request: GangRequest, kind: str, *, borrow: bool = True) -> float:
        """How many more GPUs of the type the gang's tenant (and its user) may take now.

        :param borrow: whether beyond the quota, too.
        """
        tenant = self.tenants[request.tenant]
        usage = self.of(tenant.name)
        held, quota = usage.gpus.get(kind, 0), tenant.gpu_quota.get(kind, 0)
        left: float = quota - held
        if borrow and tenant.cohort is not None:
            most = _INFINITE if tenant.borrow_limit is None else quota + tenant.borrow_limit.get(kind, 0) - held
            # Its own guaranteed part is not in the pool: what it has not used of it comes on top.
            kept = max(_kept_back(tenant, kind) - held, 0)
            left = max(left, min(most, kept + self.pool_left(tenant.cohort, kind)))
        if tenant.max_gpus_per_user is not None:
            left = min(left, tenant.max_gpus_per_user - usage.user_gpus.get(request.user, 0))
        return left

    def most_learners(self, request: GangRequest, kind: str | None, *, borrow: bool = True) -> int:
        """How many learners the limits leave room for, up to what the gang would like."""
        tenant = self.tenants[request.tenant]
        usage = self.of(tenant.name)
        if not _jobs_left(tenant, usage, request.user):
            return 0
        most: float = request.learners_max
        if kind is not None and request.gpus:
            most = min(most, self.gpus_left(request, kind, borrow=borrow) // request.gpus)
        if tenant.cpu_quota_millis is not None and request.cpu_millis:
            most = min(most, (tenant.cpu_quota_millis - usage.cpu_millis) // request.cpu_millis)
        if tenant.memory_quota_bytes is not None and request.memory_bytes:
            most = min(most, (tenant.memory_quota_bytes - usage.memory_bytes) // request.memory_bytes)
        return max(int(most), 0)

    def shortage(self, request: GangRequest, kind: str | None) -> Shortage | None:
        """The first limit that the smallest gang would pass, if any.

        :param kind: the GPU type it would take; ``None`` when it takes no GPU.
        """
        return next((one for one in self._checks(request, kind) if one.held + one.needed > one.limit), None)

    def _checks(self, request: GangRequest, kind: str | None) -> Iterable[Shortage]:
        tenant = self.tenants[request.tenant]
        usage = self.of(tenant.name)
        own = WaitCause.QUOTA
        count, user = request.learners_min, request.user
        yield Shortage(own, "running jobs", _limit(tenant.max_running), usage.jobs, 1)
        running = usage.running.get(user, 0)
        yield Shortage(own, "running jobs", _limit(tenant.max_running_per_user), running, 1, None, user)
        held_gpus = usage.user_gpus.get(user, 0)
        yield Shortage(own, "GPUs", _limit(tenant.max_gpus_per_user), held_gpus, request.gpus * count, None, user)
        cpus = _limit(tenant.cpu_quota_millis) / 1000
        yield Shortage(own, "CPU cores", cpus, usage.cpu_millis / 1000, request.cpu_millis * count / 1000)
        memory = _limit(tenant.memory_quota_bytes) / 2**30
        yield Shortage(own, "GiB of memory", memory, usage.memory_bytes / 2**30, request.memory_bytes * count / 2**30)
        if kind is None:
            return
        what = f"{kind or 'unnamed'} GPUs"
        held, quota = usage.gpus.get(kind, 0), tenant.gpu_quota.get(kind, 0)
        needed = request.gpus * count
        if tenant.cohort is None or held + needed <= quota:
            yield Shortage(own, what, quota, held, needed, kind)
            return
        most = _INFINITE if tenant.borrow_limit is None else quota + tenant.borrow_limit.get(kind, 0)
        yield Shortage(own, what, most, held, needed, kind)
        kept = max(_kept_back(tenant, kind) - held, 0)
        left = kept + self.pool_left(tenant.cohort, kind)
        pool = self._pools.get((tenant.cohort, kind), 0) + _kept_back(tenant, kind)
        if needed > left:
            yield Shortage(WaitCause.FAIR_SHARE, f"{what} of cohort {tenant.cohort}", pool, pool - left, needed, kind)


def _kept_back(tenant: TenantLimits, kind: str) -> int:
    """The part of its quota that a tenant never lends."""
    quota = tenant.gpu_quota.get(kind, 0)
    if tenant.lend_limit is None:
        return 0
    return max(quota - tenant.lend_limit.get(kind, 0), 0)


def _from_pool(tenant: TenantLimits, kind: str, held: int) -> int:
    """What of the GPUs that a tenant holds comes out of its cohort's pool."""
    return max(held - _kept_back(tenant, kind), 0)


def _jobs_left(tenant: TenantLimits, usage: Usage, user: str) -> bool:
    if tenant.max_running is not None and usage.jobs >= tenant.max_running:
        return False
    return tenant.max_running_per_user is None or usage.running.get(user, 0) < tenant.max_running_per_user


def _limit(value: int | None) -> float:
    return _INFINITE if value is None else value
