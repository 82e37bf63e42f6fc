"""What the scheduler knows, kept up to date by events: nodes, what is held and kept of them, tenants' accounts, the queue.

:func:`~ffdl_ops.core.scheduling.decide.run` decides from it. An index that has been fed events decides as one that is built anew
from a snapshot does; it is only faster, since it remembers for which lanes nothing has changed since they were last tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from ffdl_ops.core.scheduling.model import (
    GangRequest,
    Grant,
    Level,
    NodeView,
    Placement,
    Reservation,
    Snapshot,
    TenantLimits,
)
from ffdl_ops.core.scheduling.placement import Ask, place
from ffdl_ops.core.scheduling.policy import Policy
from ffdl_ops.core.scheduling.queue import Lane, Queue
from ffdl_ops.core.scheduling.quota import Accounts
from ffdl_ops.core.scheduling.rooms import Need, Rooms

__all__ = ["Held", "Index"]

Held = Grant | Reservation
_NOTHING: frozenset[str] = frozenset()


class Index:
    """The facts, in the shape in which decisions need them.

    :param tenants: limits by tenant name; a tenant that is not there may hold nothing.
    :param policy: how the queue is served.
    :param snapshot: what there is at first.
    :param queue: what waits at first; a job that holds a grant already is left out.
    :param now: the present moment.
    """

    def __init__(
        self,
        tenants: Mapping[str, TenantLimits],
        policy: Policy,
        snapshot: Snapshot,
        queue: Iterable[GangRequest],
        now: datetime,
    ) -> None:
        self.tenants = tenants
        self.policy = policy
        self.closed = snapshot.closed
        self.nodes = {node.name: node for node in snapshot.nodes}
        usable = [node for node in snapshot.nodes if node.usable]
        # What is held is taken before the rooms are put in order: moving each once for every grant would take most of the time.
        self.rooms = Rooms(usable, ((grant.placements, _need(grant)) for grant in snapshot.grants))
        self.idle = Rooms(usable)
        self.accounts = Accounts(tenants)
        self.grants: dict[str, Grant] = {}
        self._by_tenant: dict[str, dict[str, Grant]] = {}
        self._by_node: dict[str, set[tuple[str, str]]] | None = None
        self._priorities: Counter[int] = Counter()
        self.reservations: dict[str, Reservation] = {}
        self.queue = Queue(policy, {name for name, one in tenants.items() if _limits_users(one)})
        self.untried: dict[int, Lane] = {}
        self._epoch = 0
        self._wholes: dict[tuple[Need, str | None], int] = {}
        self._possible: dict[tuple[object, ...], bool] = {}
        self._shares: dict[str, float] = {}
        self._totals: tuple[dict[str, int], int, int] | None = None
        for grant in snapshot.grants:
            self._note_grant(grant)
            self.accounts.add(grant)
        for request in queue:
            if request.job_id not in self.grants:
                self.queue.add(request, now)
        self._try(*self.queue.lanes.values())
        for reservation in snapshot.reservations:
            self.keep(reservation)

    # Events

    def came(self, request: GangRequest, now: datetime) -> None:
        """A gang asks for its places, or asks for something else than before."""
        if request.job_id not in self.grants:
            lane = self.queue.add(request, now)
            self._try(*self._lanes_of(request.tenant) if self.policy.strict else (lane,))

    def advance(self, now: datetime) -> None:
        """Time has passed: some gangs are treated differently by now."""
        for lane in self.queue.advance(now):
            self._try(*self._lanes_of(lane.tenant) if self.policy.strict else (lane,))

    def left(self, job_id: str) -> None:
        """A gang does not wait any more; what was kept for it is free."""
        self.unkeep(job_id)
        request = self.queue.remove(job_id)
        if request is not None and self.policy.strict:
            self._try(*self._lanes_of(request.tenant))

    def granted(self, grant: Grant) -> None:
        """A gang holds places (and waits no more)."""
        self.queue.remove(grant.job_id)
        self.unkeep(grant.job_id)
        self._note_grant(grant)
        self._list(grant)
        self._count(grant, 1)

    def released(self, job_id: str) -> None:
        """What a gang held is free: its pods are confirmed gone."""
        grant = self.grants.pop(job_id, None)
        if grant is not None:
            del self._by_tenant[grant.tenant][job_id]
            self._priorities[grant.priority] -= 1
            self._unlist(grant)
            self._count(grant, -1)
            self._try(*self.queue.lanes.values())

    def changed(self, grant: Grant) -> None:
        """Something other than the places of a live grant has changed: its checkpoint, its expected end, …"""
        before = self.grants.get(grant.job_id)
        if before is not None:
            self._priorities[before.priority] -= 1
            self._priorities[grant.priority] += 1
            self._keep_grant(grant)

    def node_changed(self, node: NodeView) -> None:
        """A node is new, or gives or allows something else than before."""
        if self.nodes.get(node.name) == node:
            return
        self.node_gone(node.name)
        self.nodes[node.name] = node
        if node.usable:
            self.rooms.add(node)
            self.idle.add(node)
            for held in self._held_on(node.name):
                self.rooms.take([place for place in held.placements if place.node == node.name], _need(held))
        self._cluster_changed()

    def node_gone(self, name: str) -> None:
        """A node is not there any more."""
        if self.nodes.pop(name, None) is not None and name in self.rooms.rooms:
            self.rooms.remove(name)
            self.idle.remove(name)
        self._cluster_changed()

    def _held_on(self, name: str) -> Iterator[Held]:
        """What is held or kept on a node. Only an index that is fed with nodes' events keeps a list by node."""
        if self._by_node is None:
            self._by_node = {}
            for grant in self.grants.values():
                self._list(grant)
            for kept in self.reservations.values():
                self._list(kept)
        held_here: Mapping[str, Mapping[str, Held]] = {"grant": self.grants, "reservation": self.reservations}
        for job_id, what in sorted(self._by_node.get(name, ())):
            held = held_here[what].get(job_id)
            if held is not None:
                yield held

    def _list(self, held: Held) -> None:
        if self._by_node is not None:
            what = "grant" if isinstance(held, Grant) else "reservation"
            for name in {place.node for place in held.placements}:
                self._by_node.setdefault(name, set()).add((held.job_id, what))

    def _unlist(self, held: Held) -> None:
        if self._by_node is not None:
            what = "grant" if isinstance(held, Grant) else "reservation"
            for name in {place.node for place in held.placements}:
                self._by_node.get(name, set()).discard((held.job_id, what))

    def keep(self, reservation: Reservation) -> None:
        """Places are kept for a gang that waits."""
        if reservation.job_id in self.queue.requests and reservation.job_id not in self.reservations:
            self.reservations[reservation.job_id] = reservation
            self._list(reservation)
            self._count(reservation, 1)
            if self.policy.strict:
                # Those behind it in the queue are not held up by it any more.
                self._try(*self._lanes_of(reservation.tenant))

    def unkeep(self, job_id: str) -> None:
        """They are not kept any more."""
        reservation = self.reservations.pop(job_id, None)
        if reservation is not None:
            self._unlist(reservation)
            self._count(reservation, -1)
            self._try(*self.queue.lanes.values())

    # Questions

    def grants_of(self, tenant: str) -> Iterable[Grant]:
        """What a tenant's jobs hold."""
        return self._by_tenant.get(tenant, {}).values()

    def some_outrank(self) -> bool:
        """Whether anything that waits has a higher priority than anything that runs."""
        lowest = min((one for one, count in self._priorities.items() if count), default=None)
        return lowest is not None and any(one > lowest for one, count in self.queue.priorities.items() if count)

    def next_epoch(self) -> int:
        """A number for a grant that this index makes."""
        return self._epoch + 1

    def share(self, tenant: str) -> float:
        """Its dominant share of the cluster: the largest part of any resource that it holds, over its weight."""
        share = self._shares.get(tenant)
        if share is None:
            share = self._shares[tenant] = self._share(tenant)
        return share

    def whole(self, need: Need, kind: str | None) -> int:
        """How many learners an idle node of a kind holds, at most."""
        known = self._wholes.get((need, kind))
        if known is None:
            known = max((one.slots(need) for one in self.idle.sizes if kind in (None, one.kind)), default=0)
            self._wholes[need, kind] = known
        return known

    def layout(
        self, request: GangRequest, kind: str | None, most: int, level: Level, skip: frozenset[str] = _NOTHING
    ) -> tuple[Placement, ...] | None:
        """Where the gang would go now with GPUs of a kind, in as many learners as fit.

        A level that the cluster could not offer even when it is idle is passed over.
        """
        ask = self._ask(request, kind, most, self._offered(request, kind, level), skip)
        return place(self.rooms, ask, self.whole(ask.need, kind))

    def possible(self, request: GangRequest, kind: str | None, level: Level | None = None) -> bool:
        """Whether the smallest gang could be placed at this level (at its loosest) if nothing else ran."""
        level = self.policy.loosest(request) if level is None else level
        need = Need.of(request)
        key = (need, kind, request.learners_min, request.excluded_nodes, level, self.policy.strategy_of(request))
        known = self._possible.get(key)
        if known is None:
            ask = self._ask(request, kind, request.learners_min, level)
            known = self._possible[key] = place(self.idle, ask, self.whole(need, kind)) is not None
        return known

    @contextmanager
    def without(self, *helds: Held) -> Iterator[None]:
        """As if these were gone."""
        for held in helds:
            self._count(held, -1)
        try:
            yield
        finally:
            for held in helds:
                self._count(held, 1)

    def lift(self, held: Held) -> None:
        """As if it were gone, until it is put back with :meth:`put_back`."""
        self._count(held, -1)

    def put_back(self, held: Held) -> None:
        """Undo :meth:`lift`."""
        self._count(held, 1)

    # How it is kept

    def _note_grant(self, grant: Grant) -> None:
        self._priorities[grant.priority] += 1
        self._keep_grant(grant)
        self._epoch = max(self._epoch, grant.epoch)

    def _keep_grant(self, grant: Grant) -> None:
        self.grants[grant.job_id] = grant
        self._by_tenant.setdefault(grant.tenant, {})[grant.job_id] = grant

    def _ask(
        self, request: GangRequest, kind: str | None, most: int, level: Level, skip: frozenset[str] = _NOTHING
    ) -> Ask:
        return Ask(
            need=Need.of(request),
            least=request.learners_min,
            most=most,
            kind=kind,
            level=level,
            strategy=self.policy.strategy_of(request),
            skip=request.excluded_nodes | skip if skip else request.excluded_nodes,
            seed=request.job_id,
        )

    def _offered(self, request: GangRequest, kind: str | None, level: Level) -> Level:
        loosest = self.policy.loosest(request)
        while level < loosest and not self.possible(request, kind, level):
            level = Level(level + 1)
        return level

    def _count(self, held: Held, sign: int) -> None:
        self.rooms.take(held.placements, _need(held), sign)
        self.accounts.add(held, sign)
        self._shares.pop(held.tenant, None)

    def _try(self, *lanes: Lane) -> None:
        for lane in lanes:
            self.untried[id(lane)] = lane

    def _lanes_of(self, tenant: str) -> list[Lane]:
        return [lane for lane in self.queue.lanes.values() if lane.tenant == tenant]

    def _cluster_changed(self) -> None:
        self._wholes.clear()
        self._possible.clear()
        self._shares.clear()
        self._totals = None
        self._try(*self.queue.lanes.values())

    def _share(self, tenant: str) -> float:
        limits = self.tenants.get(tenant)
        if limits is None:
            return 0.0
        if self._totals is None:
            self._totals = self._count_totals()
        gpus, cpus, memory = self._totals
        usage = self.accounts.of(tenant)
        parts = [held / gpus[kind] for kind, held in usage.gpus.items() if gpus.get(kind)]
        parts += [usage.cpu_millis / cpus if cpus else 0.0, usage.memory_bytes / memory if memory else 0.0]
        return max(parts) / limits.weight

    def _count_totals(self) -> tuple[dict[str, int], int, int]:
        gpus: dict[str, int] = {}
        cpus = memory = 0
        for room in self.idle.rooms.values():
            if room.kind is not None:
                gpus[room.kind] = gpus.get(room.kind, 0) + room.node.gpus
            cpus += room.node.cpu_millis
            memory += room.node.memory_bytes
        return gpus, cpus, memory


def _limits_users(tenant: TenantLimits) -> bool:
    return tenant.max_running_per_user is not None or tenant.max_gpus_per_user is not None


def _need(held: Held) -> Need:
    return Need(held.gpus, held.cpu_millis, held.memory_bytes)
