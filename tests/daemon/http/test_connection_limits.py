"""How many connections may be open, before any password is checked, and what happens to more."""

import asyncio
import json
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from structlog.testing import capture_logs

from relevanced.daemon.http import HttpServer, connections
from tests.daemon.http.raw_client import PATIENCE_S, REQUEST, connect, exchange, serving

ONCE = REQUEST.replace(b"1.1", b"1.0")
LARGE = b"GET /page/main.js HTTP/1.1\r\nHost: here\r\n\r\n"
Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]
ACCEPTED = Counter[str]()


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 12)
    monkeypatch.setattr(connections, "MOST_OF_AN_ADDRESS", 5)


@pytest.fixture(autouse=True)
def accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count what servers accept, refused or not."""
    admit = connections.Connections.admit

    def counted(self: connections.Connections, host: str) -> connections.Connection | None:
        admitted = admit(self, host)
        ACCEPTED["connections"] += 1
        return admitted

    ACCEPTED.clear()
    monkeypatch.setattr(connections.Connections, "admit", counted)


async def waiting(server: HttpServer, count: int, address: str = "127.0.0.1") -> list[Client]:
    """Connections that send a part of a request, one after the other."""
    clients = []
    for _ in range(count):
        before = ACCEPTED["connections"]
        clients.append(await connect(server, REQUEST[:9], address))
        await until(lambda count=before: ACCEPTED["connections"] > count)
    return clients


def waiting_for_clients(server: HttpServer) -> int:
    """How many connections wait until their client reads."""
    assert server._connections is not None
    return sum(not each._reader._goes_on.is_set() for each in server._connections._open)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.001)


def closed(clients: list[Client]) -> list[bool]:
    return [reader.at_eof() or reader.exception() is not None for reader, _ in clients]


async def are_closed(clients: list[Client], expected: list[bool]) -> None:
    """Wait until these are closed, and the others are not."""
    await until(lambda: closed(clients) == expected)


def close(clients: list[Client]) -> None:
    for _, writer in clients:
        writer.close()


async def test_an_address_may_keep_so_many_and_the_longest_waiting_make_room() -> None:
    async with serving() as server:
        other = await waiting(server, 1, "127.0.0.2")
        clients = await waiting(server, 8)
        await are_closed(clients, [True] * 3 + [False] * 5)
        assert b" 200 " in await exchange(server, ONCE)
        assert closed(other) == [False]
        close(clients + other)


async def test_all_addresses_together_may_keep_so_many() -> None:
    with capture_logs() as lines:
        async with serving() as server:
            clients = []
            for last in range(2, 10):
                clients += await waiting(server, 2, f"127.0.0.{last}")
            await are_closed(clients, [True] * 4 + [False] * 12)
            assert b" 200 " in await exchange(server, ONCE)
            close(clients)
    (line,) = lines
    assert "too many HTTP connections" in line["event"] and line["log_level"] == "warning"


async def test_a_connection_that_sends_bytes_but_no_request_is_closed_first() -> None:
    async with serving() as server:
        slow = await waiting(server, 1)
        others = await waiting(server, 4)
        for reader, writer in others:
            writer.write(REQUEST[9:])
            await reader.readuntil(b"}")
            slow[0][1].write(b"x")
        more = await waiting(server, 1)
        await are_closed(slow + others + more, [True] + [False] * 5)
        close(slow + others + more)


async def test_requests_in_progress_are_finished_and_more_connections_refused() -> None:
    async with serving() as server:
        busy = [await connect(server, LARGE * 1000) for _ in range(5)]
        await until(lambda: waiting_for_clients(server) == 5)
        refused = await waiting(server, 2)
        await are_closed(refused, [True, True])
        _, other = await connect(server, ONCE, "127.0.0.2")
        for reader, writer in busy:
            writer.write(ONCE)
            async with asyncio.timeout(PATIENCE_S):
                assert (await reader.read()).count(b"HTTP/1.") == 1001
        assert b" 200 " in await exchange(server, ONCE)
        close(busy + refused)
        other.close()


async def test_a_closed_connection_gives_its_room_back() -> None:
    async with serving() as server:
        for _ in range(20):
            assert b" 200 " in await exchange(server, ONCE)
        clients = await waiting(server, 5)
        assert closed(clients) == [False] * 5
        close(clients)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_addresses_of_one_machine_count_together(host: str, address: str) -> None:
    assert connections.counted_as(host) == address


SERVER = """
import asyncio, resource, sys
from relevanced.daemon.http import connections
from relevanced.daemon.http.server import HttpServer
from relevanced.daemon.telemetry.logs import configure
from relevanced.daemon.telemetry.process import Telemetry

connections.PAUSE_S = 0.05
pause = connections.Listener._pause

def told(*arguments):
    pause(*arguments)
    print("paused", flush=True)

connections.Listener._pause = told

async def main():
    server = HttpServer(Telemetry("1"), "all")
    await server.start("127.0.0.1", 0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
    print(server.port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop()

configure("info", "json", sys.stderr)
asyncio.run(main())
"""


@pytest.fixture
def scarce() -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """A server in a process that may open two dozen files."""
    command = [sys.executable, "-c", SERVER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def test_without_file_descriptors_there_is_one_line_and_service_afterwards(
    scarce: tuple["subprocess.Popen[str]", int],
) -> None:
    process, port = scarce
    with ExitStack() as open_clients:
        for _ in range(60):
            open_clients.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(5)] == ["paused\n"] * 5
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
        client.sendall(ONCE)
        assert b" 200 " in client.recv(1000)
    _, log = process.communicate("", timeout=PATIENCE_S)
    (line,) = log.splitlines()
    assert json.loads(line)["reason"] == "Too many open files"
