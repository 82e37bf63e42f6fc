"""One loopback port for https and plain http: the first byte of a connection tells which it is."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

from ffdl_ops.core.errors import UserError

__all__ = ["Listener"]

_TLS_HANDSHAKE = b"\x16"
_BACKLOG = 256


class Listener:
    """Accepts connections.

    :param port: on 127.0.0.1; 0 for any free one.
    :param factory: makes the protocol of a connection.
    :param tls: for the connections that begin a handshake.
    :raises UserError: when the port is taken.
    """

    def __init__(self, port: int, factory: Callable[[], asyncio.BaseProtocol], tls: ssl.SSLContext) -> None:
        self._factory, self._tls = factory, tls
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", port))
        except OSError as error:
            raise UserError(
                f"Port {port} of 127.0.0.1 can't be used: {error.strerror}. Choose another with --port."
            ) from None
        self._socket.listen(_BACKLOG)
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Begin to accept."""
        self._keep(self._accept())

    def close(self) -> None:
        """Accept no more."""
        for task in self._tasks:
            task.cancel()
        self._socket.close()

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._socket)
            except OSError:  # out of descriptors, or the client has gone: the next one may do better
                await asyncio.sleep(0.05)
                continue
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._keep(self._serve(connection))

    async def _serve(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            first = await _peek(connection)
            if not first:
                connection.close()
                return
            tls = self._tls if first == _TLS_HANDSHAKE else None
            await loop.connect_accepted_socket(self._factory, connection, ssl=tls)
        except (OSError, ssl.SSLError):
            with contextlib.suppress(OSError):
                connection.close()


async def _peek(connection: socket.socket) -> bytes:
    """The first byte of a connection, left in it; empty when it closes without any."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    number = connection.fileno()

    def arrived() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(number, arrived)
    try:
        await ready
    finally:
        loop.remove_reader(number)
    return connection.recv(1, socket.MSG_PEEK)
