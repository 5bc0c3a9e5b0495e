"""A TCP proxy in front of a Redis server, or of the nodes of a cluster, that loses, delays and
holds back what a test tells it.

It reads whole requests, so that a fault hits one command and no other. `late` requests are kept and
reach the server only when the test says so: a copy that comes after its sender gave up.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Literal, Self, TypeAlias

Fault: TypeAlias = Literal["cut before", "cut after", "silent", "late"]
"""Hang up instead of forwarding; forward, and hang up instead of answering; forward, and answer
nothing any more; keep the request, and hang up."""


class Proxy:
    """`async with Proxy(*redis.ports) as proxy:` and clients connect to `proxy.url`.

    In front of a cluster it puts its own ports in place of those that the nodes name.
    """

    def __init__(self, *target_ports: int) -> None:
        self.target_ports = list(target_ports)
        """Where new connections go; a test may change them."""
        self.delay_s = 0.0
        """How long every answer is held back."""
        self.requests: list[bytes] = []
        """What was forwarded, as it was on the wire."""
        self.accepted = 0
        """How many connections there were."""
        self.chance: Callable[[], Fault | None] = lambda: None
        """Asked before every request that no planned fault hits."""
        self.life_s: Callable[[bytes], float | None] = lambda request: None
        """How long its connection lives after this request, as after a login; None: as before."""
        self._planned: list[tuple[bytes, Fault]] = []
        self._late: list[tuple[int, bytes]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._servers = [
            await asyncio.start_server(partial(self._accept, node), "127.0.0.1", 0)
            for node in range(len(self.target_ports))
        ]
        self.ports = [server.sockets[0].getsockname()[1] for server in self._servers]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        scheme = "redis" if len(self.ports) == 1 else "redis+cluster"
        return f"{scheme}://127.0.0.1:{self.ports[0]}/0"

    def plan(self, command: str, fault: Fault) -> None:
        """The next request that holds this text meets this fault, once."""
        self._planned.append((command.encode(), fault))

    def sent(self, command: str) -> int:
        """How many requests with this text were forwarded."""
        return sum(command.encode() in request for request in self.requests)

    async def deliver_late(self) -> bytes:
        """Send what was kept, in its order; the answer to the last."""
        answer = b""
        for node, request in self._late:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.target_ports[node])
            try:
                writer.write(request)
                answer = await reader.readline()
                if answer.startswith(b"$") and answer != b"$-1\r\n":
                    answer = await reader.readline()
            finally:
                await _close(writer)
        self._late.clear()
        return answer.strip()

    async def _accept(
        self, node: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.accepted += 1
        try:
            with suppress(asyncio.CancelledError):  # the end of the test, which is no error
                await _Link(self, node, reader, writer).run()
        finally:
            self._tasks.discard(task)
            await _close(writer)

    def fate(self, node: int, request: bytes) -> Fault | None:
        """What happens to this request; it counts as forwarded unless it is cut before."""
        fault = self._planned_fault(request) or self.chance()
        if fault == "late":
            self._late.append((node, request))
        elif fault != "cut before":
            self.requests.append(request)
        return fault

    def disguised(self, answer: bytes) -> bytes:
        """The answer of a node, with the proxy's ports for those of the cluster."""
        if len(self.ports) > 1:
            for target, own in zip(self.target_ports, self.ports, strict=True):
                answer = answer.replace(b":%d\r\n" % target, b":%d\r\n" % own)
        return answer

    def _planned_fault(self, request: bytes) -> Fault | None:
        for number, (command, fault) in enumerate(self._planned):
            if command in request:
                del self._planned[number]
                return fault
        return None


class _Link:
    """One client's connection and its own connection to the server."""

    def __init__(
        self,
        proxy: Proxy,
        node: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._proxy = proxy
        self._node = node
        self._reader = reader
        self._writer = writer
        self._fault: Fault | None = None
        self._end: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            target = self._proxy.target_ports[self._node]
            server = await asyncio.open_connection("127.0.0.1", target)
            pumps = [
                asyncio.create_task(self._forward(server[1])),
                asyncio.create_task(self._answer(server[0])),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if self._end is not None:
                    self._end.cancel()
                server[1].close()  # first: this task may be cancelled at the next line that waits
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
                await _close(server[1])

    async def _forward(self, to_server: asyncio.StreamWriter) -> None:
        while True:
            request = await _read_request(self._reader)
            self._fault = self._fault or self._proxy.fate(self._node, request)
            if self._fault in ("cut before", "late"):
                return
            if (life_s := self._proxy.life_s(request)) is not None:
                if self._end is not None:
                    self._end.cancel()
                self._end = asyncio.get_running_loop().call_later(life_s, self._writer.close)
            to_server.write(request)
            await to_server.drain()

    async def _answer(self, from_server: asyncio.StreamReader) -> None:
        while answer := await from_server.read(65_536):
            if self._fault == "cut after":
                return
            if self._fault == "silent":
                continue
            if self._proxy.delay_s:
                await asyncio.sleep(self._proxy.delay_s)
            self._writer.write(self._proxy.disguised(answer))
            await self._writer.drain()


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    """One request: an array of strings, each with its length before it."""
    parts = [await reader.readuntil(b"\r\n")]
    for _ in range(int(parts[0][1:])):
        parts.append(await reader.readuntil(b"\r\n"))
        parts.append(await reader.readexactly(int(parts[-1][1:]) + 2))
    return b"".join(parts)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
