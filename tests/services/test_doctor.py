"""`relevanced doctor` on a real topic: it proposes what reads the topic, and leaves no trace."""

import json
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from relevanced.daemon.config import decoder_of, load
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.test_verify import command
from tests.services.whole_path import PARTITIONS, Stage

EVENTS = 3_000
ALL_MINUTES = "100000000"


async def ends_of(kafka: Broker, topic: str) -> dict[TopicPartition, int]:
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap)
    await consumer.start()
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    found = await consumer.end_offsets(places)
    await consumer.stop()
    return dict(found)


async def groups_of(kafka: Broker) -> set[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    found = {name for name, *_ in await admin.list_consumer_groups()}
    await admin.close()
    return found


@pytest.mark.parametrize("topics", ["one", "an empty one beside"])
async def test_doctor_reads_a_topic_and_leaves_no_trace(
    topics: str, kafka: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = await make_topic(partitions=PARTITIONS)
    names = [topic] if topics == "one" else [topic, await make_topic(partitions=1)]
    stage = Stage(kafka, "redis://127.0.0.1:1", topic, tmp_path)
    await stage.produce(EVENTS)
    before = await ends_of(kafka, topic), await groups_of(kafka)
    where = ("--kafka", kafka.bootstrap, "--topics", ",".join(names), "--minutes", ALL_MINUTES)
    code, said = await command("doctor", *where, "--output", "json")
    assert said.startswith("{"), said
    result = json.loads(said)
    assert code == int(topics != "one") and result["wrong"] == bool(code), said
    found = {finding["name"]: finding for finding in result["findings"]}
    assert found[f"records of {topic}"]["words"].endswith("map with preset native")
    assert found["same partition"]["level"] == found["join rate"]["level"] == "good", said
    decode = decoder_of(load(result["configuration"], {}, "proposed"))
    assert len(result["configuration"]) and decode is not None
    if topics != "one":
        assert "none arrived" in found[f"records of {names[1]}"]["words"]
    assert (await ends_of(kafka, topic), await groups_of(kafka)) == before


async def test_what_cannot_be_read_is_said(kafka: Broker, tmp_path: Path) -> None:
    """Also of the topics that a configuration names."""
    file = tmp_path / "shop.toml"
    file.write_text(
        f'[kafka]\nbootstrap_servers = ["{kafka.bootstrap}"]\n[[sources]]\ntopic = "not-there"\n'
        'preset = "ubi"\n'
    )
    code, said = await command("doctor", "--config", str(file))
    assert code == 1 and "not-there" in said
    code, said = await command("doctor", "--kafka", kafka.bootstrap, "--topics", "no-such-topic")
    assert code == 1 and "no-such-topic" in said
    code, said = await command("doctor", "--kafka", "127.0.0.1:1", "--topics", "a")
    assert code == 1 and "Kafka: " in said
