"""Connections that send any bytes, where a client library would send only good ones."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from relevanced.daemon.http import HttpServer
from relevanced.daemon.telemetry import Telemetry

REQUEST = b"GET /livez HTTP/1.1\r\nHost: here\r\n\r\n"
PATIENCE_S = 20.0


@asynccontextmanager
async def serving(host: str = "127.0.0.1") -> AsyncIterator[HttpServer]:
    """A server that is stopped at the end."""
    server = HttpServer(Telemetry("1"), "all")
    await server.start(host, 0)
    try:
        yield server
    finally:
        await server.stop()


async def connect(
    server: HttpServer, sent: bytes = b"", from_address: str = "127.0.0.1"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection from an address of this machine, and send these bytes."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, local_addr=(from_address, 0)
    )
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """What the server sends until it closes the connection."""
    async with asyncio.timeout(PATIENCE_S):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


async def exchange(server: HttpServer, sent: bytes) -> bytes:
    """What the server sends to these bytes until it closes the connection."""
    reader, writer = await connect(server, sent)
    try:
        return await read_to_end(reader)
    finally:
        writer.close()


def parsed(answer: bytes) -> tuple[int, dict[str, Any]]:
    """The status and the JSON of an answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"\r\ncontent-type: application/json" in head.lower(), answer
    return int(head.split()[1]), json.loads(body)
