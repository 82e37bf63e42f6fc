"""How a gang's learners find each other: by files on the job's volume, which they share. No DNS is needed.

Each learner writes its address (atomically) and waits for all the others' of the same attempt; what older attempts left is
in directories of their own and never read. It is a barrier too: no program starts before every learner is there.
"""

from __future__ import annotations

import errno
import json
import os
import random
import socket
import time
from collections.abc import Callable

from ffdl_ops.pod.learner.environment import Learner, Peer
from ffdl_ops.pod.learner.files import open_regular

__all__ = ["RendezvousFailed", "free_port", "meet"]

NOT_MET = 75
STOPPED = 143

_FIRST_POLLS_S = 0.01
_POLL_S = 0.1
_NAMED = 16
_LONGEST_BYTES = 4096
# Below Linux's range for outgoing connections, which could take a port between our look and the framework's bind.
_OTHER_PORTS = range(20000, 32000)
_TRIES = 200


class RendezvousFailed(Exception):
    """The gang did not meet.

    `code` is the exit code that follows: 74 (the job's volume can't be written), 75 (a peer did not come), 143 (stopped
    while waiting).
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def meet(learner: Learner, stopped: Callable[[], bool] = lambda: False) -> list[Peer]:
    """Meet the gang's other learners; returns them all by rank, this one among them.

    Raises `RendezvousFailed` when one does not come within `learner.rendezvous_s`, naming it, or when `stopped` says so.
    """
    own = Peer(learner.rank, learner.pod_ip, free_port(learner.base_port + learner.rank))
    if learner.learners == 1:
        return [own]
    folder = os.path.join(learner.state_dir, "rendezvous", f"attempt-{learner.attempt}")
    _publish(folder, own)
    started = time.monotonic()
    peers = {own.rank: own}
    while True:
        for rank in range(learner.learners):
            peer = peers.get(rank) or _read(folder, rank)
            if peer is not None:
                peers[rank] = peer
        if len(peers) == learner.learners:
            return [peers[rank] for rank in range(learner.learners)]
        if stopped():
            raise RendezvousFailed("stopped while waiting for the others", STOPPED)
        waited = time.monotonic() - started
        if waited > learner.rendezvous_s:
            missing = [rank for rank in range(learner.learners) if rank not in peers]
            raise RendezvousFailed(f"{_ranks(missing)} did not come within {learner.rendezvous_s:g} s", NOT_MET)
        time.sleep(_FIRST_POLLS_S if waited < 1 else _POLL_S)


def free_port(wanted: int) -> int:
    """`wanted` if no one listens on it, else another port; the frameworks listen on all addresses, so all must be free."""
    if _is_free(wanted):
        return wanted
    for port in random.sample(_OTHER_PORTS, _TRIES):
        if _is_free(port):
            return port
    return wanted


def _is_free(port: int) -> bool:
    for family, address in ((socket.AF_INET, ""), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family) as probe:
                # As the frameworks do: a port in TIME_WAIT is free, one that is listened on is not.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind((address, port))
                probe.listen(1)
        except OverflowError:
            return False
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            # A machine without IPv6 has nothing of it to bind.
    return True


def _publish(folder: str, own: Peer) -> None:
    path = os.path.join(folder, f"rank-{own.rank}")
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        os.makedirs(folder, exist_ok=True)
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump({"ip": own.ip, "port": own.port}, file)
        os.replace(temporary, path)
    except OSError as error:
        raise RendezvousFailed(f"the job's volume can't be written: {error}", 74) from error


def _read(folder: str, rank: int) -> Peer | None:
    try:
        with open_regular(os.path.join(folder, f"rank-{rank}")) as file:
            value = json.loads(file.read(_LONGEST_BYTES))
        return Peer(rank, str(value["ip"]), int(value["port"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _ranks(missing: list[int]) -> str:
    named = ",".join(str(rank) for rank in missing[:_NAMED])
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return f"{'rank' if len(missing) == 1 else 'ranks'} {named}{more}"
