"""Traffic that never repeats: new ids, new segment values, orphans, invalid records."""

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Final

import msgspec

from relevanced.daemon.kafka import KafkaSettings
from relevanced.daemon.tools.traffic import Faults, Traffic, generate_events
from tests.kafka_compression import Lz4Producer

START_MS: Final = 1_900_000_000_000
"""In the future, so that the windows depend on the events alone and not on the clock."""
FAULTS: Final = Faults(duplicates=0.01, disorder=0.02, orphans=0.02, off_list=0.02)
INVALID_SHARE: Final = 0.005
NEW_VALUES: Final = 0.2
"""Share of the impressions whose country is the current new value."""
BATCH: Final = 500


def events(seed: int, rate: float, new_value_every_s: int | None) -> Iterator[tuple[int, bytes]]:
    """Endless (arrival in ms, key and value joined by a NUL); `rate` is per second of event
    time."""
    random = Random(f"soak {seed}")
    traffic = Traffic(seed=seed, rate=rate, faults=FAULTS)
    for arrival_ms, event in generate_events(traffic, START_MS):
        key = str(event["impression_id"]).encode()
        if new_value_every_s and random.random() < NEW_VALUES and "attributes" in event:
            new_value = f"new-{arrival_ms // 1000 // new_value_every_s}"
            event = {**event, "attributes": {**event["attributes"], "country": new_value}}
        value = msgspec.json.encode(event)
        if random.random() < INVALID_SHARE:
            value = random.choice((b"{", b"[[]]", b'{"type":"session"}', b'{"type":"feedback"}'))
        yield arrival_ms, key + b"\0" + value


class Producer:
    """Sends batch after batch and waits for the acknowledgement of each."""

    def __init__(self, bootstrap: str, topic: str, source: Iterator[tuple[int, bytes]]) -> None:
        self._topic, self._source = topic, source
        self._producer = Lz4Producer(KafkaSettings(bootstrap))
        self.sent_ms = START_MS

    async def run(self, hours: float) -> None:
        """Send this many hours of event time."""
        await self._producer.start()
        try:
            while self.sent_ms < START_MS + hours * 3_600_000:
                for _ in range(BATCH):
                    self.sent_ms, record = next(self._source)
                    key, _, value = record.partition(b"\0")
                    await self._producer.send(self._topic, value, key, timestamp_ms=self.sent_ms)
                await self._producer.flush()
                await asyncio.sleep(0)
        finally:
            await self._producer.stop()
