"""A trigger that looks, in a thread, again and again until there is something to tell.

The platform's adapters are synchronous; each look runs in a worker thread, so the triggerer's event loop is never
blocked. A look that fails is told in the log and tried again: an outage of the ledger or the cluster ends no job.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

__all__ = ["LookingTrigger"]

_MAX_PAUSE_S = 15.0
_THREADS = 16


class LookingTrigger(BaseTrigger):
    """Base of the platform's triggers.

    :param job_id: the job that it serves.
    :param poll_s: seconds between two looks.
    """

    _pool: ClassVar[ThreadPoolExecutor | None] = None

    def __init__(self, job_id: str, poll_s: float = 1.0, **kwargs: Any) -> None:
        super().__init__()
        self.job_id = job_id
        self.poll_s = poll_s

    def arguments(self) -> dict[str, Any]:
        """The arguments that make this trigger again."""
        return {"job_id": self.job_id, "poll_s": self.poll_s}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments (Airflow stores them)."""
        kind = type(self)
        return f"{kind.__module__}.{kind.__qualname__}", self.arguments()

    @abstractmethod
    def look(self) -> dict[str, Any] | None:
        """Look once (in a thread): the event to fire, or ``None`` to look again."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until there is an event."""
        failures = 0
        while True:
            pause = self.poll_s
            try:
                event = await self._in_thread()
                failures = 0
            except Exception as error:  # an outage must not end the job; anything else shows here again and again
                failures += 1
                event = None
                pause = min(_MAX_PAUSE_S, self.poll_s * 2**failures)
                self.log.warning("Could not look (%s: %s); again in %.0f s.", type(error).__name__, error, pause)
            if event is not None:
                yield self.told(event)
                return
            await self.pause(pause)

    def told(self, event: dict[str, Any]) -> TriggerEvent:
        """The event in Airflow's terms: here, one that wakes the task."""
        return TriggerEvent(event)

    async def pause(self, seconds: float) -> None:
        """Wait for the next look."""
        await asyncio.sleep(seconds)

    async def _in_thread(self) -> dict[str, Any] | None:
        import contextvars

        if LookingTrigger._pool is None:
            LookingTrigger._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="ffdl-look")
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(LookingTrigger._pool, context.run, self.look)
