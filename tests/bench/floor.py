"""The floor: the cost of reading and decoding for any consumer written in Python.

    python -m tests.bench.floor BOOTSTRAP TOPIC RECORDS BATCH

Reads the same topic with the client and the settings of the daemon, and decodes each record with
msgspec into typed structs; nothing else. The structs are defined here, so that the floor stays the
same when the daemon changes. Prints samples of its progress and CPU time as JSON.
"""

import asyncio
import logging
import sys
import time
import uuid

import msgspec
from aiokafka import AIOKafkaConsumer

from relevanced.daemon.kafka import KafkaSettings, consumer_arguments, install_codecs
from tests.bench.cpu import Sample


class Impression(msgspec.Struct, tag_field="type", tag="impression"):
    impression_id: str
    timestamp: int
    items: list[str]
    attributes: dict[str, str]
    experiments: dict[str, str]


class Feedback(msgspec.Struct, tag_field="type", tag="feedback"):
    impression_id: str
    timestamp: int
    kind: str
    item: str
    rank: int


async def read(bootstrap: str, topic: str, upto: int, batch: int) -> list[Sample]:
    """Read `upto` records of the topic in batches of at most `batch`."""
    install_codecs()
    settings = KafkaSettings(bootstrap, (topic,), f"floor-{uuid.uuid4().hex}")
    arguments = consumer_arguments(settings) | {"auto_offset_reset": "earliest"}
    decode = msgspec.json.Decoder(Impression | Feedback).decode
    consumer = AIOKafkaConsumer(topic, **arguments)
    await consumer.start()
    seen, samples = 0, [Sample(0, time.process_time())]
    try:
        while seen < upto:
            got = await consumer.getmany(timeout_ms=500, max_records=batch)
            for records in got.values():
                for record in records:
                    decode(record.value)
                seen += len(records)
            samples.append(Sample(seen, time.process_time(), at_s=time.monotonic()))
    finally:
        await consumer.stop()
    return samples


def main() -> None:
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it logs errors for new groups
    bootstrap, topic, upto, batch = sys.argv[1:]
    samples = asyncio.run(read(bootstrap, topic, int(upto), int(batch)))
    sys.stdout.buffer.write(msgspec.json.encode(samples))


if __name__ == "__main__":
    main()
