"""A TCP proxy between a worker and a Kafka or Redis server, with network faults and traps.

`NetworkFaults` are the current faults of the network. A trap waits for one kind of request and acts
before it is forwarded, after it was forwarded, or after it was answered: a way to stop a worker at
a named point of its work without a hook in the worker.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Moment: TypeAlias = Literal["withheld", "refused", "delayed", "sent", "answered"]
"""withheld: the request is never forwarded; refused: nor is it, and the client gets the result of
the action of the trap; delayed: it is forwarded after the action of the trap;
sent: it has been forwarded; answered: its answer has been forwarded."""
Framing: TypeAlias = Callable[[asyncio.StreamReader], Awaitable[bytes]]

LATE_PATIENCE_S: Final = 5.0
RECENT: Final = 500
"""Number of recent requests that are kept: more than one commit has."""


@dataclass(frozen=True)
class NetworkFaults:
    """Faults of the network. Shares are shares of the requests."""

    delay_s: float = 0.0
    """Mean delay of answers."""
    cut_before: float = 0.0
    """Share of requests at which the connection ends before the request is forwarded."""
    cut_after: float = 0.0
    """Share of requests that are forwarded, after which the connection ends without the answer."""
    drops_requests: bool = False
    """The connection stays open, but no request is forwarded any more."""
    drops_answers: bool = False
    """Requests are forwarded, but no answer is forwarded any more."""
    refuses: bool = False
    """New connections are closed at once."""


@dataclass(frozen=True)
class Trap:
    """Calls `act` once, at this moment of the first request that matches."""

    matches: Callable[[bytes], bool]
    moment: Moment
    act: Callable[[bytes], Awaitable[None] | bytes | None]
    """Its result is awaited where the moment is `delayed`."""


async def redis_request(reader: asyncio.StreamReader) -> bytes:
    """Read one request of the Redis protocol: an array of strings with their lengths."""
    parts = [await reader.readuntil(b"\r\n")]
    for _ in range(int(parts[0][1:])):
        parts.append(await reader.readuntil(b"\r\n"))
        parts.append(await reader.readexactly(int(parts[-1][1:]) + 2))
    return b"".join(parts)


async def kafka_request(reader: asyncio.StreamReader) -> bytes:
    """Read one request of the Kafka protocol: a length of four bytes, then API key, version …"""
    length = await reader.readexactly(4)
    return length + await reader.readexactly(int.from_bytes(length, "big"))


def kafka_api(key: int) -> Callable[[bytes], bool]:
    """A predicate: whether a Kafka request has this API key."""
    return lambda request: request[4:6] == key.to_bytes(2, "big")


class Proxy:
    """The proxy, open between `start` and `close`. Clients connect to `port`, which never
    changes."""

    def __init__(self, framing: Framing, rng: random.Random) -> None:
        self.framing = framing
        self.rng = rng
        self.target_port = 0
        """Port of the server for new connections; see `switch`."""
        self.network = NetworkFaults()
        self.trap: Trap | None = None
        self.recent: deque[bytes] = deque(maxlen=RECENT)
        """The last requests that were forwarded."""
        self._links: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self.cut_all()

    async def cut_all(self) -> None:
        """End every connection."""
        links = set(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    async def switch(self, target_port: int) -> None:
        """Direct all clients to another server."""
        self.target_port = target_port
        await self.cut_all()

    async def clear(self) -> None:
        """Remove all faults. Connections that lost bytes are cut: TCP never delivers bytes after
        a gap."""
        broken = self.network.drops_requests or self.network.drops_answers
        self.network = NetworkFaults()
        if broken:
            await self.cut_all()

    async def deliver(self, requests: Sequence[bytes]) -> None:
        """Send these requests to the server on a connection of their own, as a network that
        delivers delayed copies."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(LATE_PATIENCE_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.target_port)
                writer.writelines(requests)
                writer.write_eof()
                while await reader.read(65_536):
                    pass  # until the server closes after its last answer
                await _close(writer)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                if not self.network.refuses:
                    await _Link(self, reader, writer).run()
        finally:
            self._links.discard(task)
            writer.transport.abort()  # a reset, as after a crash of a machine in between


class _Link:
    """The connection of one client, with its own connection to the server."""

    def __init__(
        self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy, self._reader, self._writer = proxy, reader, writer
        self._drops_answers = False
        self._drops_requests = False
        self._cut_after = False
        self._answered: Callable[[], object] | None = None
        self._result: Awaitable[None] | bytes | None = None

    async def run(self) -> None:
        server = await asyncio.open_connection("127.0.0.1", self._proxy.target_port)
        pumps = [
            asyncio.create_task(self._forward(server[1])),
            asyncio.create_task(self._answer(server[0])),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            server[1].transport.abort()

    async def _forward(self, to_server: asyncio.StreamWriter) -> None:
        proxy = self._proxy
        while True:
            request = await proxy.framing(self._reader)
            faults = proxy.network
            self._drops_requests = self._drops_requests or faults.drops_requests
            if self._drops_requests:
                continue
            chance = proxy.rng.random()
            if chance < faults.cut_before or self._is_trapped(request, "withheld"):
                return
            if self._is_trapped(request, "refused") and isinstance(self._result, bytes):
                self._writer.write(self._result)
                continue
            if self._is_trapped(request, "delayed") and isinstance(self._result, Awaitable):
                await self._result
            self._is_trapped(request, "answered")
            self._cut_after = chance > 1 - faults.cut_after
            proxy.recent.append(request)
            to_server.write(request)
            await to_server.drain()
            self._is_trapped(request, "sent")

    def _is_trapped(self, request: bytes, moment: Moment) -> bool:
        """Trigger the trap if it waits for this moment of this request; if the moment is
        `answered`, its action runs after the answer."""
        trap = self._proxy.trap
        if trap is None or trap.moment != moment or not trap.matches(request):
            return False
        self._proxy.trap = None
        if moment == "answered":
            self._answered = lambda: trap.act(request)
        else:
            self._result = trap.act(request)
        return True

    async def _answer(self, from_server: asyncio.StreamReader) -> None:
        proxy = self._proxy
        while answer := await from_server.read(65_536):
            if self._cut_after:
                return
            self._drops_answers = self._drops_answers or proxy.network.drops_answers
            if self._drops_answers:
                continue
            if proxy.network.delay_s:
                await asyncio.sleep(proxy.rng.expovariate(1 / proxy.network.delay_s))
            self._writer.write(answer)
            await self._writer.drain()
            if self._answered is not None:
                act, self._answered = self._answered, None
                act()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
