"""A client that leaves in the middle of a request or of its answer costs no traceback."""

import asyncio
import logging
import socket
import struct

import pytest

from relevanced.daemon.exporter import Published, metrics_text
from tests.daemon.http.raw_client import connect, exchange, parsed, serving

LIVEZ = b"GET /livez HTTP/1.0\r\n\r\n"
LARGE = (b"# " + b"x" * 1000 + b"\n") * 20_000
REQUESTS = (
    b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: here\r\nAccept-Encoding: gzip\r\n\r\n",
    b"GET /api/v1/health HTTP/1.1\r\nHost: here\r\n\r\n" * 3,
    b"GET /metrics HTTP/1.1\r\nHo",
)


@pytest.mark.parametrize("reads", [0, 1, 100_000])
@pytest.mark.parametrize("request_bytes", REQUESTS)
async def test_a_client_that_leaves_is_no_fault(
    request_bytes: bytes, reads: int, caplog: pytest.LogCaptureFixture
) -> None:
    """By a reset, as a browser that is closed or a scrape that takes too long."""
    caplog.set_level(logging.WARNING)
    async with serving() as server:
        server.published = Published(text=metrics_text([LARGE]))
        for turns in range(6):
            reader, writer = await connect(server, request_bytes)
            if reads and request_bytes.endswith(b"\r\n\r\n"):
                await reader.read(reads)
            for _ in range(turns):
                await asyncio.sleep(0)
            link = writer.get_extra_info("socket")
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        assert parsed(await exchange(server, LIVEZ))[0] == 200
        await asyncio.sleep(0.05)
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= 40]
