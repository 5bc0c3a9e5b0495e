"""A topic that is missing or empty is named: by readiness, and by the series of the alert."""

import asyncio
import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relevanced.daemon.kafka import KafkaProducer, KafkaSettings
from tests.services.daemons import Daemon
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer

PATIENCE_S = 60.0
TOML = """
windows = ["1m"]
[kafka]
bootstrap_servers = ["{kafka}"]
topics = ["{topic}"]
start = "earliest"
[redis]
url = "{redis}"
"""


async def comes(holds: Callable[[], bool], daemon: Daemon) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, daemon.readiness() + daemon.log()
        await asyncio.sleep(0.2)


async def send(kafka: Broker, topic: str, value: bytes) -> None:
    producer = KafkaProducer(KafkaSettings(kafka.bootstrap, (topic,)))
    await producer.start()
    await producer.send(topic, value, b"key")
    await producer.flush()
    await producer.stop()


@pytest.fixture
def topic() -> str:
    """The name of a topic that does not exist."""
    return f"absent-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def daemon(kafka: Broker, one_redis: RedisServer, tmp_path: Path, topic: str) -> Iterator[Daemon]:
    """A worker of that topic."""
    kafka.start()
    config = TOML.format(kafka=kafka.bootstrap, topic=topic, redis=one_redis.url)
    started = Daemon(tmp_path, config, "worker")
    yield started
    started.close()


def has_watermark(daemon: Daemon) -> bool:
    text = daemon.get("/metrics").decode()
    return "\nrelevanced_partition_watermark_timestamp_seconds{" in text


def event(kind: str) -> bytes:
    fields = {"type": kind, "impression_id": "a", "timestamp": int(time.time() * 1000)}
    return json.dumps({**fields, "items": ["x"]}).encode()


async def test_readiness_and_series_say_why_nothing_arrives(
    kafka: Broker, daemon: Daemon, topic: str
) -> None:
    partitions = f'relevanced_topic_partitions{{topic="{topic}"}}'
    await comes(lambda: f"topic {topic} does not exist" in daemon.readiness(), daemon)
    assert f"{partitions} 0.0" in daemon.get("/metrics").decode()

    await kafka.create_topic(topic, 2)
    silent = f"not one event so far, in the 2 lanes of this process, of {topic}"
    await comes(lambda: silent in daemon.readiness(), daemon)
    assert json.loads(daemon.get("/readyz"))["ready"], "an empty topic is no fault of the process"
    assert daemon.series(partitions) == 2

    await send(kafka, topic, event("search"))  # an event of another format
    await comes(lambda: "records refused" in daemon.log(), daemon)
    doctor = f"relevanced doctor --kafka {kafka.bootstrap} --topics {topic}"
    await comes(lambda: "(unknown_type 1). " in daemon.readiness(), daemon)
    assert doctor in daemon.readiness()
    await comes(lambda: doctor in daemon.log(), daemon)
    assert silent in daemon.readiness() and not has_watermark(daemon)

    await send(kafka, topic, event("impression"))
    await comes(lambda: silent not in daemon.readiness(), daemon)
    await comes(lambda: has_watermark(daemon), daemon)
    await kafka.delete_topic(topic)
