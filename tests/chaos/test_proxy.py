"""Network faults and traps of the proxy between a client and an echo server."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from io import BytesIO
from typing import Any

import pytest
from aiokafka.protocol.api import RequestHeader_v1
from aiokafka.protocol.produce import ProduceRequest

from tests.chaos.points import REFUSED, refusal_of
from tests.chaos.proxy import NetworkFaults, Proxy, Trap, kafka_api, kafka_request

HELLO = b"\x00\x00\x00\x04\x00\x08\x00\x02"
"""A request of API 8, as Kafka frames it."""


class Echo:
    """A server that records every request and echoes it."""

    def __init__(self) -> None:
        self.got: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                self.got.append(await kafka_request(reader))
                writer.write(self.got[-1])
        writer.close()


@pytest.fixture
async def echo() -> AsyncIterator[tuple[Echo, Proxy]]:
    counting = Echo()
    server = await asyncio.start_server(counting.serve, "127.0.0.1", 0)
    proxy = Proxy(kafka_request, random.Random(1))
    await proxy.start()
    proxy.target_port = server.sockets[0].getsockname()[1]
    yield counting, proxy
    await proxy.close()
    server.close()


async def ask(proxy: Proxy, patience_s: float = 5.0) -> bytes:
    """The answer to a request; empty if the connection ended or no answer came in time."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        writer.write(HELLO)
        async with asyncio.timeout(patience_s):
            return await reader.read(100)
    except (OSError, TimeoutError):
        return b""
    finally:
        writer.close()


async def test_request_of_a_lost_answer_arrives(echo: tuple[Echo, Proxy]) -> None:
    server, proxy = echo
    proxy.network = NetworkFaults(cut_after=1.0)
    assert await ask(proxy) == b""
    assert server.got == [HELLO]


@pytest.mark.parametrize("faults", [NetworkFaults(cut_before=1.0), NetworkFaults(refuses=True)])
async def test_cut_request_never_arrives(echo: tuple[Echo, Proxy], faults: NetworkFaults) -> None:
    server, proxy = echo
    proxy.network = faults
    assert await ask(proxy) == b""
    assert server.got == []


async def test_half_open_connection_drops_requests_and_answers(echo: tuple[Echo, Proxy]) -> None:
    server, proxy = echo
    proxy.network = NetworkFaults(drops_answers=True)
    assert await ask(proxy, patience_s=0.2) == b""
    proxy.network = NetworkFaults(drops_requests=True)
    assert await ask(proxy, patience_s=0.2) == b""
    assert server.got == [HELLO]
    await proxy.clear()
    assert await ask(proxy) == HELLO


async def test_withheld_request_can_be_delivered_later(echo: tuple[Echo, Proxy]) -> None:
    server, proxy = echo
    kept: list[bytes] = []
    proxy.trap = Trap(kafka_api(8), "withheld", kept.append)
    assert await ask(proxy) == b"" and kept == [HELLO] and server.got == []
    assert await ask(proxy) == HELLO
    await proxy.deliver(kept)
    assert server.got == [HELLO, HELLO]


async def test_refused_request_never_arrives_and_is_answered(echo: tuple[Echo, Proxy]) -> None:
    server, proxy = echo
    proxy.trap = Trap(kafka_api(8), "refused", lambda request: b"no")
    assert await ask(proxy) == b"no" and server.got == []
    assert await ask(proxy) == HELLO


async def test_refusal_names_all_that_was_to_be_produced() -> None:
    kind = ProduceRequest._CLASSES[-1]
    request: Any = kind(None, -1, 1_000, [("t", [(0, b"x"), (2, b"y")])])
    raw = RequestHeader_v1(request, 6, "c").encode() + request.encode()
    answer = refusal_of(len(raw).to_bytes(4, "big") + raw)
    assert answer[:8] == (len(answer) - 4).to_bytes(4, "big") + (6).to_bytes(4, "big")
    ((topic, parts),), _ = request.RESPONSE_TYPE.SCHEMA.decode(BytesIO(answer[8:]))
    assert topic == "t" and [part[:2] for part in parts] == [(0, REFUSED), (2, REFUSED)]


async def test_delayed_request_is_forwarded_after_the_action(echo: tuple[Echo, Proxy]) -> None:
    server, proxy = echo

    async def act(_: bytes) -> None:
        await asyncio.sleep(0.01)
        server.got.append(b"act")

    proxy.trap = Trap(kafka_api(8), "delayed", act)
    assert await ask(proxy) == HELLO
    assert server.got == [b"act", HELLO]


@pytest.mark.parametrize("moment", ["sent", "answered"])
async def test_trap_ignores_requests_that_do_not_match(
    echo: tuple[Echo, Proxy], moment: str
) -> None:
    _, proxy = echo
    kept: list[bytes] = []
    proxy.trap = Trap(kafka_api(9), moment, kept.append)  # type: ignore[arg-type]  # by parameter
    assert await ask(proxy) == HELLO and kept == []
    proxy.trap = Trap(kafka_api(8), moment, kept.append)  # type: ignore[arg-type]
    assert await ask(proxy) == HELLO
    await asyncio.sleep(0)
    assert kept == [HELLO]
