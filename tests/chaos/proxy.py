"""A TCP proxy between one worker and one server, for either protocol: weather, and traps.

Weather is what the network is like for now. A trap waits for one kind of request and acts when it
is about to be forwarded, has been forwarded, or has been answered: a way to break a worker at a
named point of its work without a hook in the worker.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Moment: TypeAlias = Literal["held", "delayed", "sent", "answered"]
"""The request is about to be forwarded, and never is; or is when the trap's act is over; it has
been forwarded; it has been answered."""
Framing: TypeAlias = Callable[[asyncio.StreamReader], Awaitable[bytes]]

LATE_PATIENCE_S: Final = 5.0
RECENT: Final = 500
"""Requests that are remembered: more than one commit makes."""


@dataclass(frozen=True)
class Weather:
    """What a network does to connections. Shares are of the requests."""

    delay_s: float = 0.0
    """Mean time for which answers are held back."""
    cut_before: float = 0.0
    """The connection ends, and the request was never forwarded."""
    cut_after: float = 0.0
    """The request is forwarded, and the connection ends instead of the answer."""
    deaf: bool = False
    """Requests vanish: the connection stays open and nothing is forwarded any more."""
    mute: bool = False
    """Answers vanish: requests are forwarded, and nothing comes back any more."""
    refuses: bool = False
    """New connections end at once."""


@dataclass(frozen=True)
class Trap:
    """`act` is called once, at this moment of the first request that matches."""

    matches: Callable[[bytes], bool]
    moment: Moment
    act: Callable[[bytes], Awaitable[None] | None]
    """What it gives is awaited where the request is delayed."""


async def redis_request(reader: asyncio.StreamReader) -> bytes:
    """An array of strings, each with its length before it."""
    parts = [await reader.readuntil(b"\r\n")]
    for _ in range(int(parts[0][1:])):
        parts.append(await reader.readuntil(b"\r\n"))
        parts.append(await reader.readexactly(int(parts[-1][1:]) + 2))
    return b"".join(parts)


async def kafka_request(reader: asyncio.StreamReader) -> bytes:
    """A length in four bytes, and what follows: the API key in two bytes, its version …"""
    length = await reader.readexactly(4)
    return length + await reader.readexactly(int.from_bytes(length, "big"))


def kafka_api(key: int) -> Callable[[bytes], bool]:
    """Whether a request is of this kind."""
    return lambda request: request[4:6] == key.to_bytes(2, "big")


class Proxy:
    """Open by `start`, close by `close`. Clients connect to `port`, which stays."""

    def __init__(self, framing: Framing, luck: random.Random) -> None:
        self.framing = framing
        self.luck = luck
        self.target_port = 0
        """Where new connections go; see `switch`."""
        self.weather = Weather()
        self.trap: Trap | None = None
        self.recent: deque[bytes] = deque(maxlen=RECENT)
        """What was forwarded last."""
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
        """Lead everybody to another server."""
        self.target_port = target_port
        await self.cut_all()

    async def clear(self) -> None:
        """Good weather. Connections that lost bytes end: no network delivers what comes after a
        gap."""
        broken = self.weather.deaf or self.weather.mute
        self.weather = Weather()
        if broken:
            await self.cut_all()

    async def deliver(self, requests: Sequence[bytes]) -> None:
        """Send them to the server on a connection of their own, as a network that held back
        copies."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(LATE_PATIENCE_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.target_port)
                writer.writelines(requests)
                writer.write_eof()
                while await reader.read(65_536):
                    pass  # the server closes after its last answer
                await _close(writer)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                if not self.weather.refuses:
                    await _Link(self, reader, writer).run()
        finally:
            self._links.discard(task)
            writer.transport.abort()  # a reset, as after a crash of the machine between


class _Link:
    """One client's connection, and its own connection to the server."""

    def __init__(
        self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy, self._reader, self._writer = proxy, reader, writer
        self._mute = False
        self._deaf = False
        self._cut_after = False
        self._answered: Callable[[], object] | None = None
        self._awaited: Awaitable[None] | None = None

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
            weather = proxy.weather
            self._deaf = self._deaf or weather.deaf
            if self._deaf:
                continue
            chance = proxy.luck.random()
            if chance < weather.cut_before or self._is_trapped(request, "held"):
                return
            if self._is_trapped(request, "delayed") and self._awaited is not None:
                await self._awaited
            self._is_trapped(request, "answered")
            self._cut_after = chance > 1 - weather.cut_after
            proxy.recent.append(request)
            to_server.write(request)
            await to_server.drain()
            self._is_trapped(request, "sent")

    def _is_trapped(self, request: bytes, moment: Moment) -> bool:
        """Spring the trap that waits for this moment of this request; once the answer has come, if
        that is the moment."""
        trap = self._proxy.trap
        if trap is None or trap.moment != moment or not trap.matches(request):
            return False
        self._proxy.trap = None
        if moment == "answered":
            self._answered = lambda: trap.act(request)
        else:
            self._awaited = trap.act(request)
        return True

    async def _answer(self, from_server: asyncio.StreamReader) -> None:
        proxy = self._proxy
        while answer := await from_server.read(65_536):
            if self._cut_after:
                return
            self._mute = self._mute or proxy.weather.mute
            if self._mute:
                continue
            if proxy.weather.delay_s:
                await asyncio.sleep(proxy.luck.expovariate(1 / proxy.weather.delay_s))
            self._writer.write(answer)
            await self._writer.drain()
            if self._answered is not None:
                act, self._answered = self._answered, None
                act()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
