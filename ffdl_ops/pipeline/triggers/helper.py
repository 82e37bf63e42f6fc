"""Waiting for a helper pod that takes longer than a task should wait in place."""

from __future__ import annotations

import time
from typing import Any

from ffdl_ops.pipeline.helpers import helper_end
from ffdl_ops.pipeline.services import services
from ffdl_ops.pipeline.triggers.base import LookingTrigger

__all__ = ["HelperTrigger"]


class HelperTrigger(LookingTrigger):
    """Fires ``{"pod": name}`` when the helper has ended; the task reads how.

    :param job_id: the job.
    :param namespace: the tenant's namespace.
    :param pod: the helper's name.
    :param since: when the wait began, in seconds since the epoch.
    """

    def __init__(
        self,
        job_id: str,
        namespace: str,
        pod: str,
        since: float | None = None,
        poll_s: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(job_id, poll_s, **kwargs)
        self.namespace = namespace
        self.pod = pod
        self.since = time.time() if since is None else since

    def arguments(self) -> dict[str, Any]:
        """The arguments that make this trigger again."""
        return {**super().arguments(), "namespace": self.namespace, "pod": self.pod, "since": self.since}

    def look(self) -> dict[str, Any] | None:
        """See whether the helper has ended."""
        end = helper_end(services(), self.namespace, self.pod, age_s=time.time() - self.since)
        return {"pod": self.pod, "since": self.since} if end is not None else None
