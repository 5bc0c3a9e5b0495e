"""Every codec, written by Java's tools or by aiokafka, is read back the same."""

import asyncio
import random

import aiokafka.codec
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import UnsupportedCodecError

from relevanced.daemon.kafka import install_codecs
from tests.kafka_compression import install_compression
from tests.services import kafka_jars
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READ_PATIENCE_S = 20


def lines() -> list[bytes]:
    """Records as a search log has them: alike, and larger together than one block of any codec."""
    chance = random.Random(1)
    return [
        b'{"type":"impression","impression_id":"q%d","items":["d%d","d%d"],"user_id":"%x"}'
        % (number, chance.randrange(50), chance.randrange(50), chance.getrandbits(64))
        for number in range(3_000)
    ]


async def java_produces(kafka: Broker, topic: str, codec: str) -> None:
    java = kafka_jars.java()
    assert java is not None, kafka_jars.ADVICE
    process = await asyncio.create_subprocess_exec(
        *(java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_jars.jars()}/*"),
        *("org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", kafka.bootstrap),
        *("--topic", topic, "--compression-codec", codec),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate(b"\n".join(lines()) + b"\n")
    assert process.returncode == 0, output.decode()


async def aiokafka_produces(kafka: Broker, topic: str, codec: str) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap,
        compression_type=None if codec == "none" else codec,
        max_batch_size=200_000,
        linger_ms=20,
    )
    await producer.start()
    try:
        await asyncio.gather(*[await producer.send(topic, line) for line in lines()])
    finally:
        await producer.stop()


async def consumed(kafka: Broker, topic: str, count: int) -> list[bytes | None]:
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    await consumer.start()
    values: list[bytes | None] = []
    try:
        async with asyncio.timeout(READ_PATIENCE_S):
            while len(values) < count:
                got = await consumer.getmany(timeout_ms=500)
                values += [record.value for records in got.values() for record in records]
    finally:
        await consumer.stop()
    return values


@pytest.mark.parametrize("codec", CODECS)
async def test_batches_of_aiokafka_are_read_equal(kafka: Broker, topic: str, codec: str) -> None:
    """The broker unpacks each batch to check it: what it takes, Java reads."""
    install_compression()
    await aiokafka_produces(kafka, topic, codec)
    assert await consumed(kafka, topic, len(lines())) == lines()


async def test_batches_of_java_are_read_equal(
    kafka: Broker, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = {codec: await make_topic(prefix=codec) for codec in CODECS}
    await asyncio.gather(*(java_produces(kafka, topic, codec) for codec, topic in topics.items()))
    monkeypatch.setattr(aiokafka.codec, "cramjam", None)
    for codec in ("snappy", "lz4", "zstd"):  # they really are packed
        with pytest.raises(UnsupportedCodecError):
            await consumed(kafka, topics[codec], 1)
    install_codecs()
    for topic in topics.values():
        assert await consumed(kafka, topic, len(lines())) == lines()
