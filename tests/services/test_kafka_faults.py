"""The daemon over a Kafka that fails: each fault has a line in the log that says what to do, a
counter, and an end; and no record is lost or counted twice by it."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete
from prometheus_client.parser import text_string_to_metric_families

from relevanced.daemon.telemetry import ADVICE, KafkaFault
from relevanced.daemon.worker import ADVICE as REFUSAL_ADVICE
from tests.services import kafka_logs
from tests.services.daemons import Daemon, until
from tests.services.fixtures import MakeTopic, OwnKafka
from tests.services.kafka_server import Broker, KafkaServer
from tests.services.redis_server import RedisServer, binaries

NOW_MS = 1_795_176_000_000
SESSION_S = 6
TOML = """
windows = ["1m"]
[kafka]
bootstrap_servers = ["{bootstrap}"]
topics = ["{topic}"]
group_id = "faults-{topic}"
start = "earliest"
commit_interval = "50ms"
session_timeout = "{session_s}s"
{kafka}
[redis]
url = "{redis}"
{more}
"""
LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' user_admin="secret" user_daemon="secret";'
)

Make = Callable[..., Daemon]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """`make(bootstrap, topic, kafka="…", more="[events]…")` starts a daemon with a store of its
    own. Which flavour of Redis it is has no say here."""
    _, binary = next(iter(binaries().items()))
    assert binary is not None
    redis = RedisServer(binary, tmp_path / "store")
    redis.start()
    daemons: list[Daemon] = []

    def start(bootstrap: str, topic: str, kafka: str = "", more: str = "") -> Daemon:
        values = {"bootstrap": bootstrap, "topic": topic, "kafka": kafka, "more": more}
        daemons.append(
            Daemon(tmp_path, TOML.format(redis=redis.url, session_s=SESSION_S, **values))
        )
        return daemons[-1]

    yield start
    for daemon in daemons:
        daemon.close()
    redis.kill()


def impressions(start: int, end: int) -> list[bytes]:
    event = {"type": "impression", "timestamp": NOW_MS, "items": ["a", "b"]}
    return [json.dumps({**event, "impression_id": f"q{n}"}).encode() for n in range(start, end)]


async def send(
    bootstrap: str, topic: str, values: Sequence[bytes], partition: int = 0, **others: Any
) -> None:
    """Send the records as one batch each."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **others)
    await producer.start()
    try:
        for value in values:
            await producer.send_and_wait(topic, value, partition=partition, timestamp_ms=NOW_MS)
    finally:
        await producer.stop()


def sample(daemon: Daemon, name: str, **labels: str) -> float | None:
    """One value at /metrics, or None."""
    for family in text_string_to_metric_families(daemon.get("/metrics").decode()):
        for found in family.samples:
            if found.name == name and labels.items() <= found.labels.items():
                return float(found.value)
    return None


def accepted(daemon: Daemon) -> float | None:
    return sample(daemon, "relevanced_impression_outcomes_total", outcome="accepted")


def faults(daemon: Daemon, fault: KafkaFault) -> float:
    return sample(daemon, "relevanced_kafka_faults_total", fault=fault) or 0.0


def warned(daemon: Daemon, event: str, fault: KafkaFault, **fields: object) -> bool:
    """Whether the log has this event, with the advice for the fault."""
    return logged(daemon, {"event": event, "advice": ADVICE[fault], **fields})


def logged(daemon: Daemon, wanted: Mapping[str, object]) -> bool:
    """Whether a line of the log has these fields."""
    lines = [json.loads(line) for line in daemon.log().splitlines() if line.startswith("{")]
    return any(all(line.get(key) == value for key, value in wanted.items()) for line in lines)


def unready(daemon: Daemon) -> str:
    """Why it is not ready; empty where it is."""
    try:
        daemon.get("/readyz")
    except HTTPError as error:
        return error.read().decode()
    return ""


async def delete_records(bootstrap: str, topic: str, before: dict[int, int]) -> None:
    """What an operator does with kafka-delete-records."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.delete_records(
            {TopicPartition(topic, p): RecordsToDelete(offset) for p, offset in before.items()}
        )
    finally:
        await admin.close()


async def damage_three(broker: KafkaServer, topic: str) -> None:
    """Make a topic of four partitions, of which three hold a batch that cannot be read, between
    good ones."""
    await broker.create_topic(topic, partitions=4)
    for partition in range(4):
        first = partition * 3
        await send(broker.bootstrap, topic, impressions(first, first + 3), partition)
    await asyncio.to_thread(broker.stop)
    claims = [
        kafka_logs.claim_codec(codec) for codec in (kafka_logs.UNKNOWN_CODEC, kafka_logs.GZIP)
    ]
    for partition, damage in enumerate([kafka_logs.flip_a_bit, *claims]):
        kafka_logs.rewrite(kafka_logs.segment(broker, topic, partition), 1, damage)
    await asyncio.to_thread(broker.start)


async def test_damaged_partitions_stop_only_themselves_and_can_be_skipped(
    own_kafka: OwnKafka, make: Make
) -> None:
    broker, topic = own_kafka(), "damaged"
    await damage_three(broker, topic)
    daemon = make(broker.bootstrap, topic)
    await until(lambda: accepted(daemon) == 6, daemon)  # 1 + 1 + 1 + 3

    def unreadable() -> list[float | None]:
        name = "relevanced_partition_unreadable"
        return [sample(daemon, name, topic=topic, partition=str(p)) for p in range(4)]

    await until(lambda: unreadable() == [1, 1, 1, 0], daemon)
    kinds: list[KafkaFault] = ["corrupt_batch", "unknown_codec", "unreadable"]
    for partition, kind in enumerate(kinds):
        assert faults(daemon, kind) >= 1
        fields = {"topic": topic, "partition": partition, "offset": 1}
        assert warned(
            daemon, "partition cannot be read, will be tried again", kind, **fields
        ), daemon.log()
    # Readiness is published with the scores, a moment after the gauges.
    await until(lambda: f"Kafka, {topic}[1]: UnsupportedCodecError" in unready(daemon), daemon)
    await send(broker.bootstrap, topic, impressions(12, 15), 3)
    await until(lambda: accepted(daemon) == 9, daemon)
    await delete_records(broker.bootstrap, topic, {0: 2, 1: 2, 2: 2})
    await until(lambda: accepted(daemon) == 12 and unreadable() == [0] * 4, daemon)
    assert sample(daemon, "relevanced_gap_records_total", topic=topic) == 3
    assert warned(daemon, "the log begins after the stored offset", "records_gone", partition=2)
    assert faults(daemon, "records_gone") == 3


async def test_damaged_partitions_stop_only_themselves_where_a_stage_reads_them(
    own_kafka: OwnKafka, make: Make
) -> None:
    broker, topic = own_kafka(), "damaged"
    await damage_three(broker, topic)
    daemon = make(broker.bootstrap, topic, kafka='lanes = "rekey"')
    await until(lambda: accepted(daemon) == 6, daemon)  # 1 + 1 + 1 + 3

    def stopped() -> list[float | None]:
        name = "relevanced_source_stopped"
        return [sample(daemon, name, topic=topic, partition=str(p)) for p in range(3)]

    await until(lambda: stopped() == [1, 1, 1], daemon)
    await until(lambda: f"{topic}[1]: UnsupportedCodecError" in unready(daemon), daemon)
    await send(broker.bootstrap, topic, impressions(12, 15), 3)
    await until(lambda: accepted(daemon) == 9, daemon)
    await delete_records(broker.bootstrap, topic, {0: 2, 1: 2, 2: 2})
    await until(lambda: accepted(daemon) == 12 and stopped() == [0] * 3, daemon)
    assert sample(daemon, "relevanced_gap_records_total", topic=topic) == 3


async def test_an_outage_longer_than_the_session_is_waited_out(
    own_kafka: OwnKafka, make: Make
) -> None:
    """And a log that has lost its end meanwhile stops its own lane, until it is whole again."""
    broker = own_kafka()
    await broker.create_topic("away", partitions=2)
    for partition in range(2):
        first = partition * 3
        await send(broker.bootstrap, "away", impressions(first, first + 3), partition)
    daemon = make(broker.bootstrap, "away")
    await until(lambda: accepted(daemon) == 6, daemon)
    await asyncio.to_thread(broker.stop)
    log = kafka_logs.segment(broker, "away", 1)
    whole = log.read_bytes()
    kafka_logs.cut_from(log, 1)
    await until(lambda: faults(daemon, "stuck"), daemon)  # two sessions
    assert faults(daemon, "unreachable") >= 1
    assert warned(daemon, "Kafka cannot be read", "unreachable")
    assert warned(daemon, "no sign of life from Kafka, connecting anew", "stuck")
    await asyncio.to_thread(broker.start)
    await send(broker.bootstrap, "away", impressions(6, 8), 0)
    await until(lambda: accepted(daemon) == 8, daemon)
    await until(lambda: sample(daemon, "relevanced_lane_stopped", lane="1"), daemon)
    assert sample(daemon, "relevanced_lane_stopped", lane="0") == 0
    assert faults(daemon, "log_shorter") >= 1
    assert "away[1]: the stored offset 3 is beyond the end of the log, 1" in daemon.log()
    await asyncio.to_thread(broker.stop)
    kafka_logs.cut_from(log, 0)
    log.write_bytes(whole)
    await asyncio.to_thread(broker.start)
    await until(lambda: sample(daemon, "relevanced_lane_stopped", lane="1") == 0, daemon)
    await send(broker.bootstrap, "away", impressions(8, 10), 1)
    await until(lambda: accepted(daemon) == 10, daemon)
    assert not sample(daemon, "relevanced_gap_records_total")


async def test_topic_may_be_made_late_deleted_and_made_again(kafka: Broker, make: Make) -> None:
    topic = f"late-{NOW_MS}"
    daemon = make(kafka.bootstrap, topic)
    await until(lambda: warned(daemon, "waiting for Kafka", "topic_missing"), daemon)
    await until(lambda: faults(daemon, "topic_missing") == 1, daemon)
    assert f"topic {topic} does not exist" in daemon.log()
    await kafka.create_topic(topic)
    await send(kafka.bootstrap, topic, impressions(0, 3))
    await until(lambda: accepted(daemon) == 3, daemon)
    await kafka.delete_topic(topic)
    await until(lambda: faults(daemon, "topic_missing") == 2, daemon)
    assert warned(daemon, "Kafka cannot be read", "topic_missing")
    await until(lambda: f"topic {topic} does not exist" in unready(daemon), daemon)
    await kafka.create_topic(topic)
    try:
        await send(kafka.bootstrap, topic, impressions(3, 4))
        await until(lambda: sample(daemon, "relevanced_lane_stopped", lane="0"), daemon)
        assert faults(daemon, "log_replaced") >= 1
    finally:
        await kafka.delete_topic(topic)


async def test_missing_permission_is_logged_and_reading_goes_on_once_it_is_given(
    own_kafka: OwnKafka, make: Make
) -> None:
    broker = own_kafka(
        listeners={"LOGIN": "SASL_PLAINTEXT"},
        properties={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": LOGIN,
        },
    )
    await broker.create_topic("secret", partitions=2)
    await send(broker.bootstrap, "secret", impressions(0, 3))
    user = 'security_protocol = "SASL_PLAINTEXT"\nsasl_mechanism = "PLAIN"\n'
    user += 'sasl_username = "daemon"\nsasl_password = "secret"'
    daemon = make(broker.address("LOGIN"), "secret", user)

    async def allow(*what: str, verb: str = "--add") -> None:
        await asyncio.to_thread(access, broker, verb, *what)

    await until(lambda: warned(daemon, "waiting for Kafka", "not_permitted"), daemon)
    await until(lambda: faults(daemon, "not_permitted") == 1, daemon)
    await allow("--operation", "Read", "--topic", "secret")  # describing goes with it
    await until(lambda: faults(daemon, "not_permitted") >= 2, daemon)
    words = "no permission for the consumer group faults-secret-"
    await until(lambda: words in unready(daemon), daemon)
    await allow("--operation", "Read", "--group", "*")
    await until(lambda: accepted(daemon) == 3, daemon)
    await allow("--operation", "Read", "--topic", "secret", verb="--remove")
    await until(lambda: faults(daemon, "not_permitted") >= 3, daemon)
    assert warned(daemon, "fetch failed, reading continues", "not_permitted")
    await until(lambda: "no permission to read the topic" in unready(daemon), daemon)
    await allow("--operation", "Read", "--topic", "secret")
    await send(broker.bootstrap, "secret", impressions(3, 6), 1)
    await until(lambda: accepted(daemon) == 6, daemon)


def access(broker: KafkaServer, verb: str, *what: str) -> None:
    """Give the daemon's user a permission, or take it."""
    force = ["--force"] if verb == "--remove" else []
    server = ["--bootstrap-server", broker.bootstrap]
    command = broker._java("org.apache.kafka.tools.AclCommand", *server, verb)
    user = ["--allow-principal", "User:daemon"]
    done = subprocess.run(
        [*command, *user, *force, *what], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


async def test_large_aborted_and_new_partitions_records_are_each_treated_as_such(
    kafka: Broker, make_topic: MakeTopic, make: Make
) -> None:
    """A batch larger than what is fetched at once comes whole; aborted records never count; a
    partition that is added is read from its beginning."""
    topic = await make_topic(config={"max.message.bytes": "8000000"})
    large = json.dumps(
        {
            "type": "impression",
            "timestamp": NOW_MS,
            "items": ["a"],
            "impression_id": "large",
            "query": "x" * 3_000_000,
        }
    ).encode()
    await send(kafka.bootstrap, topic, [large], max_request_size=8_000_000)
    await abort(kafka.bootstrap, topic, impressions(0, 5))
    await send(kafka.bootstrap, topic, impressions(5, 7))
    daemon = make(kafka.bootstrap, topic, more="[events]\nmax_record_bytes = 1_000_000")
    await until(lambda: accepted(daemon) == 2, daemon)
    assert sample(daemon, "relevanced_rejected_events_total", reason="too_large") == 1
    fields = {"topic": topic, "partition": 0, "offset": 0, "records": 1}
    refused = {"event": "records refused", "reason": "too_large", "advice": REFUSAL_ADVICE}
    assert logged(daemon, refused | fields), daemon.log()
    await until(lambda: sample(daemon, "relevanced_lag_records", partition="0") == 0, daemon)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    await admin.create_partitions({topic: NewPartitions(2)})
    await admin.close()
    await send(kafka.bootstrap, topic, impressions(7, 10), 1)
    await until(lambda: accepted(daemon) == 5, daemon)
    await until(lambda: sample(daemon, "relevanced_owned_lanes") == 2, daemon)
    assert logged(daemon, {"event": "lane begins", "lane": 1, "offsets": {topic: 0}})
    assert not sample(daemon, "relevanced_gap_records_total")  # what was aborted is no gap
    line = {"event": "aborted transaction left out", "advice": ADVICE["aborted"], "partition": 0}
    assert logged(daemon, line), daemon.log()
    assert faults(daemon, "aborted") > 0


async def abort(bootstrap: str, topic: str, values: Sequence[bytes]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"writer-{topic}")
    await producer.start()
    with suppress(ZeroDivisionError):
        async with producer.transaction():
            for value in values:
                await producer.send_and_wait(topic, value, partition=0)
            raise ZeroDivisionError
    await producer.stop()
