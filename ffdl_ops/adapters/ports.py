"""Ports of this machine."""

from __future__ import annotations

import socket
from contextlib import ExitStack

__all__ = ["free_ports"]


def free_ports(number: int) -> list[int]:
    """Different ports on the loopback address that nobody listens on now."""
    with ExitStack() as probes:
        ports = []
        for _ in range(number):
            probe = probes.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            ports.append(int(probe.getsockname()[1]))
        return ports
