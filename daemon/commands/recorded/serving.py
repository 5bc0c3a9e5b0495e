"""The page and the API over recorded events, until somebody ends it."""

import asyncio
from collections.abc import Sequence
from importlib.metadata import version

import click

from ...events.timestamps import timestamp_text
from ...exporter.published import Published
from ...http.server import HttpServer, ListenError
from ...lane.lane import Lane
from ...telemetry.process import Telemetry
from ..signals import stopping_on_signals
from ..taken_port import taken_port

HOST = "127.0.0.1"


def words_of(paths: Sequence[str], lane: Lane) -> str:
    """Of what the page is: the files, and when they end."""
    files = paths[0] if len(paths) == 1 else f"{len(paths)} files"
    return f"{files} ends at {timestamp_text(lane.watermark_ms or 0)}"


def serve(published: Published, lane: Lane, port: int, runbook: str | None) -> int:
    """Serve it at the end of the recording: the clock stands. Returns the exit code."""
    try:
        asyncio.run(_serve(published, (lane.watermark_ms or 0) / 1000, port, runbook))
    except ListenError:
        click.echo(taken_port(port), err=True)
        return 1
    return 0


async def _serve(published: Published, at_s: float, port: int, runbook: str | None) -> None:
    telemetry = Telemetry(version("relevanced"), "exporter")
    telemetry.links_to(runbook, None, None)
    server, stop = HttpServer(telemetry, "exporter", clock=lambda: at_s), asyncio.Event()
    server.published = published
    with stopping_on_signals(stop):
        await server.start(HOST, port)
        try:
            click.echo(f"http://{HOST}:{server.port}/  the web page: {published.recording}")
            click.echo(f"http://{HOST}:{server.port}/api/v1/  the same as JSON and CSV")
            click.echo("Press Ctrl-C to stop.")
            await stop.wait()
        finally:
            await server.stop()
