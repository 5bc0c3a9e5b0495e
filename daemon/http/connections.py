"""The open connections of the HTTP server: how many there may be, and that each is closed at last.

Anybody can open connections, no password is needed. So their number is bounded, in all and for each
address, and one too many takes the place of the connection that has waited longest without a whole
request. An attacker who holds connections open thus loses them to the next probe or scrape, which
is served. A request in progress is never cut off for another.

Every connection is known from its acceptance until its socket is closed. aiohttp's own clean-up
leaves some to the garbage collector: those in their TLS handshake, those accepted a moment before
the server stops, and those whose client does not read the rest of its answer.

Accepts connections: the part of asyncio's servers that they do not let anybody change.

asyncio hands a connection over before it can be counted (with TLS, after its handshake), and when
no file can be opened any more it logs a traceback for each place in the backlog, every second.
"""

import asyncio
import errno
import os
import socket
import ssl
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from ipaddress import IPv6Address, IPv6Network, ip_address
from itertools import chain
from typing import Any, Final

import structlog

from ..telemetry import RateLimit
from . import requests
from .requests import RequestReader

log = structlog.get_logger(__name__)

MOST_CONNECTIONS: Final = 512
"""Half of the 1024 files that a process may open by default: Kafka and Redis need the others."""
MOST_OF_AN_ADDRESS: Final = 128
"""Enough for a proxy in front of some dozen browsers, which open six each."""
SUBNET_BITS: Final = 64
"""Of IPv6 a single machine has a whole network of addresses: they count as one."""


class Connections:
    """All connections of a server. `new_reader` makes the protocol that reads requests."""

    def __init__(self, new_reader: Callable[[], RequestReader]) -> None:
        self._new_reader = new_reader
        self._open: set[Connection] = set()
        self._counted: defaultdict[str, set[Connection]] = defaultdict(set)
        self._count = 0
        self._all_closed = asyncio.Event()
        self._all_closed.set()
        self.refuses = False
        self._rate_limit = RateLimit[str]()

    def admit(self, host: str) -> "Connection | None":
        """Count a connection that was accepted from the host. None if it must be closed."""
        if self.refuses:
            return None
        address = counted_as(host)
        if len(self._counted.get(address, ())) >= MOST_OF_AN_ADDRESS:
            self._log_full(host, f"{MOST_OF_AN_ADDRESS} of one address")
            has_room = _drop_longest_waiting(self._counted[address])
        elif self._count >= MOST_CONNECTIONS:
            self._log_full(host, f"{MOST_CONNECTIONS} in all")
            has_room = _drop_longest_waiting(chain.from_iterable(self._counted.values()))
        else:
            has_room = True
        if not has_room:
            return None
        connection = Connection(self._new_reader(), self, address)
        self._counted[address].add(connection)
        self._count += 1
        self._open.add(connection)
        self._all_closed.clear()
        return connection

    def refuse(self) -> None:
        """Admit no more connections, and abort those that are handed over from now on."""
        self.refuses = True

    async def close(self, patience_s: float) -> None:
        """Return when every connection is closed. Aborts those that take longer than `patience_s`.

        Call it when no request is served any more.
        """
        if await self._wait(patience_s):
            return
        for connection in list(self._open):
            connection.abort()
        await self._wait(patience_s)  # a turn or two: an abort asks nothing of the client

    async def _wait(self, patience_s: float) -> bool:
        """True when every connection is closed, False when the time is over before."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._all_closed.wait()
        return self._all_closed.is_set()

    def uncount(self, connection: "Connection") -> None:
        """Give the room of a connection to another. May be called twice."""
        counted = self._counted.get(connection.address, set())
        if connection not in counted:
            return
        counted.remove(connection)
        self._count -= 1
        if not counted:
            del self._counted[connection.address]

    def closed(self, connection: "Connection") -> None:
        """Forget a connection whose socket is closed."""
        self.uncount(connection)
        self._open.discard(connection)
        if not self._open:
            self._all_closed.set()

    def _log_full(self, host: str, limit: str) -> None:
        connections = self._rate_limit.due("full", 1, asyncio.get_running_loop().time())
        if connections is not None:
            log.warning(
                "too many HTTP connections: closing those that waited longest, or else new ones",
                connections=connections,
                address=host,
                limit=limit,
            )


class Connection(asyncio.Protocol):
    """Passes every event on to a reader of requests, which never sees a refused connection."""

    def __init__(self, reader: RequestReader, connections: Connections, address: str) -> None:
        self.address = address
        self.handshake: asyncio.Task[None] | None = None
        self.waits_since_s = asyncio.get_running_loop().time()
        self._reader = reader
        self._protocol: asyncio.BaseProtocol = reader
        self._connections = connections
        self._transport: asyncio.Transport | None = None

    @property
    def is_handed_over(self) -> bool:
        """Whether there is a transport, which closes the socket."""
        return self._transport is not None

    @property
    def is_waiting(self) -> bool:
        """Whether it may be closed without harm to a request that has arrived."""
        closing = self._transport is not None and self._transport.is_closing()
        return closing or self._reader.is_waiting

    def drop(self) -> None:
        """Abort the connection for another one, which gets its room at once."""
        self._connections.uncount(self)
        self.abort()

    def abort(self) -> None:
        """Close the socket without waiting for the client."""
        if self._transport is not None:
            self._transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._connections.refuses:
            self._protocol = asyncio.Protocol()  # does nothing
            transport.abort()
        self._protocol.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)
        self._connections.closed(self)

    def data_received(self, data: bytes) -> None:
        assert isinstance(self._protocol, asyncio.Protocol)
        self._protocol.data_received(data)
        if not self._reader.is_waiting:
            self.waits_since_s = asyncio.get_running_loop().time()

    def eof_received(self) -> bool | None:
        assert isinstance(self._protocol, asyncio.Protocol)
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()


def counted_as(host: str) -> str:
    """The address, or network of IPv6 addresses, that the connections of a host count for."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((address, SUBNET_BITS), strict=False))


def _drop_longest_waiting(connections: Iterable[Connection]) -> bool:
    """Abort the one that has waited longest for a whole request. False if none waits."""
    waiting = [connection for connection in connections if connection.is_waiting]
    if not waiting:
        return False
    min(waiting, key=lambda connection: connection.waits_since_s).drop()
    return True


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
