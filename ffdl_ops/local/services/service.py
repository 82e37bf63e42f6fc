"""One service: what it is started with, and when it is ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ffdl_ops.local.services.environment import base_environment
from ffdl_ops.local.services.process import Process, fingerprint, stop_all

__all__ = ["Service"]

_STOP_S = 10.0


@dataclass(frozen=True)
class Service:
    """A service that is one process.

    :param settings: its environment, besides what every service gets; a change of it restarts the service.
    :param ready: whether it answers; may raise ``OSError`` while it does not.
    :param within_s: seconds that it may take to answer.
    """

    process: Process
    command: Sequence[str]
    ready: Callable[[], bool]
    within_s: float
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def mark(self) -> str:
        """The fingerprint of what it is started with."""
        return fingerprint(self.command, self.settings)

    @property
    def current(self) -> bool:
        """Whether it lives and was started with what the configuration says now."""
        return self.process.runs_as(self.mark)

    def start(self) -> None:
        """Start it, or start it again when the configuration has changed, and wait until it answers.

        :raises ServiceFailed: with the end of its log.
        """
        if not self.current:
            stop_all([self.process], within_s=_STOP_S)
            self.process.spawn(self.command, {**base_environment(), **self.settings}, self.mark)
        self.process.wait_ready(self.ready, within_s=self.within_s)
