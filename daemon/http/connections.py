"""The open connections of the HTTP server, each of which is known until its socket is closed.

aiohttp's own clean-up leaves two kinds of connections to the garbage collector. One was accepted a
moment before: asyncio hands it over two turns of the loop later, to a server that has stopped (and
if it is handed over just in time, aiohttp waits its whole shutdown timeout for a request that never
comes). The other has a client that does not read the rest of its answer, or does not answer the
closing message of TLS.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress


class Connections:
    """A protocol factory for `loop.create_server` that wraps another one."""

    def __init__(self, new_protocol: Callable[[], asyncio.Protocol]) -> None:
        self._new_protocol = new_protocol
        self._open: set[asyncio.Transport] = set()
        self._all_closed = asyncio.Event()
        self._all_closed.set()
        self._refuses = False

    def __call__(self) -> asyncio.Protocol:
        return _Connection(self._new_protocol(), self)

    async def end_listening(self, listener: asyncio.Server) -> None:
        """Close the listener, and abort what it accepted but did not hand over yet."""
        self._refuses = True
        loop = asyncio.get_running_loop()
        for socket in listener.sockets:
            loop.remove_reader(socket)
        # A turn makes the transport of what was accepted last, the next one hands it over. Only
        # then the listener may close: a transport made after that breaks off half-made, and its
        # socket stays open.
        for _ in range(2):
            await asyncio.sleep(0)
        listener.close()

    async def close(self, patience_s: float) -> None:
        """Return when every connection is closed. Aborts those that take longer than `patience_s`.

        Call it when no request is served any more.
        """
        if await self._wait(patience_s):
            return
        for transport in list(self._open):
            transport.abort()
        await self._wait(patience_s)  # a turn or two: an abort asks nothing of the client

    async def _wait(self, patience_s: float) -> bool:
        """True when every connection is closed, False when the time is over before."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._all_closed.wait()
        return self._all_closed.is_set()

    def opened(self, transport: asyncio.Transport) -> bool:
        """Note an open connection. False if it is refused."""
        self._open.add(transport)
        self._all_closed.clear()
        if self._refuses:
            transport.abort()
        return not self._refuses

    def closed(self, transport: asyncio.Transport) -> None:
        """Forget a connection whose socket is closed."""
        self._open.discard(transport)
        if not self._open:
            self._all_closed.set()


class _Connection(asyncio.Protocol):
    """Passes every event on to the wrapped protocol, which never sees a refused connection."""

    def __init__(self, wrapped: asyncio.Protocol, connections: Connections) -> None:
        self._wrapped = wrapped
        self._connections = connections
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._connections.opened(transport):
            self._wrapped = asyncio.Protocol()  # does nothing
        self._wrapped.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._wrapped.connection_lost(exc)
        if self._transport is not None:
            self._connections.closed(self._transport)

    def data_received(self, data: bytes) -> None:
        self._wrapped.data_received(data)

    def eof_received(self) -> bool | None:
        return self._wrapped.eof_received()

    def pause_writing(self) -> None:
        self._wrapped.pause_writing()

    def resume_writing(self) -> None:
        self._wrapped.resume_writing()
