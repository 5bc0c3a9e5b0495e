"""Accepts connections: the part of asyncio's servers that they do not let anybody change.

asyncio hands a connection over before it can be counted (with TLS, after its handshake), and when
no file can be opened any more it logs a traceback for each place in the backlog, every second.
"""

import asyncio
import errno
import os
import socket
import ssl
from contextlib import suppress
from functools import partial
from typing import Any, Final

import structlog

from ..telemetry.rate_limit import RateLimit
from . import requests
from .connections import Connection, Connections

log = structlog.get_logger(__name__)

BACKLOG: Final = 128
"""Connections that the system keeps ready while the loop is busy."""
PAUSE_S: Final = 1.0
"""How long nothing is accepted after the system refused to: it would refuse at once again."""
TLS_CLOSING_TIMEOUT_S: Final = 5.0
"""How long a client may take for the closing message of TLS."""


class Listener:
    """Accepts connections on these sockets, which it owns, until it is closed."""

    def __init__(
        self,
        sockets: list[socket.socket],
        connections: Connections,
        context: ssl.SSLContext | None,
    ) -> None:
        self.port = int(sockets[0].getsockname()[1])
        self.hosts = tuple(str(listening.getsockname()[0]) for listening in sockets)
        self._sockets = sockets
        self._connections = connections
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        self._rate_limit = RateLimit[str]()
        for listening in sockets:
            self._resume(listening)

    async def close(self) -> None:
        """Accept no more, and abort what is accepted but not handed over yet."""
        self._connections.refuse()
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            if listening in self._pauses:
                self._pauses.pop(listening).cancel()
            listening.close()
        for handshake in self._handshakes:
            handshake.cancel()
        if self._handshakes:
            await asyncio.wait(self._handshakes)
        # A transport that was made last is handed over, or closes its socket, one turn later.
        for _ in range(2):
            await asyncio.sleep(0)

    def _resume(self, listening: socket.socket) -> None:
        self._pauses.pop(listening, None)
        self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(BACKLOG):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listening, error)
                return
            connection = self._connections.admit(address[0])
            if connection is None:
                accepted.close()
                continue
            handshake = self._loop.create_task(self._hand_over(accepted, connection))
            connection.handshake = handshake
            self._handshakes.add(handshake)
            handshake.add_done_callback(partial(self._handed_over, accepted, connection))

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Stop accepting for a while: the connections wait in the backlog of the system."""
        self._loop.remove_reader(listening)
        self._pauses[listening] = self._loop.call_later(PAUSE_S, self._resume, listening)
        refusals = self._rate_limit.due("refused", 1, self._loop.time())
        if refusals is not None:
            log.error(
                "HTTP connections cannot be accepted: trying again every second",
                reason=error.strerror or str(error),
                refusals=refusals,
            )

    async def _hand_over(self, accepted: socket.socket, connection: Connection) -> None:
        """Make the transport of a connection, after its TLS handshake where there is one."""
        handshake_s = None if self._context is None else requests.HEAD_TIMEOUT_S
        closing_s = None if self._context is None else TLS_CLOSING_TIMEOUT_S
        # Of a handshake that fails or takes too long, the transport closes the socket. Who sent
        # it is not worth a line: any scan of ports does.
        with suppress(OSError):
            await self._loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=handshake_s,
                ssl_shutdown_timeout=closing_s,
            )

    def _handed_over(
        self, accepted: socket.socket, connection: Connection, handshake: asyncio.Task[None]
    ) -> None:
        self._handshakes.discard(handshake)
        if not connection.is_handed_over:
            self._connections.closed(connection)
            accepted.close()


async def open_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on every address of the host. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                sockets.append(socket.socket(family, kind, protocol))
            except OSError:
                continue  # the host has an address of IPv6, and this system has no IPv6
            _listen(sockets[-1], address)
    except OSError:
        for opened in sockets:
            opened.close()
        raise
    if not sockets:
        raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    return sockets


def _listen(opened: socket.socket, address: Any) -> None:
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
    if opened.family == socket.AF_INET6:
        # Else it would take the port of IPv4 too, for which there is a socket of its own.
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, True)
    opened.setblocking(False)
    opened.bind(address)
    opened.listen(BACKLOG)
