"""Searches of weeks, produced at once with the times of their events, then live ones.

The model is that of `relevanced simulate`. What breaks is described by event time, so it may have
begun before the trial or begin during it.
"""

import asyncio
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import takewhile
from math import inf
from typing import Any, Final

import msgspec

from relevanced.daemon.errors import Unavailable
from relevanced.daemon.kafka import KafkaProducer, KafkaSettings
from relevanced.daemon.tools.traffic import (
    EVENTS_PER_IMPRESSION,
    Regression,
    Traffic,
    World,
    generate_events,
)
from tests.kafka_compression import Lz4Producer

HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000
WEEK_MS: Final = 7 * 24 * HOUR_MS
SEARCHES_PER_HOUR: Final = 1500
HISTORY_HOURS: Final = 7
"""Hours of each week: those up to the present time of the week."""
HOURS_AHEAD: Final = 2
"""How far the weeks before reach beyond the present: those hours come during the trial."""
WEEKS: Final = 3
SEED: Final = 7
TICK_S: Final = 1.0
SENDING_S: Final = 60.0
MOST_AT_ONCE: Final = 20_000
PATIENCE_S: Final = 300.0

Timed = tuple[int, dict[str, Any]]
Encoded = tuple[int, bytes, bytes]
"""Time, key and value of a record."""
Encode = Callable[[dict[str, Any]], bytes]
"""From an event to the value of its record."""


@dataclass(frozen=True)
class Fault:
    """What breaks, and when: minutes from the start of the live traffic, negative for before it."""

    after_minutes: float
    lasts_minutes: float = inf
    ranking_of: Mapping[str, str] | None = None
    """The impressions of this segment are ranked at random; {} for all of them."""
    empty_share: float = 0.0
    """The share of the queries that find nothing any more."""
    clicks_lost: float = 0.0
    """The share of the feedback that does not arrive."""
    fewer: Mapping[str, float] = field(default_factory=dict)
    """Country → the share of its searches that stay away."""

    def span_ms(self, now_ms: int) -> tuple[int, float]:
        """(when it begins, when it is repaired)"""
        begin_ms = now_ms + int(self.after_minutes * MINUTE_MS)
        return begin_ms, begin_ms + self.lasts_minutes * MINUTE_MS


def drawn(name: str, share: float) -> bool:
    """Whether a name is among this share of all names: the same at every call."""
    return zlib.crc32(name.encode()) % 10_000 < share * 10_000


def events(
    now_ms: int, hours: float = HISTORY_HOURS, fault: Fault | None = None
) -> Iterator[Timed]:
    """The events of this week from some hours before `now_ms` on, in order of arrival, without
    end."""
    start_ms = now_ms - int(hours * HOUR_MS)
    if fault is None:
        return _week(start_ms, None)
    span_ms = fault.span_ms(now_ms)
    regression = None
    if fault.ranking_of is not None:
        after_s, until_s = ((at_ms - start_ms) / 1000 for at_ms in span_ms)
        regression = Regression(after_s, fault.ranking_of, until_s=until_s)
    return _broken(_week(start_ms, regression), fault, span_ms)


def past(now_ms: int, weeks: int = WEEKS) -> Iterator[Timed]:
    """The events of the weeks before: the hours of `events`, and those that follow during the
    trial."""
    for week in range(weeks, 0, -1):
        at_ms = now_ms - week * WEEK_MS
        end_ms = at_ms + int(HOURS_AHEAD * HOUR_MS)
        healthy = _week(at_ms - int(HISTORY_HOURS * HOUR_MS), None)
        yield from takewhile(lambda timed: timed[0] < end_ms, healthy)  # noqa: B023


@cache
def encoded_past(now_ms: int) -> list[Encoded]:
    """`past` as records, the same for every topic."""
    return [_encoded(timed) for timed in past(now_ms)]


def _encoded(timed: Timed, encode: Encode = msgspec.json.encode) -> Encoded:
    at_ms, event = timed
    return at_ms, event["impression_id"].encode(), encode(event)


def _week(start_ms: int, regression: Regression | None) -> Iterator[Timed]:
    rate = SEARCHES_PER_HOUR / 3600 * EVENTS_PER_IMPRESSION
    return generate_events(_SameUsers(SEED, rate, regression), start_ms)


class _SameUsers(Traffic):
    """Traffic of the same users and queries in every stream: they take a second to make."""

    @cached_property
    def world(self) -> World:
        return _world()


@cache
def _world() -> World:
    return Traffic(SEED).world


def _broken(healthy: Iterator[Timed], fault: Fault, span_ms: tuple[int, float]) -> Iterator[Timed]:
    """The events as they are where a fault has left them. Impressions come before their feedback:
    what became of one decides about its feedback."""
    silenced = set[str]()
    for at_ms, event in healthy:
        search, is_on = event["impression_id"], span_ms[0] <= at_ms < span_ms[1]
        if event["type"] == "impression":
            if is_on and drawn(search, fault.fewer.get(_country(event), 0.0)):
                silenced.add(search)
                continue
            if is_on and drawn(event["query"], fault.empty_share):
                silenced.add(search)
                event = {**event, "items": []}
        elif search in silenced or (is_on and _lost(event, fault)):
            continue
        yield at_ms, event


def _country(event: Mapping[str, Any]) -> str:
    return str(event["attributes"]["country"])


def _lost(event: Mapping[str, Any], fault: Fault) -> bool:
    return drawn(f"{event['impression_id']} {event['item']} {event['kind']}", fault.clicks_lost)


class Searchers:
    """Sends one stream of events to one topic: all that lies before now at once, the rest as its
    time comes. A broker that is away is waited for."""

    def __init__(
        self,
        kafka: str,
        topic: str,
        stream: Iterator[Timed],
        before: Sequence[Encoded] = (),
        encode: Encode = msgspec.json.encode,
    ) -> None:
        """`before`: records to send first."""
        self._settings, self._topic = KafkaSettings(kafka, (topic,), "none"), topic
        self._stream, self._before, self._encode = stream, before, encode
        self._ahead = next(stream)
        self._producer: KafkaProducer | None = None
        self._caught_up, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Return when all that lies before now is in the topic."""
        if not self._caught_up.wait(PATIENCE_S):
            raise TimeoutError(f"{self._topic}: the history was not sent in {PATIENCE_S} s")

    def close(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)

    async def _run(self) -> None:
        due = [*self._before]
        while not self._stop.is_set():
            due = due or self._due(int(time.time() * 1000))
            if not due or await self._sent(due):
                due = []
            if not due and self._ahead[0] > time.time() * 1000:
                self._caught_up.set()
                await asyncio.sleep(TICK_S)
        await self._disconnect()

    def _due(self, now_ms: int) -> list[Encoded]:
        """The next records up to now; the event after them is kept for later."""
        due: list[Encoded] = []
        while self._ahead[0] <= now_ms and len(due) < MOST_AT_ONCE:
            due.append(_encoded(self._ahead, self._encode))
            self._ahead = next(self._stream)
        return due

    async def _sent(self, due: list[Encoded]) -> bool:
        """Send them; False where the broker is away. What is then sent again is a duplicate."""
        try:
            async with asyncio.timeout(SENDING_S):
                if self._producer is None:
                    self._producer = Lz4Producer(self._settings)
                    await self._producer.start()
                for at_ms, key, value in due:
                    await self._producer.send(self._topic, value, key, timestamp_ms=at_ms)
                await self._producer.flush()
        except (TimeoutError, Unavailable, OSError):
            await self._disconnect()
            return False
        return True

    async def _disconnect(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(Exception):  # the broker may be gone for good
                async with asyncio.timeout(SENDING_S):
                    await producer.stop()
