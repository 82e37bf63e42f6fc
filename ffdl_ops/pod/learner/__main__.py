"""Entry of the launcher: rendezvous, then the user's program, then the exit report."""

from __future__ import annotations

import os
import sys

from ffdl_ops.pod.learner.environment import Learner
from ffdl_ops.pod.learner.launch import Launch
from ffdl_ops.pod.learner.output import Output
from ffdl_ops.pod.learner.rendezvous import RendezvousFailed, meet
from ffdl_ops.pod.learner.report import write_report

__all__ = ["main"]


def main() -> int:
    """Run this learner; returns its exit code."""
    learner = Learner.from_environment(os.environ)
    learner.make_directories()
    output = Output(learner.learner_id, os.path.join(learner.log_dir, "learner-%d.log" % learner.learner_id))
    output.event("start", {"attempt": learner.attempt, "learners": learner.learners, "pod": learner.pod_name})
    launch = Launch(learner, output)
    launch.take_signals()
    try:
        peers = meet(learner, stopped=lambda: launch.asked_to_stop)
    except RendezvousFailed as failure:
        output.line("rendezvous failed: %s" % failure)
        return write_report(learner, output, {"exit_code": failure.code, "reason": "rendezvous: %s" % failure})
    output.event("rendezvous", {"peers": [peer.address for peer in peers]})
    return write_report(learner, output, launch.run(peers))


if __name__ == "__main__":
    sys.exit(main())
