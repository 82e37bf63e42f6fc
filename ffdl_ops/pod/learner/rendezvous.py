"""How a gang's learners find each other: by files on the job's volume, which they share. No DNS is needed.

Each learner writes its address (atomically) and waits for all the others' of the same attempt. It is a barrier too: no
program starts before every learner is there.
"""

from __future__ import annotations

import json
import os
import socket
import time

from ffdl_ops.pod.learner.environment import Peer

__all__ = ["RendezvousFailed", "meet"]

_POLL_S = 0.05
_PORT_TRIES = 64


class RendezvousFailed(Exception):
    """The gang did not meet.

    `code` is the exit code that follows: 75 (a peer did not come), 143 (stopped while waiting).
    """

    def __init__(self, message, code):  # type: (str, int) -> None
        super().__init__(message)
        self.code = code


def meet(learner, stopped=lambda: False):  # type: ignore[no-untyped-def]
    """Meet the gang's other learners: a list of :class:`Peer`, by rank.

    Raises :class:`RendezvousFailed` when one does not come in time, naming it.
    """
    folder = os.path.join(learner.state_dir, "rendezvous", "attempt-%d" % learner.attempt)
    os.makedirs(folder, exist_ok=True)
    port = _free_port(learner.pod_ip, learner.base_port + learner.rank)
    own = os.path.join(folder, "rank-%d" % learner.rank)
    temporary = "%s.%d.tmp" % (own, os.getpid())
    with open(temporary, "w") as file:
        json.dump({"ip": learner.pod_ip, "port": port}, file)
    os.replace(temporary, own)
    deadline = time.monotonic() + learner.rendezvous_s
    peers = {}  # type: dict[int, Peer]
    while True:
        for rank in range(learner.learners):
            if rank not in peers:
                peer = _read(os.path.join(folder, "rank-%d" % rank), rank)
                if peer is not None:
                    peers[rank] = peer
        if len(peers) == learner.learners:
            return [peers[rank] for rank in range(learner.learners)]
        if stopped():
            raise RendezvousFailed("stopped while waiting for the others", 143)
        if time.monotonic() > deadline:
            missing = ", ".join(str(rank) for rank in range(learner.learners) if rank not in peers)
            raise RendezvousFailed("ranks %s did not come within %.0f s" % (missing, learner.rendezvous_s), 75)
        time.sleep(_POLL_S)


def _read(path, rank):  # type: (str, int) -> Peer | None
    try:
        with open(path) as file:
            value = json.load(file)
        return Peer(rank, str(value["ip"]), int(value["port"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _free_port(ip, first):  # type: (str, int) -> int
    """The first free port from `first` on; the frameworks listen on all addresses, so it must be free on all."""
    for port in range(first, first + _PORT_TRIES * 64, 64):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
                return port
            except OSError:
                continue
    return first
