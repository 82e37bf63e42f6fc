"""The queue's live side: a job's request, and the pass that grants leases.

Any waiting trigger may run the pass for everybody: it is one transaction under the ledger's lock. One process runs it at
most once per tick, however many jobs wait in it.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from ffdl_ops.adapters.cluster.observe import node_view
from ffdl_ops.adapters.cluster.specs import HELPER_CPU_MILLIS, HELPER_MEMORY_BYTES
from ffdl_ops.core.jobs.manifest import load_manifest
from ffdl_ops.core.jobs.states import JobState
from ffdl_ops.core.scheduling.model import GangRequest, Wait
from ffdl_ops.pipeline.services import Services, now

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord, LeaseRecord

__all__ = ["AdmissionClock", "ask", "request_of", "run_pass"]


def request_of(job: JobRecord) -> GangRequest:
    """What the job asks of the scheduler; a learner's request includes the side-car that runs beside it."""
    manifest = load_manifest(job.manifest)
    return GangRequest(
        job_id=job.job_id,
        tenant=job.tenant,
        learners_min=manifest.learners_min,
        learners_max=manifest.learners_max,
        gpus=manifest.gpus,
        gpu_type=manifest.gpu_type,
        cpu_millis=manifest.cpu_millis + HELPER_CPU_MILLIS,
        memory_bytes=manifest.memory_bytes + HELPER_MEMORY_BYTES,
        priority=manifest.priority,
        submitted_at=job.created_at,
        excluded_nodes=frozenset(job.excluded_nodes or ()),
        user=job.user,
    )


def ask(svc: Services, job: JobRecord) -> tuple[LeaseRecord | None, Wait | None]:
    """Ask for the job's gang: its lease if it is granted now, else why it waits. Asking twice asks once."""
    lease = svc.ledger.lease(job.job_id)
    if lease is not None:
        return lease, None
    svc.advance(job.job_id, JobState.QUEUED, "asked for its gang")
    svc.ledger.enqueue(request_of(job), now())
    waits = run_pass(svc)
    return svc.ledger.lease(job.job_id), waits.get(job.job_id)


def run_pass(svc: Services) -> dict[str, Wait]:
    """Run one admission pass over everything that waits.

    :returns: by job id, why each job that still waits does.
    """
    nodes = [node_view(node) for node in svc.cluster.nodes()]
    tenants = {tenant.name: tenant for tenant in svc.settings.tenants}
    decisions = svc.ledger.admission_pass(nodes, tenants, svc.platform.scheduler.policy, now())
    return {decision.job_id: decision for decision in decisions if isinstance(decision, Wait)}


class AdmissionClock:
    """Runs the pass at most once per tick in this process, and shares what it said.

    :param tick_s: seconds between two passes.
    """

    def __init__(self, tick_s: float) -> None:
        self.tick_s = tick_s
        self._lock = threading.Lock()
        self._last = float("-inf")
        self._waits: dict[str, Wait] = {}

    def waits(self, svc: Services) -> dict[str, Wait]:
        """Why jobs wait, by the newest pass of this process (which this call runs when it is due)."""
        with self._lock:
            if time.monotonic() - self._last >= self.tick_s:
                self._waits = run_pass(svc)
                self._last = time.monotonic()
            return self._waits
