"""The decision itself: who of the queue starts now.

How it works. The queue is served by priority, then arrival. A gang is placed whole or not at all. What a gang of a tenant
waits for is kept from those of the same tenant behind it: they don't overtake it, except onto nodes of another GPU type
than the one it waits for. So the head of a tenant's queue starts as soon as it fits, and one tenant's queue never hides
another's.

A gang that could not start on an idle cluster (larger than its quota or than the nodes that are up) holds up nobody.

What it does not do: keep free GPUs for a gang of another tenant that is larger (no reservation), preempt, or lend quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ffdl_ops.core.scheduling import reasons
from ffdl_ops.core.scheduling.fit import Rooms, pack, type_of
from ffdl_ops.core.scheduling.model import (
    Admit,
    Decision,
    GangRequest,
    Grant,
    Placement,
    Snapshot,
    TenantLimits,
    Wait,
    in_order,
)
from ffdl_ops.core.scheduling.quota import Usage

__all__ = ["POLICIES", "decide"]

POLICIES = ("fifo",)


def decide(
    snapshot: Snapshot,
    queue: Iterable[GangRequest],
    tenants: Mapping[str, TenantLimits],
    policy: str,
    now: datetime,
) -> tuple[Decision, ...]:
    """Decide for every gang of the queue whether it starts now or why it waits.

    :param snapshot: nodes and live grants.
    :param queue: what waits, in any order; a job that holds a grant already is left out.
    :param tenants: limits by tenant name; a tenant that is not there may hold nothing.
    :param policy: one of :data:`POLICIES`.
    :param now: the present moment; the simple rule does not depend on it.
    :returns: one decision for each gang, in the order in which they were made.
    :raises ValueError: for a policy that does not exist.
    """
    if policy not in POLICIES:
        raise ValueError(f"There is no scheduling policy {policy!r}; there is {', '.join(POLICIES)}.")
    state = _State(snapshot, tenants)
    holding = {grant.job_id for grant in snapshot.grants}
    return tuple(state.serve(request) for request in in_order(queue) if request.job_id not in holding)


@dataclass
class _Line:
    """One tenant's queue while it is being served.

    :param waiting: its gangs that wait, so far.
    :param kept_types: GPU types that a gang in front waits for.
    :param closed_by: the gang that waits for something that any gang behind it would take from it.
    """

    waiting: list[GangRequest] = field(default_factory=list)
    kept_types: dict[str, GangRequest] = field(default_factory=dict)
    closed_by: GangRequest | None = None


class _State:
    """What is free and held while the queue is served."""

    def __init__(self, snapshot: Snapshot, tenants: Mapping[str, TenantLimits]) -> None:
        self.nodes = snapshot.nodes
        self.tenants = tenants
        self.rooms = Rooms(snapshot.nodes, snapshot.grants)
        self.grants = list(snapshot.grants)
        self.usage: dict[str, Usage] = {}
        for grant in snapshot.grants:
            self.usage.setdefault(grant.tenant, Usage()).add(grant)
        self.lines: dict[str, _Line] = {}

    def serve(self, request: GangRequest) -> Decision:
        """Decide for the next gang and count it."""
        line = self.lines.setdefault(request.tenant, _Line())
        tenant = self.tenants.get(request.tenant)
        if tenant is None:
            line.waiting.append(request)
            return reasons.no_tenant(request, len(line.waiting))
        if line.closed_by is None:
            found = self._best(request, tenant, line)
            if found is not None:
                return self._admit(request, *found)
        line.waiting.append(request)
        return self._wait(request, tenant, line)

    def _kinds(self, request: GangRequest) -> Sequence[str | None]:
        """The GPU types that the gang may run on; ``[None]`` when it takes no GPU."""
        if not request.gpus:
            return [None]
        if request.gpu_type is not None:
            return [request.gpu_type]
        return sorted({kind for kind in map(type_of, self.nodes) if kind is not None})

    def _best(
        self, request: GangRequest, tenant: TenantLimits, line: _Line
    ) -> tuple[tuple[Placement, ...], str | None] | None:
        """The largest gang that fits, on the fewest nodes, with its GPU type."""
        usage = self.usage.setdefault(request.tenant, Usage())
        kinds = [kind for kind in self._kinds(request) if kind not in line.kept_types]
        for learners in range(request.learners_max, request.learners_min - 1, -1):
            found = []
            for kind in kinds:
                if usage.shortage(request, learners, kind, tenant) is None:
                    placements = pack(request, learners, self.rooms.open_to(request, kind, line.kept_types))
                    if placements is not None:
                        found.append((placements, kind))
            if found:
                return min(found, key=lambda one: (len({place.node for place in one[0]}), one[1] or ""))
        return None

    def _admit(self, request: GangRequest, placements: tuple[Placement, ...], gpu_type: str | None) -> Admit:
        grant = Grant(
            job_id=request.job_id,
            tenant=request.tenant,
            epoch=0,
            placements=placements,
            gpus=request.gpus,
            cpu_millis=request.cpu_millis,
            memory_bytes=request.memory_bytes,
            gpu_type=gpu_type,
        )
        self.rooms.take(placements, request.gpus, request.cpu_millis, request.memory_bytes)
        self.usage[request.tenant].add(grant)
        self.grants.append(grant)
        return Admit(request.job_id, placements, gpu_type)

    def _wait(self, request: GangRequest, tenant: TenantLimits, line: _Line) -> Wait:
        """Say why it waits, and keep what it waits for from those behind it."""
        position = len(line.waiting)
        kinds = self._kinds(request)
        own = [kind for kind in kinds if kind not in line.kept_types]
        if line.closed_by is not None:
            return reasons.behind(request, position, line.closed_by)
        if kinds and not own:
            return reasons.behind(request, position, next(line.kept_types[kind] for kind in kinds if kind is not None))
        usage = self.usage.setdefault(request.tenant, Usage())
        shortages = {kind: usage.shortage(request, request.learners_min, kind, tenant) for kind in own}
        short = [one for one in shortages.values() if one is not None]
        if short and len(short) == len(own):
            wait = reasons.over_quota(request, position, short, self.grants)
        else:
            within = [kind for kind, one in shortages.items() if one is None]
            wait = self._no_room(request, position, within, line)
        if self._possible(request, kinds, tenant):
            self._keep(request, line, whole_tenant=any(one.gpu_type is None for one in short))
        return wait

    def _no_room(self, request: GangRequest, position: int, kinds: Sequence[str | None], line: _Line) -> Wait:
        """Why no node takes it, though its tenant's quota would."""
        if line.kept_types and not request.gpus:
            everywhere = self.rooms.open_to(request, None)
            if pack(request, request.learners_min, everywhere) is not None:
                return reasons.behind(request, position, next(iter(line.kept_types.values())))
        rooms = {kind: self.rooms.open_to(request, kind, line.kept_types) for kind in kinds}
        return reasons.no_room(request, position, rooms, self.nodes, self.grants)

    def _possible(self, request: GangRequest, kinds: Sequence[str | None], tenant: TenantLimits) -> bool:
        """Whether it could start if nothing else ran; one that can't must not hold up those behind it."""
        empty = Rooms(self.nodes)
        return any(
            Usage().shortage(request, request.learners_min, kind, tenant) is None
            and pack(request, request.learners_min, empty.open_to(request, kind)) is not None
            for kind in kinds
        )

    @staticmethod
    def _keep(request: GangRequest, line: _Line, *, whole_tenant: bool) -> None:
        """Keep from those behind it what it waits for: a GPU type's nodes, or everything that any of them could take."""
        if whole_tenant or not request.gpus or request.gpu_type is None:
            line.closed_by = request
        else:
            line.kept_types.setdefault(request.gpu_type, request)
