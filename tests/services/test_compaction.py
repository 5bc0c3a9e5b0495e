"""A compacted topic: reading goes on over the holes, nothing is a gap, and no lane stops."""

import asyncio
import json

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.services.daemons import Daemon, until
from tests.services.fixtures import OwnKafka
from tests.services.kafka_server import KafkaServer
from tests.services.test_kafka_faults import NOW_MS, Make, accepted, make, sample

__all__ = ["make"]

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "0",
}
CLEANER = {"log.cleaner.backoff.ms": "50", "log.initial.task.delay.ms": "100"}
KEYS = 10
TOPIC = "compacted"


def impressions(first: int, count: int) -> list[tuple[bytes, bytes | None]]:
    """Keys and values: impressions of different ids under few keys, and a tombstone at the end."""
    event = {"type": "impression", "timestamp": NOW_MS, "items": ["a", "b"]}
    ids = range(first, first + count)
    values = [json.dumps({**event, "impression_id": f"q{n}"}).encode() for n in ids]
    return [*((b"k%d" % (n % KEYS), v) for n, v in zip(ids, values, strict=True)), (b"k0", None)]


async def send(broker: KafkaServer, first: int) -> None:
    """Send fifty impressions, from this number on, to a segment of their own: by their time stamps
    they are later than a segment may last."""
    records, at_ms = impressions(first, 50), NOW_MS + first * 1000
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
    await producer.start()
    for key, value in records:
        await producer.send(TOPIC, value, key, partition=0, timestamp_ms=at_ms)
    await producer.stop()


async def offsets_with_values(broker: KafkaServer) -> list[int]:
    """The offsets of the records in the log that have a value."""
    place = TopicPartition(TOPIC, 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap)
    await consumer.start()
    try:
        consumer.assign([place])
        consumer.seek(place, 0)
        end = (await consumer.end_offsets([place]))[place]
        found: list[int] = []
        while await consumer.position(place) < end:
            for batch in (await consumer.getmany(timeout_ms=200)).values():
                found += [record.offset for record in batch if record.value is not None]
        return found
    finally:
        await consumer.stop()


async def compacted(broker: KafkaServer, before: int, most: int) -> list[int]:
    """Wait until the log has at most so many values before this offset; returns all that are left
    once nothing more goes away."""
    last: list[int] = []
    async with asyncio.timeout(60):
        while True:
            left = await offsets_with_values(broker)
            if left == last and sum(offset < before for offset in left) <= most:
                return left
            last = left
            await asyncio.sleep(1.0)


async def test_reading_goes_on_over_what_was_compacted(own_kafka: OwnKafka, make: Make) -> None:
    """While the daemon runs, and before what it reads next."""
    broker = own_kafka(properties=CLEANER)
    await broker.create_topic(TOPIC, config=COMPACTED)
    daemon, sent = make(broker.bootstrap, TOPIC), 0
    for _ in range(4):
        await send(broker, sent)
        sent += 50
        await until(lambda: accepted(daemon) == sent, daemon)
    end = sent + 4  # a tombstone after each fifty
    await compacted(broker, end - 51, KEYS)
    assert daemon.terminate() == 0, daemon.log()
    assert log_is_clean(daemon)

    for _ in range(4):
        await send(broker, sent)
        sent += 50
    left = [offset for offset in await compacted(broker, end + 153, KEYS) if offset >= end]
    assert 50 <= len(left) < 70  # of the 200 that nobody has read yet
    again = make(broker.bootstrap, TOPIC)
    await until(lambda: accepted(again) == 200 + len(left), again)
    await send(broker, sent)
    await until(lambda: accepted(again) == 200 + len(left) + 50, again)
    assert not sample(again, "relevanced_gap_records_total")
    assert sample(again, "relevanced_lane_stopped", lane="0") == 0
    assert again.terminate() == 0, again.log()
    assert log_is_clean(again)


def log_is_clean(daemon: Daemon) -> bool:
    """Whether the log tells of no lane that stopped and no record that was lost."""
    return not any(event in daemon.log() for event in ("lane stopped", "records lost", "given up"))
