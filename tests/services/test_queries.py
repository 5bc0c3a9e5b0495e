"""Tables of queries on real parts: the same after a crash, read by another process, and without the
text of a single user anywhere."""

import json
import signal
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from relevanced.daemon.kafka import KafkaSettings
from relevanced.daemon.panes import HOUR_MS, pane_start
from tests.kafka_compression import Lz4Producer
from tests.services.daemons import Daemon, until
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer
from tests.services.whole_path import PARTITIONS, Stage

EVENTS = 24_000
RATE = 2.0
"""Events a second of event time: they last for three hours."""
RARE = "one person's own Medical question"
QUERIES = '[queries]\ntext = "plain"\nby = "country"\nmin_users = 3\nkept = 450\n'


class QueryStage(Stage):
    """A stage whose daemons keep queries, and whose topic has one that a single user asked."""

    def toml(self, name: str) -> str:
        return super().toml(name) + QUERIES

    async def produce(self, count: int) -> None:
        producer = Lz4Producer(KafkaSettings(self.kafka.bootstrap))
        await producer.start()
        planted = 0
        for arrival_ms, event in islice(self.events, count):
            if event["type"] == "impression" and planted < 2 and event.get("user_id"):
                event, planted = {**event, "query": RARE, "user_id": "u-one"}, planted + 1
            value = msgspec.json.encode(event)
            key = str(event["impression_id"]).encode()
            await producer.send(self.topic, value, key, timestamp_ms=arrival_ms)
        refused = msgspec.json.encode({"type": "impression", "query": RARE, "items": 5})
        await producer.send(self.topic, refused, b"k", timestamp_ms=arrival_ms)
        await producer.flush()
        await producer.stop()


@pytest.fixture
async def stage(
    kafka: Broker, one_redis: RedisServer, make_topic: MakeTopic, tmp_path: Path
) -> Iterator[QueryStage]:
    topic = await make_topic(partitions=PARTITIONS)
    # Windows of queries end by the clock: the events end in the hour that it is.
    start_ms = pane_start(int(time.time() * 1000), HOUR_MS) - 3 * HOUR_MS
    built = QueryStage(kafka, one_redis.url, topic, tmp_path, rate=RATE, start_ms=start_ms)
    yield built
    built.close()


def listed(daemon: Daemon, **query: object) -> Any:
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    return json.loads(daemon.get(f"/api/v1/queries?{asked}"))


def detail(daemon: Daemon, query: str, window: str) -> Any:
    asked = urlencode({"query": query, "window": window})
    return json.loads(daemon.get(f"/api/v1/queries/detail?{asked}"))


async def settled(daemon: Daemon, stage: QueryStage, name: str) -> Any:
    """The whole of all hours once the daemon has read the topic."""
    await stage.wait_for(name, EVENTS)
    await until(lambda: listed(daemon, window="7d")["hours"] >= 2, daemon)
    found: list[Any] = [None]

    def rests() -> bool:
        found.append(listed(daemon, window="7d", limit=1000))
        return found[-1] == found[-2]

    await until(rests, daemon)
    return found[-1]


async def test_tables_survive_a_crash_and_show_no_text_of_one_user(stage: QueryStage) -> None:
    await stage.produce(EVENTS)
    calm = stage.daemon("calm", role="all")
    crashed = stage.daemon("crashed")
    await stage.wait_for("crashed", EVENTS // 3)
    crashed.process.send_signal(signal.SIGKILL)
    crashed.process.wait()
    again = stage.daemon("crashed")
    reader = stage.daemon("crashed", role="exporter")
    expected = await settled(calm, stage, "calm")
    assert expected["whole"]["impressions"] > 5_000 and expected["rows"]
    assert expected["rare"]["impressions"] >= 2
    assert await settled(reader, stage, "crashed") == expected
    texts = [calm.get("/metrics").decode(), reader.get("/metrics").decode(), json.dumps(expected)]
    for window in ("now", "1h", "24h"):
        for order in ("impressions", "worst", "zero_results", "lost"):
            texts.append(json.dumps(listed(reader, window=window, order=order, limit=1000)))
            asked = f"window={window}&order={order}&limit=1000"
            texts.append(reader.get(f"/api/v1/queries.csv?{asked}").decode())
    for row in expected["rows"][:20]:
        for window in ("now", "24h"):
            one = detail(calm, row["query"], window)
            assert detail(reader, row["query"], window) == one, "examples survive the crash too"
            texts.append(json.dumps(one))
        assert one["shown"] and len(one["examples"]) == 2 and one["lost_examples"] == 0
    rare, unknown = detail(reader, RARE, "24h"), detail(reader, "nobody asked this", "24h")
    assert {**rare, "query": ""} == {**unknown, "query": ""} and not rare["shown"]
    assert "relevanced_query_tables_bytes" in texts[0]
    exemplar = b'{impression_id="'
    await until(lambda: exemplar in calm.get("/metrics", "application/openmetrics-text"), calm)
    for daemon in (calm, again, reader):
        assert daemon.terminate() == 0, daemon.log()
    for text in (*texts, *(daemon.log() for daemon in (calm, crashed, again, reader))):
        assert "medical question" not in text.lower()
