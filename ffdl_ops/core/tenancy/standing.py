"""Where each tenant stands: what it holds of its quota, what it borrows and lends, and what it waits for.

Within a cohort nobody lends to anybody in particular: what is borrowed comes out of one pool. So what a tenant *lends* is its
part of all that is borrowed there, by the idle quota that each has put into the pool, in whole GPUs. The sums of what is lent and
of what is borrowed are the same for each cohort and type. What a tenant holds beyond its quota that no idle quota stands
behind is not borrowed but *above quota*: the file was changed, or an owner is taking its own back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ffdl_ops.core.scheduling.decisions import WaitCause
from ffdl_ops.core.scheduling.model import GangRequest, Grant, Reservation, TenantLimits

__all__ = ["ANY", "NO_GPU", "GpuStanding", "TenantStanding", "WaitStanding", "standings"]

ANY = "any"
"""In the place of a GPU type: waiting jobs that take any."""
NO_GPU = "none"
"""In the place of a GPU type: jobs without GPUs."""


@dataclass(frozen=True)
class WaitStanding:
    """What waits for one cause (``None``: no pass has looked at it yet), and how long the longest has."""

    cause: WaitCause | None
    jobs: int
    longest_s: float


@dataclass(frozen=True)
class GpuStanding:
    """A tenant and one GPU type, in whole GPUs.

    :param borrowed: beyond its quota, out of its cohort's idle quotas; `above_quota` beyond it and out of nobody's.
    :param reserved: kept for its waiting jobs, as they become free: nobody else gets them.
    :param lent: of its idle quota, what others of its cohort borrow.
    :param free_to_borrow: beyond its quota, what it could still take, as far as quotas and limits go.
    :param running: jobs that hold places; `queued` jobs that wait, `waits` for what.
    """

    gpu_type: str
    quota: int = 0
    held: int = 0
    reserved: int = 0
    borrowed: int = 0
    lent: int = 0
    free_to_borrow: int = 0
    above_quota: int = 0
    running: int = 0
    queued: int = 0
    waits: tuple[WaitStanding, ...] = ()


@dataclass(frozen=True)
class TenantStanding:
    """A tenant.

    :param configured: whether it is in the configuration; one that is not may still hold what it was granted before.
    """

    tenant: str
    configured: bool
    cohort: str | None
    weight: float
    gpus: tuple[GpuStanding, ...]

    @property
    def above_quota(self) -> bool:
        """Whether it holds more than its quota without borrowing it."""
        return any(one.above_quota for one in self.gpus)


def standings(
    tenants: Iterable[TenantLimits],
    grants: Sequence[Grant],
    waiting: Sequence[tuple[GangRequest, WaitCause | None]],
    now: datetime,
    reservations: Sequence[Reservation] = (),
) -> list[TenantStanding]:
    """All tenants of the configuration in its order, then those that are gone from it and still hold or want something."""
    limits = {tenant.name: tenant for tenant in tenants}
    others = sorted({*(one.tenant for one in grants), *(request.tenant for request, _ in waiting)} - {*limits})
    held = _held(grants)
    kinds = {kind for tenant in limits.values() for kind in tenant.gpu_quota} | {kind for _, kind in held}
    shares: dict[tuple[str, str], _Shares] = {}
    for kind in kinds:
        for cohort in {tenant.cohort for tenant in limits.values() if tenant.cohort is not None}:
            members = [tenant for tenant in limits.values() if tenant.cohort == cohort]
            shares[cohort, kind] = _Shares(members, kind, held)
    found = []
    for name in [*limits, *others]:
        tenant = limits.get(name)
        mine = [one for one in grants if one.tenant == name]
        wants = [one for one in waiting if one[0].tenant == name]
        kept = _kept(one for one in reservations if one.tenant == name)
        rows = {
            *(tenant.gpu_quota if tenant else ()),
            *map(_kind_held, mine),
            *(_kind_wanted(one) for one, _ in wants),
            *kept,
        }
        found.append(
            TenantStanding(
                tenant=name,
                configured=tenant is not None,
                cohort=tenant.cohort if tenant else None,
                weight=tenant.weight if tenant else 0.0,
                gpus=tuple(_row(name, tenant, kind, mine, wants, kept, held, shares, now) for kind in sorted(rows)),
            )
        )
    return found


class _Shares:
    """Who borrows and who lends in one cohort, of one GPU type."""

    def __init__(self, members: Sequence[TenantLimits], kind: str, held: Mapping[tuple[str, str], int]) -> None:
        self._limits = {one.name: one.borrow_limit for one in members}
        self._kind = kind
        self.idle = {one.name: _idle(one, kind, held.get((one.name, kind), 0)) for one in members}
        self.beyond = {one.name: max(held.get((one.name, kind), 0) - one.gpu_quota.get(kind, 0), 0) for one in members}
        allowed = {name: self._allowed(name, gpus) for name, gpus in self.beyond.items()}
        moved = min(sum(allowed.values()), sum(self.idle.values()))
        self.borrowed = _shared_out(moved, allowed)
        self.lent = _shared_out(moved, self.idle)

    def free(self, name: str) -> int:
        """What a member could still borrow: what is left in the pool without its own idle quota."""
        left = sum(self.idle.values()) - sum(self.beyond.values()) - self.idle[name]
        return max(self._allowed(name, left + self.beyond[name]) - self.beyond[name], 0)

    def _allowed(self, name: str, gpus: int) -> int:
        """So many GPUs beyond its quota, as far as its borrowing limit allows them."""
        limit = self._limits[name]
        return gpus if limit is None else min(gpus, limit.get(self._kind, 0))


def _row(
    name: str,
    tenant: TenantLimits | None,
    kind: str,
    mine: Sequence[Grant],
    wants: Sequence[tuple[GangRequest, WaitCause | None]],
    kept: Mapping[str, int],
    held: Mapping[tuple[str, str], int],
    shares: Mapping[tuple[str, str], _Shares],
    now: datetime,
) -> GpuStanding:
    quota = tenant.gpu_quota.get(kind, 0) if tenant else 0
    holds = held.get((name, kind), 0)
    pool = shares.get((tenant.cohort, kind)) if tenant and tenant.cohort is not None else None
    borrowed = pool.borrowed[name] if pool else 0
    waits = [
        (cause, (now - request.waits_since).total_seconds())
        for request, cause in wants
        if _kind_wanted(request) == kind
    ]
    return GpuStanding(
        gpu_type=kind,
        quota=quota,
        held=holds,
        reserved=kept.get(kind, 0),
        borrowed=borrowed,
        lent=pool.lent[name] if pool else 0,
        free_to_borrow=pool.free(name) if pool else 0,
        above_quota=max(holds - quota, 0) - borrowed,
        running=sum(_kind_held(one) == kind for one in mine),
        queued=len(waits),
        waits=_waits(waits),
    )


def _waits(waits: Iterable[tuple[WaitCause | None, float]]) -> tuple[WaitStanding, ...]:
    """By cause, the most frequent first."""
    by_cause: dict[WaitCause | None, list[float]] = {}
    for cause, seconds in waits:
        by_cause.setdefault(cause, []).append(max(seconds, 0.0))
    found = [WaitStanding(cause, len(seconds), max(seconds)) for cause, seconds in by_cause.items()]
    return tuple(sorted(found, key=lambda one: (-one.jobs, -one.longest_s, one.cause or "")))


def _held(grants: Iterable[Grant]) -> dict[tuple[str, str], int]:
    held: dict[tuple[str, str], int] = {}
    for one in grants:
        if one.gpus:
            key = (one.tenant, _kind_held(one))
            held[key] = held.get(key, 0) + one.gpus_total
    return held


def _kept(reservations: Iterable[Reservation]) -> dict[str, int]:
    kept: dict[str, int] = {}
    for one in reservations:
        if one.gpus:
            kind = one.gpu_type or ""
            kept[kind] = kept.get(kind, 0) + one.gpus * len(one.placements)
    return kept


def _kind_held(grant: Grant) -> str:
    return (grant.gpu_type or "") if grant.gpus else NO_GPU


def _kind_wanted(request: GangRequest) -> str:
    return (request.gpu_type or ANY) if request.gpus else NO_GPU


def _idle(tenant: TenantLimits, kind: str, held: int) -> int:
    """What of its quota it lends to whoever wants it: idle, and not kept back by its lending limit."""
    quota = tenant.gpu_quota.get(kind, 0)
    most = quota if tenant.lend_limit is None else min(tenant.lend_limit.get(kind, 0), quota)
    return max(min(quota - held, most), 0)


def _shared_out(total: int, parts: Mapping[str, int]) -> dict[str, int]:
    """A number of GPUs in proportion to the parts, none more than its part, in whole GPUs: the largest remainders first."""
    whole = sum(parts.values())
    if not whole:
        return dict.fromkeys(parts, 0)
    shares = {name: total * part // whole for name, part in parts.items()}
    rest = total - sum(shares.values())
    for name in sorted(parts, key=lambda one: (-(total * parts[one] % whole), one))[:rest]:
        shares[name] += 1
    return shares
