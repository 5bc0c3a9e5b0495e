"""The time from the call of the producer until a gauge in /metrics changes.

During live traffic at a share of the capacity, which is measured first, marker impressions are
sent: each adds one to the count of a segment of its lane, which a scraper polls.
"""

import asyncio
import re
import time
from collections.abc import Iterator
from itertools import count
from typing import Any, Final, NamedTuple

import numpy as np
from aiokafka import AIOKafkaProducer

from tests.bench.effort import Effort
from tests.bench.findings import Finding, PartResult, number
from tests.bench.stage import Job, Running, Stage
from tests.bench.traffic import Traffic, records

SHARES: Final = (0.5, 0.1, 0.9)
GOALS_S: Final = {0.5: 1.5, 0.9: 3.0}
CAPACITY_RECORDS: Final = 500_000
LIVE_S: Final = 20.0
WARM_UP_S: Final = 5.0
FEEDBACK_AFTER_MS: Final = (500, 4_000)
"""Shorter than in other parts, so that feedback is at its full rate after the warm-up."""
SLICE_S: Final = 0.05
"""Time slice whose records of a partition are sent together."""
MARK_EVERY_S: Final = 0.1
SCRAPE_EVERY_S: Final = 0.2
LAST_SEEN_WITHIN_S: Final = 30.0
MARKED: Final = re.compile(
    rb'^relevanced_impressions\{(?=[^}]*segment="MARK(\d+)")(?=[^}]*window="5m")'
    rb'(?=[^}]*view="live")[^}]*\} (\d+)$',
    re.MULTILINE,
)


class Parcel(NamedTuple):
    """A batch, and the time at which it is sent."""

    due_s: float
    partition: int
    batch: Any
    marked: bool


async def measure(stage: Stage, effort: Effort) -> PartResult:
    """The median and the 99th percentile of the time until marker impressions are counted."""
    capacity = await _capacity(stage, effort)
    warm_up_s, live_s = (1.0, 2.0) if effort.is_smoke else (WARM_UP_S, LIVE_S)
    findings: list[Finding] = [
        number("freshness.capacity", "capacity with all roles", [capacity], "events/s")
    ]
    for share in effort.first(SHARES):
        waits = await _waits(stage, capacity * share, warm_up_s, live_s)
        at, key = f"at {share:.0%} of capacity", f"freshness.at_{round(share * 100)}"
        p50, p99 = np.percentile(waits, [50, 99]).tolist()
        findings += [
            number(f"{key}.p50_s", f"produce to gauge, half, {at}", [p50], "s"),
            number(
                f"{key}.p99_s",
                f"produce to gauge, 99 %, {at}",
                [p99],
                "s",
                GOALS_S.get(share),
            ),
        ]
    return PartResult(findings)


async def _capacity(stage: Stage, effort: Effort) -> float:
    """Events per second of a daemon with all roles that catches up, on one machine with the
    broker."""
    traffic = Traffic(records=effort.of(CAPACITY_RECORDS))
    topic = await stage.topic(traffic)
    stage.redis.flush()
    with stage.worker(Job(traffic), topic, stage.name(), role="all") as daemon:
        done = await daemon.measured(traffic.records)
    return done.events / done.wall_s


async def _waits(stage: Stage, rate: float, warm_up_s: float, live_s: float) -> list[float]:
    traffic = Traffic(
        records=round(rate * (warm_up_s + live_s)),
        events_per_second=rate,
        feedback_after_ms=FEEDBACK_AFTER_MS,
    )
    topic = await stage.empty_topic(traffic.partitions)
    stage.redis.flush()
    producer = AIOKafkaProducer(bootstrap_servers=stage.broker.bootstrap, max_batch_size=1 << 20)
    await producer.start()
    try:
        parcels = sorted(parcels_of(producer, traffic, warm_up_s), key=lambda parcel: parcel.due_s)
        with stage.worker(Job(traffic), topic, stage.name(), role="all") as daemon:
            await daemon.lanes_owned()
            return await _watched(producer, topic, parcels, daemon)
    finally:
        await producer.stop()
        await stage.broker.delete_topic(topic)


def parcels_of(producer: AIOKafkaProducer, traffic: Traffic, warm_up_s: float) -> Iterator[Parcel]:
    """The live traffic in time slices, and the markers, each with its time after the start."""
    now_ms = int(time.time() * 1000)
    start_ms = now_ms - traffic.span_ms
    building: dict[tuple[int, int], Any] = {}
    for record in records(traffic, now_ms):
        part = int((record.timestamp - start_ms) / 1000 / SLICE_S)
        if record.timestamp >= now_ms:
            continue  # feedback after the last impression
        key = part, record.partition
        batch = building.get(key) or building.setdefault(key, producer.create_batch())
        batch.append(key=record.key, value=record.value, timestamp=record.timestamp)
    for (part, partition), batch in building.items():
        yield Parcel((part + 1) * SLICE_S, partition, batch, marked=False)
    marks = round((traffic.span_ms / 1000 - warm_up_s) / MARK_EVERY_S)
    for nth in range(marks):
        due_s = warm_up_s + nth * MARK_EVERY_S
        partition = nth % traffic.partitions
        yield Parcel(due_s, partition, _mark(producer, nth, partition, start_ms, due_s), True)


def _mark(producer: AIOKafkaProducer, nth: int, partition: int, start_ms: int, due_s: float) -> Any:
    time_ms = start_ms + round(due_s * 1000)
    value = (
        f'{{"type":"impression","impression_id":"mark-{nth}","timestamp":{time_ms}'
        f',"items":["a"],"attributes":{{"country":"MARK{partition}"}}}}'
    )
    batch = producer.create_batch()
    batch.append(key=b"mark", value=value.encode(), timestamp=time_ms)
    return batch


async def _watched(
    producer: AIOKafkaProducer, topic: str, parcels: list[Parcel], daemon: Running
) -> list[float]:
    """Send all parcels when they are due. Returns the delay of each marker in seconds."""
    sent_s: dict[tuple[int, int], float] = {}
    sending = asyncio.create_task(send(producer, topic, parcels, sent_s))
    seen_s: dict[tuple[int, int], float] = {}
    while not sending.done() or len(seen_s) < len(sent_s):
        page = await asyncio.to_thread(daemon.daemon.get, "/metrics")
        now_s = time.monotonic()
        for partition, found in MARKED.findall(page):
            for nth in range(1, int(found) + 1):
                seen_s.setdefault((int(partition), nth), now_s)
        if sending.done() and now_s > max(sent_s.values()) + LAST_SEEN_WITHIN_S:
            raise RuntimeError(f"{len(seen_s)} of {len(sent_s)} markers were counted")
        await asyncio.sleep(SCRAPE_EVERY_S)
    await sending
    return [seen_s[mark] - sent_s[mark] for mark in sent_s]


async def send(
    producer: AIOKafkaProducer,
    topic: str,
    parcels: list[Parcel],
    sent_s: dict[tuple[int, int], float],
) -> None:
    """Send each parcel when it is due; `sent_s` gets when the markers were sent."""
    began_s = time.monotonic()
    marks: dict[int, Iterator[int]] = {}
    answers = []
    for parcel in parcels:
        await asyncio.sleep(max(0.0, began_s + parcel.due_s - time.monotonic()))
        if parcel.marked:
            nth = next(marks.setdefault(parcel.partition, count(1)))
            sent_s[parcel.partition, nth] = time.monotonic()
        parcel.batch.close()
        answers.append(await producer.send_batch(parcel.batch, topic, partition=parcel.partition))
    await asyncio.gather(*answers)
