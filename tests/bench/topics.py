"""Fills a topic with the traffic of the benchmark."""

import asyncio
import time
from typing import Final

from aiokafka import AIOKafkaProducer

from tests.bench.traffic import Traffic, records
from tests.services.kafka_server import Broker

BATCH_BYTES: Final = 64 << 10
SENT_AT_ONCE: Final = 64
KEPT: Final = {"retention.ms": "-1", "segment.bytes": str(256 << 20)}


async def fill(broker: Broker, topic: str, traffic: Traffic) -> list[int]:
    """Write all of the traffic to the topic, uncompressed, in batches of 64 KiB.

    Returns the number of records of each partition. The impressions end now. With compression the
    floor would cost more, and every ratio to it would look better.
    """
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, max_batch_size=BATCH_BYTES)
    await producer.start()
    try:
        return await _send(producer, topic, traffic)
    finally:
        await producer.stop()


async def _send(producer: AIOKafkaProducer, topic: str, traffic: Traffic) -> list[int]:
    capacity = asyncio.Semaphore(SENT_AT_ONCE)
    building = {partition: producer.create_batch() for partition in range(traffic.partitions)}
    unanswered = set()
    written = [0] * traffic.partitions

    async def send(partition: int) -> None:
        await capacity.acquire()
        batch, building[partition] = building[partition], producer.create_batch()
        batch.close()
        answer = await producer.send_batch(batch, topic, partition=partition)
        unanswered.add(answer)
        answer.add_done_callback(lambda _: capacity.release())

    for record in records(traffic, int(time.time() * 1000)):
        arguments = {"key": record.key, "value": record.value, "timestamp": record.timestamp}
        if building[record.partition].append(**arguments) is None:
            await send(record.partition)
            assert building[record.partition].append(**arguments) is not None
        written[record.partition] += 1
    for partition, batch in list(building.items()):
        if batch.record_count():
            await send(partition)
    await asyncio.gather(*unanswered)
    return written
