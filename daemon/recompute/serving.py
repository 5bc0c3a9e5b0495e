"""The page and the API over recorded events, until a signal asks to stop."""

import asyncio
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Final, TypeAlias

import click

from ..events import timestamp_text
from ..exporter import Published
from ..http import HttpServer, ListenError
from ..lane import Lane, latest_ms
from ..storage import Head
from ..telemetry import Telemetry


@contextmanager
def stopping_on_signals(stop: asyncio.Event) -> Iterator[None]:
    """SIGINT and SIGTERM set `stop`."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


HIGHEST_PORT: Final = 65_535


def taken_port(port: int) -> str:
    """The message, with the way out."""
    return (
        f"Error: another process listens at port {port}: give another one, such as"
        f" --port {min(port + 1, HIGHEST_PORT)}, or --port 0 for any that is free"
    )


HOST = "127.0.0.1"


def words_of(paths: Sequence[str], lane: Lane) -> str:
    """Of what the page is: the files, when they end, and where the page does, if that is
    earlier."""
    files = paths[0] if len(paths) == 1 else f"{len(paths)} files"
    at_ms, last_ms = lane.watermark_ms or 0, latest_ms(lane)
    ends = f"{files} ends at {timestamp_text(max(at_ms, last_ms))}"
    return f"{ends}, shown up to {timestamp_text(at_ms)}" if last_ms > at_ms else ends


Stored: TypeAlias = tuple[Head, Mapping[str, bytes]]
"""The head of the lane, and the values of its tables of queries by their keys."""


class RecordedQueries:
    """The tables of queries of a recording, where the server looks for those of lanes."""

    def __init__(self, stored: Stored) -> None:
        self._head, self._values = stored

    async def head(self, lane: int) -> Head | None:
        """The head of the lane."""
        return self._head

    async def values(self, lane: int, keys: Sequence[str]) -> dict[str, bytes | None]:
        """The values of these keys."""
        return {key: self._values.get(key) for key in keys}


def serve(
    published: Published, lane: Lane, port: int, runbook: str | None, stored: Stored | None = None
) -> int:
    """Serve it at the end of the recording: the clock stands. Returns the exit code."""
    queries, at_s = stored and RecordedQueries(stored), (lane.watermark_ms or 0) / 1000
    try:
        asyncio.run(_serve(published, at_s, port, runbook, queries))
    except ListenError:
        click.echo(taken_port(port), err=True)
        return 1
    return 0


async def _serve(
    published: Published,
    at_s: float,
    port: int,
    runbook: str | None,
    queries: RecordedQueries | None,
) -> None:
    telemetry = Telemetry(version("relevanced"), "exporter")
    telemetry.links_to(runbook, None, None)
    server, stop = HttpServer(telemetry, "exporter", clock=lambda: at_s), asyncio.Event()
    server.published, server.queries = published, queries
    with stopping_on_signals(stop):
        await server.start(HOST, port)
        try:
            click.echo(f"http://{HOST}:{server.port}/  the web page: {published.recording}")
            click.echo(f"http://{HOST}:{server.port}/api/v1/  the same as JSON and CSV")
            click.echo("Press Ctrl-C to stop.")
            await stop.wait()
        finally:
            await server.stop()
