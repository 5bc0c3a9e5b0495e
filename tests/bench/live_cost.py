"""What live traffic costs that is no backlog: few records a commit, so most of the CPU time is that
of fetches and commits, by the number of partitions."""

import asyncio
from typing import Final

from aiokafka import AIOKafkaProducer

from tests.bench.cpu import processor_s
from tests.bench.effort import Effort
from tests.bench.findings import PartResult, number
from tests.bench.freshness import FEEDBACK_AFTER_MS, parcels_of, send
from tests.bench.stage import Job, Stage
from tests.bench.traffic import Traffic

RATE: Final = 1_000.0
PARTITIONS: Final = (4, 8)
ROUNDS: Final = 3
SETTLED_S: Final = 5.0
MEASURED_S: Final = 20.0


async def measure(stage: Stage, effort: Effort) -> PartResult:
    """The busy share of a core of a worker, and what one more partition adds to it."""
    settled_s, measured_s = (1.0, 2.0) if effort.is_smoke else (SETTLED_S, MEASURED_S)
    rounds = [
        [await _busy(stage, partitions, settled_s, measured_s) for partitions in PARTITIONS]
        for _ in range(effort.rounds(ROUNDS))
    ]
    few, many = PARTITIONS
    return PartResult(
        [
            number(
                "live.busy",
                f"busy cores of a worker, {RATE:,.0f} events/s in {few} partitions",
                [busy for busy, _ in rounds],
                "",
            ),
            number(
                "live.partition_ms",
                f"CPU time for one partition more, {RATE:,.0f} events/s",
                [(more - busy) / (many - few) * 1000 for busy, more in rounds],
                "ms/s",
            ),
        ]
    )


async def _busy(stage: Stage, partitions: int, settled_s: float, measured_s: float) -> float:
    whole_s = settled_s + measured_s + 1.0
    traffic = Traffic(
        records=round(RATE * whole_s),
        partitions=partitions,
        events_per_second=RATE,
        feedback_after_ms=FEEDBACK_AFTER_MS,
    )
    topic = await stage.empty_topic(partitions)
    stage.redis.flush()
    producer = AIOKafkaProducer(bootstrap_servers=stage.broker.bootstrap)
    await producer.start()
    try:
        parcels = sorted(parcels_of(producer, traffic, whole_s), key=lambda parcel: parcel.due_s)
        with stage.worker(Job(traffic), topic, stage.name()) as worker:
            await worker.lanes_owned()
            sending = asyncio.create_task(send(producer, topic, parcels, {}))
            await asyncio.sleep(settled_s)
            before_s = processor_s(worker.pid)
            await asyncio.sleep(measured_s)
            used_s = processor_s(worker.pid) - before_s
            await sending
    finally:
        await producer.stop()
        await stage.broker.delete_topic(topic)
    return used_s / measured_s
