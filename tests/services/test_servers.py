"""The servers that other tests stand on do what is asked of them."""

from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from redis.asyncio import Redis

from tests.services.fixtures import MakeTopic, OwnKafka, OwnRedis
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer


async def produce(kafka: Broker, topic: str, value: bytes) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap)
    await producer.start()
    try:
        await producer.send_and_wait(topic, value)
    finally:
        await producer.stop()


async def consume(bootstrap: str, topic: str, **login: Any) -> bytes | None:
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", **login
    )
    await consumer.start()
    try:
        record = await consumer.getone()
        return None if record.value is None else bytes(record.value)
    finally:
        await consumer.stop()


async def test_kafka_keeps_a_record(kafka: Broker, topic: str) -> None:
    await produce(kafka, topic, b"one")
    assert await consume(kafka.bootstrap, topic) == b"one"


async def test_topics_have_own_names_and_partitions(kafka: Broker, make_topic: MakeTopic) -> None:
    first, second = await make_topic(partitions=3), await make_topic(config={"retention.ms": "1"})
    consumer = AIOKafkaConsumer(first, second, bootstrap_servers=kafka.bootstrap)
    await consumer.start()
    try:
        assert consumer.partitions_for_topic(first) == {0, 1, 2}
        assert consumer.partitions_for_topic(second) == {0}
    finally:
        await consumer.stop()


async def test_killed_kafka_keeps_its_ports_and_its_records(own_kafka: OwnKafka) -> None:
    """Also that of a listener that asks for a password."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required user_ann='secret';"
    server = own_kafka(
        listeners={"LOGIN": "SASL_PLAINTEXT"},
        properties={
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": login,
        },
    )
    await server.create_topic("events")
    await produce(server, "events", b"one")
    server.kill()
    assert not server.running
    server.start()
    known = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "ann",
        "sasl_plain_password": "secret",
    }
    assert await consume(server.bootstrap, "events") == b"one"
    assert await consume(server.address("LOGIN"), "events", **known) == b"one"


async def test_redis_keeps_a_value(redis: RedisServer) -> None:
    async with Redis.from_url(redis.url) as client:
        assert await client.get("key") is None
        await client.set("key", "value")
        assert await client.get("key") == b"value"


async def test_redis_is_empty_for_each_test(redis: RedisServer) -> None:
    async with Redis.from_url(redis.url) as client:
        assert await client.dbsize() == 0


async def test_killed_redis_keeps_what_was_appended(own_redis: OwnRedis) -> None:
    server = own_redis(appendonly="yes", appendfsync="always")
    server.call("SET key value")
    server.kill()
    assert not server.running
    server.start()
    assert server.call("EXISTS key") == ":1"
