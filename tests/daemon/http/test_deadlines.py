"""How long a client may take, before any password is checked: to send the head of a request, to
send its next one, to read an answer."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator

import pytest

from relevanced.daemon.http import HttpServer, requests
from tests.daemon.http.raw_client import REQUEST, connect, parsed, read_to_end, serving

SHORT_S = 0.3
SOON_S = 20.0
LARGE = b"GET /page/main.js HTTP/1.1\r\nHost: here\r\n\r\n"


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HttpServer]:
    monkeypatch.setattr(requests, "HEAD_TIMEOUT_S", SHORT_S)
    async with serving() as running:
        yield running


async def answered_late(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(SOON_S):
        status, body = parsed(await read_to_end(reader))
    assert (status, list(body)) == (408, ["error"])


async def trickle(writer: asyncio.StreamWriter, sent: bytes) -> None:
    """Send byte by byte, each long before any timeout, for as long as the server listens."""
    for byte in sent * 1000:
        writer.write(bytes([byte]))
        await asyncio.sleep(SHORT_S / 10)


@pytest.mark.parametrize("sent", [b"", b"G", REQUEST[:-2]], ids=["nothing", "a byte", "no end"])
async def test_the_head_of_a_request_must_arrive_in_time(server: HttpServer, sent: bytes) -> None:
    reader, writer = await connect(server, sent)
    await answered_late(reader)
    writer.close()


@pytest.mark.parametrize("before", [b"", REQUEST], ids=["first", "second"])
async def test_a_head_that_trickles_in_has_no_longer(server: HttpServer, before: bytes) -> None:
    reader, writer = await connect(server, before)
    if before:
        await reader.readuntil(b"}")
        await asyncio.sleep(2 * SHORT_S)  # between two requests it may wait
    began_s = time.monotonic()
    sending = asyncio.create_task(trickle(writer, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 9))
    try:
        async with asyncio.timeout(SOON_S):
            answer = await read_to_end(reader)
    finally:
        sending.cancel()
    # What is still sent when the server closes may reset the connection before the answer is read.
    assert not answer or answer.startswith(b"HTTP/1.1 408")
    assert SHORT_S / 2 < time.monotonic() - began_s < SOON_S
    writer.close()


async def test_a_connection_may_wait_between_requests_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "HEAD_TIMEOUT_S", SHORT_S)
    monkeypatch.setattr(requests, "KEEP_ALIVE_S", 3 * SHORT_S)
    async with serving() as server:
        reader, writer = await connect(server, REQUEST)
        for _ in range(3):
            await reader.readuntil(b"}")
            await asyncio.sleep(1.5 * SHORT_S)
            writer.write(REQUEST)
        await reader.readuntil(b"}")
        async with asyncio.timeout(SOON_S):
            assert await read_to_end(reader) == b""
        writer.close()


async def test_a_request_in_progress_is_not_cut_off(server: HttpServer) -> None:
    reader, writer = await connect(server)
    writer.write(LARGE * 300 + REQUEST.replace(b"1.1", b"1.0"))
    await asyncio.sleep(3 * SHORT_S)  # the server waits until the client reads
    answer = await read_to_end(reader)
    assert answer.count(b"HTTP/1.") == 301 and b" 408 " not in answer
    writer.close()


async def test_a_client_that_does_not_read_its_answer_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "READ_TIMEOUT_S", SHORT_S)
    async with serving() as server:
        reader, writer = await connect(server)
        writer.write(LARGE * 2000)
        await asyncio.sleep(4 * SHORT_S)
        async with asyncio.timeout(SOON_S):
            assert (await read_to_end(reader)).count(b"HTTP/1.") < 2000
        writer.close()


async def test_unread_answers_take_little_memory(server: HttpServer) -> None:
    _, writer = await connect(server, LARGE * 1000)
    await asyncio.sleep(3 * SHORT_S)
    transports = [found for found in gc.get_objects() if isinstance(found, asyncio.Transport)]
    assert len(transports) >= 2
    assert max(transport.get_write_buffer_size() for transport in transports) < 200_000
    writer.close()
