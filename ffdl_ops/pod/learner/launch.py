"""The user's program from its start to its end: its output by line, the stop that it is asked for, and what came of it."""

from __future__ import annotations

import os
import select
import signal
import time

from ffdl_ops.pod.learner.environment import Learner, Peer, program_environment
from ffdl_ops.pod.learner.keeper import Ending, Keeper
from ffdl_ops.pod.learner.lines import LineSplitter
from ffdl_ops.pod.learner.logs import Log
from ffdl_ops.pod.learner.report import End
from ffdl_ops.pod.learner.watch import Watch

__all__ = ["Launch"]

STOPPED = 143

_MARGIN_S = 5.0
_LOOK_S = 0.25
_DRAIN_S = 5.0
_CHUNK = 256 * 1024


class Launch:
    """One run of the user's program."""

    def __init__(self, learner: Learner, log: Log) -> None:
        self._learner = learner
        self._log = log
        self._lines = LineSplitter()
        self.asked_to_stop = False
        self._kill_at: float | None = None
        self._killed = False

    def take_signals(self) -> None:
        """From now on SIGTERM and SIGINT ask to stop, instead of ending this process."""
        self._wake, waker = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGTERM, self._ask_to_stop)
        signal.signal(signal.SIGINT, self._ask_to_stop)

    def run(self, peers: list[Peer]) -> End:
        """Run the program to its end. Raises `OSError` when no process can be made."""
        started = time.time()
        watch = Watch(self._learner, self._log)
        keeper = Keeper(self._learner.command, self._learner.code_dir, program_environment(self._learner, peers))
        self._log.start()
        watch.start(keeper.pid)
        ending = self._attend(keeper)
        watch.stop()
        return self._end(ending, started, watch)

    def _attend(self, keeper: Keeper) -> Ending:
        """Pass output and stop on until the program has ended."""
        sources = [self._wake, keeper.output, keeper.ending]
        while True:
            ready, _, _ = select.select(sources, [], [], self._patience())
            if self._wake in ready:
                os.read(self._wake, 4096)
            self._pass_stop_on(keeper)
            if keeper.output in ready and not self._pass_output_on(keeper):
                sources.remove(keeper.output)
            self._log.lines(self._lines.due(time.monotonic()))
            if keeper.ending in ready:
                ending = keeper.result()
                self._drain(keeper)
                return ending

    def _patience(self) -> float | None:
        """Seconds until there may be something to do without an event."""
        return _LOOK_S if self._lines.waits or self._kill_at is not None else None

    def _ask_to_stop(self, number: int, frame: object) -> None:
        self.asked_to_stop = True

    def _pass_stop_on(self, keeper: Keeper) -> None:
        """Ask the program to save and stop, and kill it a little before the pod's own grace is over."""
        if not self.asked_to_stop or self._killed:
            return
        now = time.monotonic()
        if self._kill_at is None:
            patience = max(self._learner.grace_s - _MARGIN_S, self._learner.grace_s / 2)
            self._kill_at = now + patience
            keeper.stop()
            self._log.say(f"asked to stop; the program has {patience:g} s to save and end")
        elif now >= self._kill_at:
            self._killed = True
            keeper.kill()
            self._log.say("the program did not end in time and is killed")

    def _pass_output_on(self, keeper: Keeper) -> bool:
        """Pass on what there is; whether more may come."""
        data = os.read(keeper.output, _CHUNK)
        if not data:
            return False
        self._log.lines(self._lines.feed(data, time.monotonic()))
        return True

    def _drain(self, keeper: Keeper) -> None:
        """Pass on what the program had written last; it has ended, so that the end of its output is near."""
        deadline = time.monotonic() + _DRAIN_S
        while select.select([keeper.output], [], [], max(0.0, deadline - time.monotonic()))[0]:
            if not self._pass_output_on(keeper):
                break
        self._log.lines(self._lines.close())

    def _end(self, ending: Ending, started: float, watch: Watch) -> End:
        if os.WIFSIGNALED(ending.status):
            program_code = 128 + os.WTERMSIG(ending.status)
        else:
            program_code = os.WEXITSTATUS(ending.status)
        return End(
            exit_code=STOPPED if ending.stopped else program_code,
            program_exit_code=program_code,
            started=started,
            terminated_by_platform=ending.stopped,
            killed_after_grace=self._killed,
            peak_rss_bytes=max(watch.peak_bytes, ending.peak_bytes),
            oom_kills=watch.oom_kills(),
            step=watch.step,
        )
