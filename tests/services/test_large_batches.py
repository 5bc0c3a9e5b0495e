"""A batch that unpacks to much more than it is: it is unpacked by a thread, and no record of it is
lost or read twice."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer

from relevanced.daemon.kafka import KafkaSettings, KafkaSource
from tests.kafka_compression import install_compression
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker

LINE = b'{"type":"impression","impression_id":"q%d","items":["d","e"]}'
RECORDS = 400_000
"""26 MB."""
MAX_STALL_S = 0.1
PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def compression() -> Iterator[None]:
    install_compression()
    yield


async def test_a_batch_that_unpacks_to_many_megabytes_leaves_turns_to_others(
    kafka: Broker, make_topic: MakeTopic
) -> None:
    topic = await make_topic(config={"max.message.bytes": str(32 << 20)})
    producer = AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap,
        compression_type="zstd",
        max_batch_size=64 << 20,
        max_request_size=64 << 20,
    )
    await producer.start()
    batch = producer.create_batch()
    for number in range(RECORDS):
        assert batch.append(key=None, value=LINE % number, timestamp=None) is not None
    await (await producer.send_batch(batch, topic, partition=0))
    await producer.stop()
    source = KafkaSource(KafkaSettings(kafka.bootstrap, (topic,), group_id=f"large-{topic}"))
    await source.start()
    values: list[bytes] = []
    async with asyncio.timeout(PATIENCE_S):
        while not source.lanes_to_open():
            await source.poll(1, 100)
        await source.open(0, {topic: 0})
        watching = asyncio.create_task(longest_stall())
        while len(values) < RECORDS:
            polled = await source.poll(40_000, 500)
            values += [record.value or b"" for record in polled.lanes.get(0, {}).get(topic, ())]
    watching.cancel()
    stall_s = await watching
    assert values == [LINE % n for n in range(RECORDS)]
    assert source.next_offsets(0) == {topic: RECORDS}
    assert stall_s < MAX_STALL_S, "unpacked in one piece, they take 0.2 s"
    await source.stop()


async def longest_stall() -> float:
    """The longest CPU time of this thread between two turns, until cancelled."""
    worst_s, seen_s = 0.0, time.thread_time()
    try:
        while True:
            await asyncio.sleep(0)
            now_s = time.thread_time()
            worst_s, seen_s = max(worst_s, now_s - seen_s), now_s
    except asyncio.CancelledError:
        return worst_s
