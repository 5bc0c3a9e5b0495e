"""The daemon as a process: what its users see, and how it starts, waits and ends."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from prometheus_client.parser import text_string_to_metric_families

from relevanced.daemon.kafka import KafkaProducer, KafkaSettings
from tests.services import processes
from tests.services.daemons import Daemon, until
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer

NOW_MS = 1_795_176_000_000
TOML = """
windows = ["1m"]
[kafka]
bootstrap_servers = ["{bootstrap}"]
topics = [{topics}]
group_id = "{group}"
start = "earliest"
commit_interval = "50ms"
[redis]
url = "{redis}"
[attribution]
window = "1m"
lateness = "1s"
{more}
"""
GROUP = "daemon-test"

Make = Callable[..., Daemon]


@pytest.fixture
async def make(kafka: Broker, one_redis: RedisServer, tmp_path: Path) -> AsyncIterator[Make]:
    """`make(topic, …, more="[events]…", role="worker")` starts a daemon that ends with the test."""
    daemons: list[Daemon] = []

    def start(*topics: str, more: str = "", role: str = "all", redis_url: str = "") -> Daemon:
        named = ", ".join(f'"{topic}"' for topic in topics)
        values = {"bootstrap": kafka.bootstrap, "group": f"{GROUP}-{topics[0]}"}
        url = redis_url or one_redis.url
        toml = TOML.format(topics=named, redis=url, more=more, **values)
        daemons.append(Daemon(tmp_path, toml, role))
        return daemons[-1]

    yield start
    for daemon in daemons:
        daemon.close()


async def send(
    kafka: Broker,
    topic: str,
    *values: bytes,
    partition_key: bytes = b"q1",
    timestamp_ms: int = NOW_MS,
) -> None:
    producer = KafkaProducer(KafkaSettings(kafka.bootstrap))
    await producer.start()
    for value in values:
        await producer.send(topic, value, partition_key, timestamp_ms=timestamp_ms)
    await producer.flush()
    await producer.stop()


def impression(number: int = 1, **more: object) -> bytes:
    event = {"type": "impression", "impression_id": f"q{number}", "timestamp": NOW_MS}
    return json.dumps({**event, "items": ["a", "b"], **more}).encode()


def click(number: int = 1, item: str = "a") -> bytes:
    event = {"type": "feedback", "impression_id": f"q{number}", "timestamp": NOW_MS + 1000}
    return json.dumps({**event, "kind": "click", "item": item}).encode()


def samples(daemon: Daemon) -> dict[str, float]:
    """`name{label="value",…}` → value of everything at /metrics, labels by name."""
    found = {}
    for family in text_string_to_metric_families(daemon.get("/metrics").decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def promtool_complaints(page: bytes) -> str:
    """What `promtool check metrics` prints for a text. CI has it; elsewhere it may be missing."""
    if shutil.which("promtool") is None:
        assert os.environ.get("CI") != "true"
        return ""
    command = ["promtool", "check", "metrics"]
    answer = subprocess.run(command, input=page, capture_output=True, timeout=30)
    return answer.stdout.decode() + answer.stderr.decode()


async def test_a_click_is_seen_at_metrics_and_at_the_api(
    kafka: Broker, make_topic: MakeTopic, make: Make
) -> None:
    topic = await make_topic(partitions=2)
    daemon = make(topic, more='[metrics]\nnames = ["P@1"]\n[segments]\ngroupings = []')
    await send(kafka, topic, impression(1), impression(2), click(1))
    await until(lambda: samples(daemon).get("relevanced_events_total{kind=feedback}"))
    found = samples(daemon)
    assert found["relevanced_impression_outcomes_total{outcome=accepted}"] == 2
    assert found["relevanced_feedback_outcomes_total{outcome=joined}"] == 1
    await until(lambda: "relevanced_lost_history_seconds{lane=0}" in samples(daemon))
    assert promtool_complaints(daemon.get("/metrics")) == ""
    scores = json.loads(daemon.get("/api/v1/scores"))
    assert scores["events"]["impressions"] == 2
    assert {score["metric"] for score in scores["scores"]} == {"P@1"}
    await until(lambda: json.loads(daemon.get("/readyz"))["ready"])


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_in_order(
    kafka: Broker, make_topic: MakeTopic, make: Make, kind: signal.Signals
) -> None:
    topic = await make_topic()
    daemon = make(topic)
    await send(kafka, topic, impression())
    await until(lambda: samples(daemon).get("relevanced_events_total{kind=impression}"))
    assert await asyncio.to_thread(daemon.terminate, kind) == 0
    assert '"stopped"' in daemon.log()
    assert "Traceback" not in daemon.log()
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    groups = [group for group, _ in await admin.list_consumer_groups() if topic in group]
    described = (await admin.describe_consumer_groups(groups))[0].groups[0]
    await admin.close()
    assert described[5] == [], "it has left the group"


async def test_bad_records_are_counted_and_dead_lettered(
    kafka: Broker, make_topic: MakeTopic, make: Make
) -> None:
    topic, dead = await make_topic(), await make_topic(prefix="dead")
    daemon = make(topic, more=f'[events]\ndead_letter_topic = "{dead}"')
    await send(kafka, topic, b"{not json", impression(), b'{"type":"nonsense"}', click())
    await until(lambda: samples(daemon).get("relevanced_events_total{kind=feedback}"))
    found = samples(daemon)
    assert found["relevanced_rejected_events_total{reason=not_json}"] == 1
    assert found["relevanced_rejected_events_total{reason=unknown_type}"] == 1
    letters = await read_all(kafka, dead, 2)
    headers = [dict(letter.headers) for letter in letters]
    assert [letter.value for letter in letters] == [b"{not json", b'{"type":"nonsense"}']
    assert [h["relevanced.offset"] for h in headers] == [b"0", b"2"]
    assert headers[1]["relevanced.reason"] == b"unknown_type"


@pytest.mark.parametrize("bound", ["before", "after"])
async def test_dead_letters_whose_time_stamp_the_topic_refuses_are_sent_without_it(
    kafka: Broker, make_topic: MakeTopic, make: Make, bound: str
) -> None:
    """The topic bounds how far time stamps may lie before, or after, the broker's clock."""
    now_ms, hour_ms = int(time.time() * 1000), 3_600_000
    wrong_ms = now_ms - 2 * hour_ms if bound == "before" else now_ms + 2 * hour_ms
    unbounded = {f"message.timestamp.{side}.max.ms": str(2**62) for side in ("before", "after")}
    bounded = {f"message.timestamp.{bound}.max.ms": str(hour_ms)}
    topic = await make_topic(config=unbounded)
    dead = await make_topic(prefix="dead", config=bounded)
    daemon = make(topic, more=f'[events]\ndead_letter_topic = "{dead}"')
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap)
    await producer.start()
    for value, timestamp_ms in ((b"{good time", now_ms), (b"{wrong time", wrong_ms)):
        await producer.send_and_wait(topic, value, timestamp_ms=timestamp_ms)
    await producer.stop()
    letters = {letter.value: letter for letter in await read_all(kafka, dead, 2)}
    assert set(letters) == {b"{good time", b"{wrong time"}
    refused = dict(letters[b"{wrong time"].headers)
    assert refused["relevanced.refused_timestamp_ms"] == str(wrong_ms).encode()
    assert abs(letters[b"{wrong time"].timestamp - now_ms) < hour_ms
    assert letters[b"{good time"].timestamp == now_ms
    assert '"dead letter refused"' not in daemon.log()


async def read_all(kafka: Broker, topic: str, count: int) -> list[Any]:
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign([TopicPartition(topic, 0)])
    found: list[Any] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            for batch in (await consumer.getmany(timeout_ms=200)).values():
                found += batch
    await consumer.stop()
    return found


async def test_a_worker_at_its_memory_bound_reads_nothing_and_loses_nothing(
    kafka: Broker, make_topic: MakeTopic, make: Make
) -> None:
    topic = await make_topic()
    await send(kafka, topic, impression(), click())
    tight = make(topic, more="[worker]\nmax_memory_mib = 1", role="worker")
    await until(lambda: tight.series("relevanced_memory_bound_met"))
    assert tight.series("relevanced_memory_bound_bytes") == 1 << 20
    await until(lambda: "must be < 1 MiB" in tight.readiness())
    await until(lambda: "lanes assigned" in tight.log())
    assert await asyncio.to_thread(tight.terminate) == 0
    assert tight.log().count("memory bound met") == 1
    assert "lane owned" not in tight.log()
    roomy = make(topic)
    await until(
        lambda: samples(roomy).get("relevanced_feedback_outcomes_total{outcome=joined}") == 1
    )
    assert roomy.series("relevanced_memory_bound_met") == 0


async def test_topics_of_unequal_partition_counts_are_refused(
    make_topic: MakeTopic, make: Make
) -> None:
    first, second = await make_topic(partitions=2), await make_topic(partitions=3)
    daemon = make(first, second)
    assert await asyncio.to_thread(daemon.process.wait, 30) == 1
    assert f"{first}" in daemon.log() and "2" in daemon.log() and "3" in daemon.log()


async def test_impressions_and_clicks_of_two_topics_join(
    kafka: Broker, make_topic: MakeTopic, make: Make
) -> None:
    shown, clicked = await make_topic(partitions=2), await make_topic(partitions=2)
    daemon = make(shown, clicked)
    await send(kafka, clicked, click())
    await until(lambda: samples(daemon).get("relevanced_events_total{kind=feedback}"))
    assert samples(daemon)["relevanced_feedback_outcomes_total{outcome=joined}"] == 0
    await send(kafka, shown, impression())
    await until(lambda: samples(daemon)["relevanced_feedback_outcomes_total{outcome=joined}"])


async def test_worker_and_exporter_share_the_work(
    kafka: Broker, make_topic: MakeTopic, make: Make
) -> None:
    topic = await make_topic()
    worker, exporter = make(topic, role="worker"), make(topic, role="exporter")
    await send(kafka, topic, impression(), click())
    await until(lambda: samples(exporter).get("relevanced_events_total{kind=feedback}"))
    assert "relevanced_events_total{kind=feedback}" not in samples(worker)
    await until(lambda: samples(worker)["relevanced_owned_lanes{}"] == 1)
    assert samples(exporter)["relevanced_exporter_lease_held{}"] == 1


async def test_only_one_exporter_serves_and_another_takes_over(
    kafka: Broker, make_topic: MakeTopic, make: Make
) -> None:
    topic = await make_topic()
    first = make(topic)
    await send(kafka, topic, impression())
    await until(lambda: samples(first).get("relevanced_events_total{kind=impression}"))
    second = make(topic, role="exporter")
    await until(lambda: "relevanced_exporter_lease_held{}" in samples(second))
    assert "relevanced_events_total{kind=impression}" not in samples(second)
    assert await asyncio.to_thread(first.terminate) == 0
    await until(lambda: samples(second).get("relevanced_events_total{kind=impression}"))


async def test_it_waits_for_redis_and_logs_it(
    kafka: Broker, make_topic: MakeTopic, make: Make, one_redis: RedisServer
) -> None:
    topic = await make_topic()
    await asyncio.to_thread(one_redis.stop)
    daemon = make(topic)
    await send(kafka, topic, impression())
    await until(lambda: "waiting for Redis" in daemon.log())
    await asyncio.to_thread(one_redis.start)
    await until(lambda: samples(daemon).get("relevanced_events_total{kind=impression}"))


def test_a_taken_port_is_a_message_for_people(tmp_path: Path, one_redis: RedisServer) -> None:
    port = processes.free_port()
    toml = f'[redis]\nurl = "{one_redis.url}"\n'
    first, second = Daemon(tmp_path, toml, "exporter", port), None
    try:
        processes.wait_until(
            lambda: '"serving"' in first.log(),
            alive=lambda: first.process.poll() is None,
            log=first.log,
            name="daemon",
            patience_s=30,
        )
        second = Daemon(tmp_path, toml, "exporter", port)
        assert second.process.wait(30) == 1
        assert f"127.0.0.1:{port}" in second.log() and "Traceback" not in second.log()
    finally:
        first.close()
        if second is not None:
            second.close()


async def test_where_all_producers_are_an_hour_ahead_readiness_says_so_and_views_do_not_follow(
    kafka: Broker, make_topic: MakeTopic, make: Make
) -> None:
    topic = await make_topic()
    daemon = make(topic)
    ahead_ms = int(time.time() * 1000) + 3_600_000
    shown = [impression(n, timestamp=ahead_ms + n * 20_000) for n in range(9)]
    await send(kafka, topic, *shown, timestamp_ms=ahead_ms)

    def not_ready() -> str:
        conditions = json.loads(daemon.get("/api/v1/health"))["conditions"]
        return next((c["detail"] for c in conditions if c["name"] == "clocks" and not c["ok"]), "")

    await until(not_ready)
    found = re.fullmatch(
        rf"{topic}\[0\]: its events are (\d+) s ahead of this machine's clock", not_ready()
    )
    assert found is not None and 3_600 <= int(found[1]) <= 3_760
    await until(lambda: "relevanced_as_of_timestamp_seconds{}" in samples(daemon))
    seen = samples(daemon)
    assert seen["relevanced_as_of_timestamp_seconds{}"] <= time.time()
    assert seen["relevanced_impression_outcomes_total{outcome=accepted}"] == 9
    gauge = f"relevanced_watermark_ahead_seconds{{partition=0,topic={topic}}}"
    assert abs(seen[gauge] - int(found[1])) < 120
