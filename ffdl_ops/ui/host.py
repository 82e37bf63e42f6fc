"""What a page asks of the server that it is shown in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fastapi import Request

    from ffdl_ops.adapters.ledger import JobRecord, LeaseRecord, QueuedRecord, WaitRecord

__all__ = ["Host", "MayRead", "WaitLedger"]

MayRead = Callable[[str], bool]
"""Whether one person may read the runs of a DAG, by its id. May block."""


class WaitLedger(Protocol):
    """What of the ledger the page reads."""

    def job(self, job_id: str) -> JobRecord | None:
        """A job's record."""

    def queued(self, job_id: str) -> QueuedRecord | None:
        """Its place in the queue."""

    def waits(self, job_id: str) -> list[WaitRecord]:
        """Its waits, in order."""

    def lease(self, job_id: str) -> LeaseRecord | None:
        """What it holds."""


class Host(Protocol):
    """The server around the page."""

    def ledger(self) -> WaitLedger:
        """The durable record."""

    async def reader(self, request: Request) -> MayRead | None:
        """What the person who asks may read; ``None`` when nobody is logged in."""

    def login_page(self, request: Request) -> str:
        """Where the person logs in, and comes back from to what was asked for."""

    def run_page(self, request: Request, dag_id: str, run_id: str) -> str:
        """The page of a DAG run."""
