"""What becomes of connections that clients leave open while the server stops."""

import asyncio
import gc
import socket
import time
import warnings

import pytest

from relevanced.daemon.http import HttpServer, server as http
from relevanced.daemon.telemetry import Telemetry

REQUEST = b"GET /livez HTTP/1.1\r\nHost: here\r\n\r\n"
LARGE = b"GET /page/main.js HTTP/1.1\r\nHost: here\r\n\r\n" * 1000
PATIENCE_S = 60.0
AT_ONCE_S = 30.0
"""Far less than that, and far more than a busy machine takes."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a client waits for long."""
    monkeypatch.setattr(http, "SHUTDOWN_PATIENCE_S", PATIENCE_S)
    monkeypatch.setattr(http, "CLOSING_PATIENCE_S", PATIENCE_S)


async def stop_beside_a_client(sent: bytes, turns: int, pause_s: float) -> socket.socket:
    """Stop a server while a client keeps its connection, so many turns of the loop after it
    connected."""
    server = HttpServer(Telemetry("1"), "all")
    await server.start("127.0.0.1", 0)
    client = socket.create_connection(("127.0.0.1", server.port))
    client.setblocking(False)
    client.send(sent)
    await asyncio.sleep(pause_s)
    for _ in range(turns):
        await asyncio.sleep(0)
    await server.stop()
    return client


def unclosed_after_stop(sent: bytes, turns: int = 0, pause_s: float = 0.0) -> list[str]:
    """What was left to the garbage collector."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        client = asyncio.run(stop_beside_a_client(sent, turns, pause_s))
        gc.collect()
    client.close()
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("sent", [b"", REQUEST], ids=["idle", "request"])
@pytest.mark.parametrize("turns", range(8))
def test_stop_closes_a_connection_in_whatever_turn_it_was_accepted(sent: bytes, turns: int) -> None:
    began_s = time.monotonic()
    assert unclosed_after_stop(sent, turns) == []
    assert time.monotonic() - began_s < AT_ONCE_S


def test_stop_closes_a_connection_that_waits_for_its_next_request() -> None:
    assert unclosed_after_stop(REQUEST, pause_s=0.1) == []


def test_stop_aborts_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "CLOSING_PATIENCE_S", 0.1)
    began_s = time.monotonic()
    assert unclosed_after_stop(LARGE, pause_s=0.2) == []
    assert time.monotonic() - began_s < AT_ONCE_S
