"""`relevanced simulate` against a real broker: what it sends arrives, keyed, timed and in order."""

import asyncio
import json
import sys
import uuid
from collections import defaultdict

from aiokafka import AIOKafkaConsumer, ConsumerRecord

from tests.services.kafka_server import Broker

BACKFILL = ["--backfill", "30s", "--duration", "0s", "--rate", "100", "--partitions", "3"]


async def simulated(kafka: str, topic: str, *arguments: str) -> tuple[int, str]:
    """Exit code and error stream of the command."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "relevanced.daemon", "simulate"),
        *("--kafka", kafka, "--topic", topic, *arguments),
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode or 0, errors.decode()


async def everything(kafka: str, topic: str) -> list[ConsumerRecord]:
    """All records of the topic."""
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=kafka, auto_offset_reset="earliest")
    await consumer.start()
    try:
        ends = await consumer.end_offsets(consumer.assignment())
        records: list[ConsumerRecord] = []
        while len(records) < sum(ends.values()):
            for batch in (await consumer.getmany(timeout_ms=500)).values():
                records += batch
        return records
    finally:
        await consumer.stop()


async def test_simulated_events_arrive_keyed_and_in_order(kafka: Broker) -> None:
    topic = f"simulated-{uuid.uuid4().hex[:8]}"
    code, errors = await simulated(kafka.bootstrap, topic, *BACKFILL)
    assert code == 0, errors
    records = await everything(kafka.bootstrap, topic)
    await kafka.delete_topic(topic)
    assert f"{len(records):,} events sent" in errors
    times: dict[int, list[int]] = defaultdict(list)
    for record in records:
        event = json.loads(record.value)
        assert (record.key.decode(), record.timestamp) == (
            event["impression_id"],
            event["timestamp"],
        )
        times[record.partition].append(record.timestamp)
    assert set(times) == {0, 1, 2}
    assert all(found == sorted(found) for found in times.values())
