"""The queue's live side: a job's request, and the pass that grants leases.

Any waiting trigger may run the pass for everybody: it is one transaction under the ledger's lock. One process runs it at
most once per tick, however many jobs wait in it, and whoever frees places runs it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.cluster.observe import node_view
from ffdl_ops.adapters.cluster.others import Others, beside
from ffdl_ops.adapters.cluster.specs import HELPER_CPU_MILLIS, HELPER_MEMORY_BYTES
from ffdl_ops.core.accounting.holdings import gpu_seconds
from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.core.jobs.states import JobState
from ffdl_ops.core.jobs.units import parse_duration
from ffdl_ops.core.scheduling.decisions import Admit, Wait
from ffdl_ops.core.scheduling.model import GangRequest, Level, Strategy
from ffdl_ops.core.scheduling.reasons import wait_words
from ffdl_ops.pipeline.services import Services, now

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord, LeaseRecord, QueueState
    from ffdl_ops.core.jobs.manifest import Manifest

__all__ = [
    "CLOCK", "AdmissionClock", "Standing", "ask", "give_back", "granted_words", "lease_facts", "places_are_free",
    "request_of", "run_pass", "waiting_words",
]  # fmt: skip

_log = logging.getLogger(__name__)
_OTHERS = Others()


def request_of(svc: Services, job: JobRecord) -> GangRequest:
    """What the job asks of the scheduler; a learner's request includes the side-car that runs beside it, if one does."""
    manifest = load_manifest(job.manifest)
    held = svc.ledger.leases(job.job_id)
    layout = manifest.placement
    return GangRequest(
        job_id=job.job_id,
        tenant=job.tenant,
        learners_min=manifest.learners_min,
        learners_max=manifest.learners_max,
        gpus=manifest.gpus,
        gpu_type=manifest.gpu_type,
        cpu_millis=_with_helpers(manifest, manifest.cpu_millis, HELPER_CPU_MILLIS),
        memory_bytes=_with_helpers(manifest, manifest.memory_bytes, HELPER_MEMORY_BYTES),
        priority=manifest.priority,
        submitted_at=job.created_at,
        excluded_nodes=frozenset(job.excluded_nodes or ()),
        user=job.user,
        expected_s=manifest.expected_seconds,
        served_s=sum(((one.released_at or now()) - one.granted_at).total_seconds() for one in held),
        served_gpu_s=gpu_seconds(held, now()),
        strategy=Strategy(layout.strategy) if layout.strategy else None,
        level=Level[layout.within.upper()] if layout.within else None,
        relax_s=parse_duration(layout.relax_after) if layout.relax_after else None,
    )


def _with_helpers(manifest: Manifest, learner: int, helper: int) -> int:
    """What a pod takes: learner and side-car together; without one, the larger of learner and what prepares it."""
    return learner + helper if manifest.checkpoint.enabled else max(learner, helper)


def ask(svc: Services, job: JobRecord) -> tuple[LeaseRecord | None, Wait | None]:
    """Ask for the job's gang: its lease if it is granted now, else why it waits. Asking twice asks once.

    A lease whose job has been told to stop is given back first, unless an attempt still runs under it.
    """
    give_back(svc, job)
    lease = svc.ledger.lease(job.job_id)
    if lease is not None:
        return lease, None
    svc.advance(job.job_id, JobState.QUEUED, "asked for its gang")
    svc.ledger.enqueue(request_of(svc, job), now())
    waits = run_pass(svc)
    return svc.ledger.lease(job.job_id), waits.get(job.job_id)


def give_back(svc: Services, job: JobRecord) -> str | None:
    """Give back the job's lease if it was told to, and no attempt runs under it; the caller knows that no pod does.

    :returns: for whom and why, when it was given back.
    """
    lease = svc.ledger.lease(job.job_id)
    if lease is None or lease.preempted_at is None or svc.ledger.open_attempt(job.job_id) is not None:
        return None
    words = str((lease.preemption or {}).get("words", "it was told to stop"))
    svc.ledger.release_lease(job.job_id, lease.epoch, words[:200], now())
    return words


def run_pass(svc: Services) -> dict[str, Wait]:
    """Run one admission pass over everything that waits.

    :returns: by job id, why each job that still waits does.
    """
    label = svc.platform.scheduler.rack_label
    nodes = beside([node_view(node, label) for node in svc.cluster.nodes()], _OTHERS.taken(svc.cluster))
    tenants = {tenant.name: tenant for tenant in svc.settings.tenants}
    decisions = svc.ledger.admission_pass(nodes, tenants, svc.platform.scheduler.rules, now())
    if any(isinstance(decision, Admit) for decision in decisions):
        CLOCK.nudge()
    return {decision.job_id: decision for decision in decisions if isinstance(decision, Wait)}


def places_are_free(svc: Services) -> None:
    """Something was released: let the next start now. What was released stays so, whatever this comes to."""
    try:
        run_pass(svc)
    except Exception as error:  # the next tick of any waiting job does it
        _log.warning("The queue is not looked at for now: %s", error)


def waiting_words(wait: Wait) -> str:
    """The line that a waiting job's log shows."""
    return f"Waiting ({wait.cause}, position {wait.position}): {wait_words(wait)}"


def lease_facts(lease: LeaseRecord) -> dict[str, Any]:
    """What the stages after `admit` are told of the lease."""
    return {"epoch": lease.epoch, "nodes": {f"learner {place.rank + 1}": place.node for place in lease.placements}}


def granted_words(lease: LeaseRecord) -> str:
    """The line that a granted job's log shows."""
    nodes = ", ".join(f"{who} on {node}" for who, node in lease_facts(lease)["nodes"].items())
    return f"Granted: lease {lease.epoch}, {nodes}."


@dataclass(frozen=True)
class Standing:
    """How things stand after a pass.

    :param waits: by job id, why each waits; empty if another process ran the pass.
    """

    state: QueueState
    waits: Mapping[str, Wait] = field(default_factory=dict)


class AdmissionClock:
    """Runs the pass at most once per tick in this process, and shares what it said with all who wait here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = float("-inf")
        self._standing: Standing | None = None
        self._limits: object = None
        self._event: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def standing(self, svc: Services, tick_s: float) -> Standing:
        """How things stand by the newest pass of this process (which this call runs when it is due).

        :param tick_s: seconds between two passes.
        """
        with self._lock:
            if self._standing is None or time.monotonic() - self._last >= tick_s:
                self._note_limits(svc)
                waits = run_pass(svc)
                self._standing = Standing(svc.ledger.queue_state(), waits)
                self._last = time.monotonic()
            return self._standing

    async def wait(self, seconds: float) -> None:
        """Wait so long, or until something has been granted by this process."""
        if self._event is None:
            self._event, self._loop = asyncio.Event(), asyncio.get_running_loop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), seconds)

    def nudge(self) -> None:
        """Wake all who wait here; from any thread."""
        loop = self._loop
        self._last = float("-inf")
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        event, self._event = self._event, None
        if event is not None:
            event.set()

    def _note_limits(self, svc: Services) -> None:
        """Put changed quotas into the audit; a file that has not changed is not looked at again."""
        tenants = svc.settings.tenants
        if tenants is not self._limits:
            svc.ledger.note_limits({tenant.name: tenant.limits for tenant in tenants}, now())
            self._limits = tenants


CLOCK = AdmissionClock()
"""This process's."""
