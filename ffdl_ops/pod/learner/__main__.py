"""Entry of the launcher: rendezvous, then the user's program, then the exit report."""

from __future__ import annotations

import os
import sys
import time

from ffdl_ops.pod.learner.environment import Learner, WrongEnvironment
from ffdl_ops.pod.learner.launch import STOPPED, Launch
from ffdl_ops.pod.learner.logs import Log
from ffdl_ops.pod.learner.rendezvous import RendezvousFailed, meet
from ffdl_ops.pod.learner.report import End, write_report, write_termination

__all__ = ["main"]

WRONG_ENVIRONMENT = 78
CANT_WRITE = 74


def main() -> int:
    """Run this learner; returns its exit code.

    It is the program's own (128+n for signal n), 143 after a SIGTERM, and of the launcher's own 74 (the job's volume can't be
    written, or no process made), 75 (the gang did not meet) and 78 (the pod's environment can't be used).
    """
    started = time.time()
    try:
        learner = Learner(dict(os.environ))
    except WrongEnvironment as error:
        print(f"launcher: {error}", file=sys.stderr)
        report = {"exit_code": WRONG_ENVIRONMENT, "reason": f"launcher: {error}"}
        write_termination(os.environ.get("FFDL_TERMINATION_LOG", ""), report)
        return WRONG_ENVIRONMENT
    problem = None
    try:
        learner.make_directories()
    except OSError as error:
        problem = f"launcher: a directory can't be made: {error}"
    log = Log(learner.learner_id, learner.log_path)
    if problem:
        log.say(problem)
        return write_report(learner, log, End(CANT_WRITE, started, reason=problem))
    log.event("start", _facts(learner))
    launch = Launch(learner, log)
    launch.take_signals()
    return write_report(learner, log, _run(learner, log, launch, started))


def _run(learner: Learner, log: Log, launch: Launch, started: float) -> End:
    try:
        peers = meet(learner, stopped=lambda: launch.asked_to_stop)
        log.event(
            "rendezvous", {"addresses": [peer.address for peer in peers], "seconds": round(time.time() - started, 3)}
        )
        return launch.run(peers)
    except RendezvousFailed as failure:
        log.say(f"rendezvous: {failure}")
        stopped = failure.code == STOPPED
        return End(failure.code, started, terminated_by_platform=stopped, reason=f"rendezvous: {failure}")
    except OSError as error:
        return End(CANT_WRITE, started, reason=f"launcher: the program could not be started: {error}")


def _facts(learner: Learner) -> dict[str, object]:
    """What the `start` event tells."""
    facts: dict[str, object] = {
        "attempt": learner.attempt,
        "rank": learner.rank,
        "learners": learner.learners,
        "pod": learner.pod_name,
    }
    for name in ("step", "generation"):
        text = learner.env.get(f"FFDL_RESTORED_{name.upper()}", "")
        if text.isdigit():
            facts[f"restored_{name}"] = int(text)
    return facts


if __name__ == "__main__":
    sys.exit(main())
