"""Events that a stage divides among lanes, on real parts: topics that do not fit together, workers
that are killed, a topic that is created again; and the numbers add up to the oracle's one lane."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.protocol.admin import DeleteGroupsRequest

from relevanced.daemon.config import LogEnd, load
from relevanced.daemon.kafka import stage_offsets
from relevanced.daemon.plan import Plan
from relevanced.daemon.storage import (
    Head,
    InForce,
    Layouts,
    close,
    lane_topics,
    rebuild,
    stage_group,
)
from tests import oracle
from tests.daemon.test_rekeyed_equality import added, assert_add_up
from tests.replica import every_key, hours_of
from tests.services.daemons import Daemon, until
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_lanes import stray_keys
from tests.services.redis_server import RedisServer
from tests.services.test_one_lane import (
    COUNTS,
    EMPTY,
    NAME as ONE_NAME,
    TwoTopics,
    assert_replay_is_the_oracles,
)
from tests.services.test_verify import command
from tests.services.whole_path import START_MS

NAME = "rekey"
LANES = 3
EVENTS = 8_000
REKEY = f'lanes = "rekey"\nidle_after = "5s"\n[rekey]\npartitions = {LANES}\n'


class Rekeyed(TwoTopics):
    """The same with a topic of the stage."""

    lanes = REKEY
    changed: tuple[tuple[str, str], ...] = ()
    """Of the configuration."""

    def toml(self, name: str) -> str:
        toml = super().toml(name)
        for before, now in self.changed:
            toml = toml.replace(before, now)
        return toml

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.kafka.bootstrap)
        await admin.start()
        yield admin
        await admin.close()

    async def alter(self, settings: dict[str, str]) -> None:
        """Change the topic of the stage."""
        changed = ConfigResource(ConfigResourceType.TOPIC, self.stage_topic, settings)
        async with self.admin() as admin:
            await admin.alter_configs([changed])

    async def end_of(self, place: TopicPartition) -> int:
        consumer = AIOKafkaConsumer(bootstrap_servers=self.kafka.bootstrap)
        await consumer.start()
        found = await consumer.end_offsets([place])
        await consumer.stop()
        return int(found[place])

    async def counted(self, family: str) -> Any:
        """Its counts, of all lanes; of events their number."""
        found = sum((Counter(h.counts.get(family, {})) for h in await self.heads()), Counter[str]())
        return found.total() if family == "events" else dict(found)

    @property
    def stage_topic(self) -> str:
        return lane_topics(load(self.toml(NAME), {}, "test"))[0]

    async def heads(self) -> list[Head]:
        return [head for lane in range(LANES) if (head := await self.head(NAME, lane))]

    async def wait_for_events(self, count: int) -> None:
        """Until the lanes together have counted so many."""
        async with asyncio.timeout(120):
            while await self.counted("events") < count:
                await asyncio.sleep(0.1)

    async def wait_for_lifts(self, watermarks: Mapping[str, int | None]) -> None:
        """Until all lanes know how far all sources are, and which are not waited for."""
        async with asyncio.timeout(60):
            while True:
                heads = await self.heads()
                same = all(h.lifts == heads[0].lifts and h.watermarks == watermarks for h in heads)
                if same and heads[0].lifts:
                    return
                await asyncio.sleep(0.2)

    async def assert_others_go_on(self, daemon: Daemon, topic: str) -> None:
        """All of a topic is sent, and nothing of it again and again."""
        sent, repeats = f'relevanced_rekeyed_events_total{{topic="{topic}"}}', list[float]()
        for _ in range(2):
            await self.produce(EVENTS // 8)
            places = [TopicPartition(topic, n) for n in range(self.partitions[topic])]
            count = sum([await self.end_of(place) for place in places])
            await until(lambda: daemon.series(sent) >= count, daemon)
            repeats.append(daemon.series('relevanced_rekey_messages_total{outcome="repeat"}'))
        assert repeats[0] == repeats[1]

    async def assert_adds_up(self) -> oracle.LaneResult:
        store, layouts = self.store(NAME), Layouts(InForce(self.plan))
        logs = oracle.as_one(await self.records(), self.partitions)
        lanes, hours = [], []
        for number in range(LANES):
            head = await store.claim(number, "reader", {})
            names, blobs = await store.load(number, head, every_key)
            held = rebuild(number, layouts, list(head.offsets), head, names, blobs)
            lanes.append(held.lane)
            hours.append(hours_of(held.lane))
            assert await stray_keys(store._client, store._namespace, held) == []
        await close(store._client)
        expected = oracle.run_lane(logs, self.config, lanes[0].lifts)
        assert_add_up(lanes, expected)
        assert added(hours) == expected.hours
        return expected

    @property
    def plan(self) -> Plan:
        return load(self.toml(NAME), {}, "test").lane_plan


@pytest.fixture
async def stage(
    kafka: Broker, one_redis: RedisServer, make_topic: MakeTopic, tmp_path: Path
) -> AsyncIterator[Rekeyed]:
    topics = [await make_topic(partitions=count) for count in COUNTS]
    built = Rekeyed(kafka, one_redis.url, topics, tmp_path)
    yield built
    built.close()
    await kafka.delete_topic(built.stage_topic)


def owned(daemon: Daemon) -> float:
    return daemon.series("relevanced_owned_lanes")


async def test_lanes_of_a_stage_outlive_workers_and_add_up(stage: Rekeyed) -> None:
    first = stage.daemon(NAME)
    await until(lambda: owned(first) == LANES, first)
    second = stage.daemon(NAME)
    await until(lambda: 0 < owned(second) < LANES, second)
    for part, killed in enumerate((first, second), 1):
        await stage.produce(EVENTS // 4)
        await stage.wait_for_events(EVENTS * part // 4 - EVENTS // 8)
        killed.terminate(signal.SIGKILL)
        await stage.produce(EVENTS // 4)
        stage.daemon(NAME)
    third, fourth = stage.daemons[-2:]
    await stage.wait_for_events(EVENTS)
    expected = oracle.run_lane(oracle.as_one(await stage.records(), stage.partitions), stage.config)
    await stage.wait_for_lifts(expected.watermarks)
    assert expected.watermarks[f"{stage.topics[1]}/{EMPTY}"] is None
    exporter = stage.daemon(NAME, "exporter")
    settled = 'relevanced_settled_impressions_total{grouping="all",segment="all"}'
    await until(lambda: exporter.series(settled), exporter)
    path = stage.directory / "rekey.toml"
    path.write_text(stage.toml(NAME))
    for daemon in (third, fourth):
        assert await asyncio.to_thread(daemon.terminate) == 0, daemon.log()
    code, out = await command("verify", "--config", str(path), "--output", "json")
    assert (code, [lane["result"] for lane in json.loads(out)]) == (0, ["equal"] * LANES), out
    assert (await stage.assert_adds_up()).totals
    await assert_replay_is_the_oracles(path, expected)


async def same_lifts(one: TwoTopics, stage: Rekeyed) -> bool:
    head = await one.head(ONE_NAME)
    return head is not None and [head.lifts] * LANES == [of.lifts for of in await stage.heads()]


async def test_one_lane_and_lanes_of_a_stage_agree_and_settle(stage: Rekeyed) -> None:
    """Over topics of 4 and 6 partitions, of different partitioners, with one that stays empty."""
    (stage.directory / ONE_NAME).mkdir()
    one = TwoTopics(stage.kafka, stage.redis_url, stage.topics, stage.directory / ONE_NAME)
    running = [stage.daemon(NAME), one.daemon(ONE_NAME)]
    try:
        await stage.produce(EVENTS // 2)
        await stage.wait_for_events(EVENTS // 2)
        await one.wait_for(ONE_NAME, EVENTS // 2)
        logs = oracle.as_one(await stage.records(), stage.partitions)
        await stage.wait_for_lifts(oracle.run_lane(logs, stage.config).watermarks)
        async with asyncio.timeout(60):
            while not await same_lifts(one, stage):
                await asyncio.sleep(0.2)
        for daemon in running:
            assert await asyncio.to_thread(daemon.terminate) == 0, daemon.log()
        divided, whole = await stage.assert_adds_up(), await one.assert_is_the_oracles()
        assert divided == whole and whole.totals
    finally:
        one.close()


@pytest.mark.parametrize("runs", [False, True], ids=["at a start", "while it is read"])
async def test_a_source_that_was_created_again_stops_and_says_the_way_out(
    stage: Rekeyed, runs: bool
) -> None:
    daemon = again = stage.daemon(NAME)
    await stage.produce(EVENTS // 4)
    await stage.wait_for_events(EVENTS // 4)
    if not runs:
        assert await asyncio.to_thread(daemon.terminate) == 0, daemon.log()
    await stage.kafka.delete_topic(stage.topics[0])
    await stage.kafka.create_topic(stage.topics[0], COUNTS[0], None)
    await stage.produce(EVENTS // 4)
    if not runs:
        again = stage.daemon(NAME)
    await until(lambda: "Set [rekey] topic to a new name" in again.readiness(), again)
    stopped = f'relevanced_source_stopped{{partition="0",topic="{stage.topics[0]}"}}'
    assert again.series(stopped) == 1
    if runs:
        await stage.assert_others_go_on(daemon, stage.topics[1])


async def test_a_topic_that_is_gone_is_told_whether_lanes_or_the_stage_read_it(
    stage: Rekeyed,
) -> None:
    daemon = stage.daemon(NAME)
    await stage.produce(EVENTS // 8)
    await stage.wait_for_events(EVENTS // 8)
    topics = dict(stage.partitions) | {stage.stage_topic: LANES}
    found = {topic: f'relevanced_topic_partitions{{topic="{topic}"}}' for topic in topics}
    assert {topic: daemon.series(series) for topic, series in found.items()} == topics
    heard = "relevanced_partition_watermark_timestamp_seconds"
    series = [f'{heard}{{partition="0",topic="{topic}"}}' for topic in topics]
    await until(lambda: all(map(daemon.series, series)), daemon)
    sent = [f'relevanced_rekeyed_events_total{{topic="{topic}"}}' for topic in stage.topics]
    assert sum(map(daemon.series, sent)) == EVENTS // 8
    await stage.kafka.delete_topic(stage.topics[1])
    await until(lambda: f"topic {stage.topics[1]} does not exist" in daemon.readiness(), daemon)
    assert daemon.series(found[stage.topics[1]]) == 0
    await stage.kafka.create_topic(stage.topics[1], COUNTS[1], None)


async def ended(daemon: Daemon) -> None:
    assert await asyncio.to_thread(daemon.terminate) == 0, daemon.log()


async def test_records_that_are_gone_before_the_stage_read_them_count_as_lost(
    stage: Rekeyed,
) -> None:
    """Where the group has forgotten how far it was, nothing counts twice, is left out, or goes to
    another lane."""
    daemon = stage.daemon(NAME)
    await stage.produce(EVENTS // 4)
    await stage.wait_for_events(EVENTS // 4)
    await ended(daemon)
    place = TopicPartition(stage.topics[0], 0)
    before = await stage.end_of(place)
    await stage.produce(EVENTS // 4)
    lost = (await stage.end_of(place) - before) // 2
    async with stage.admin() as admin:
        await admin.delete_records({place: RecordsToDelete(before + lost)})
    daemon = stage.daemon(NAME)
    await stage.wait_for_events(EVENTS // 2 - lost)
    await until(lambda: "records lost before they were read" in daemon.log(), daemon)
    await ended(daemon)
    await stage.produce(EVENTS // 4)
    async with stage.admin() as admin:
        await admin.create_partitions({stage.stage_topic: NewPartitions(LANES + 2)})
        group = stage_group(load(stage.toml(NAME), {}, "test"))
        answer = await admin._send_to_controller(DeleteGroupsRequest([group]))
    assert answer.results == [(group, 0)]
    stage.changed = (('"earliest"', '"latest"'),)
    again = stage.daemon(NAME)
    await stage.wait_for_events(EVENTS * 3 // 4 - lost)
    await ended(again)
    assert await stage.counted("gap_records") == {f"{place.topic}/0": lost}
    assert await stage.counted("events") == EVENTS * 3 // 4 - lost


async def test_an_event_that_the_topic_does_not_take_is_rejected_and_the_rest_goes_on(
    stage: Rekeyed,
) -> None:
    daemon = stage.daemon(NAME)
    await stage.produce(EVENTS // 8)
    await stage.wait_for_events(EVENTS // 8)
    await stage.alter({"max.message.bytes": "4096"})
    large = {"type": "impression", "impression_id": "large", "timestamp": START_MS}
    large |= {"items": [f"{n:0100}" for n in range(50)]}
    producer = AIOKafkaProducer(bootstrap_servers=stage.kafka.bootstrap)
    await producer.start()
    await producer.send_and_wait(stage.topics[0], msgspec.json.encode(large), partition=1)
    await producer.stop()
    await stage.produce(EVENTS // 4)
    await stage.wait_for_events(EVENTS * 3 // 8)
    assert await stage.counted("rejected") == {"too_large": 1}
    assert "the topic of the stage takes smaller records only" in daemon.log()
    await until(lambda: "TooLarge" not in daemon.readiness(), daemon)


async def test_what_the_topic_does_not_take_as_it_is_is_told(stage: Rekeyed) -> None:
    daemon = stage.daemon(NAME)
    await stage.produce(EVENTS // 8)
    await stage.wait_for_events(EVENTS // 8)
    await stage.alter({"message.timestamp.before.max.ms": "1000"})
    await stage.produce(EVENTS // 8)
    await stage.wait_for_events(EVENTS // 4)
    assert "refuses the times of records" in daemon.log()
    await stage.kafka.delete_topic(stage.stage_topic)
    await stage.produce(EVENTS // 8)
    await until(lambda: "Sending continues by itself" in daemon.readiness(), daemon)
    assert daemon.series('relevanced_kafka_faults_total{fault="unsent"}') >= 1
    await stage.kafka.create_topic(stage.stage_topic, LANES, None)


async def test_partitions_that_the_topic_of_the_stage_gets_stay_empty(stage: Rekeyed) -> None:
    """And a worker that stands still meanwhile, and then sends what it had, changes nothing."""
    first = stage.daemon(NAME)
    await stage.produce(EVENTS // 4)
    await stage.wait_for_events(EVENTS // 4)
    async with stage.admin() as admin:
        await admin.create_partitions({stage.stage_topic: NewPartitions(LANES + 2)})
    await stage.produce(EVENTS // 4)
    first.process.send_signal(signal.SIGSTOP)
    second = stage.daemon(NAME)
    await stage.produce(EVENTS // 4)
    await stage.wait_for_events(EVENTS * 3 // 4)
    first.process.send_signal(signal.SIGCONT)
    await stage.produce(EVENTS // 4)
    await stage.wait_for_events(EVENTS)
    said = f"has {LANES + 2} partitions, and events are divided among {LANES} of them"
    await until(lambda: said in second.readiness(), second)
    expected = oracle.run_lane(oracle.as_one(await stage.records(), stage.partitions), stage.config)
    await stage.wait_for_lifts(expected.watermarks)
    for daemon in (first, second):
        await ended(daemon)
    assert (await stage.assert_adds_up()).totals


@pytest.mark.parametrize("runs", [False, True], ids=["at a start", "while it is read"])
async def test_lanes_stop_where_the_topic_of_the_stage_was_created_again(
    stage: Rekeyed, runs: bool
) -> None:
    daemon = stage.daemon(NAME)
    await stage.produce(EVENTS // 4)
    await stage.wait_for_events(EVENTS // 4)
    if not runs:
        await ended(daemon)
    await stage.kafka.delete_topic(stage.stage_topic)
    await stage.kafka.create_topic(stage.stage_topic, LANES, None)
    await stage.produce(EVENTS // 4)
    if not runs:
        daemon = stage.daemon(NAME)
    replaced = "the topic was deleted and created again"
    await until(lambda: daemon.readiness().count(replaced) == LANES, daemon)
    assert await stage.counted("events") == EVENTS // 4
    path = stage.directory / "rekey.toml"
    path.write_text(stage.toml(NAME))
    accept = ("lane", "accept-new-log", stage.stage_topic, "--config", str(path))
    code, out = await command(*accept)
    assert code == 0, out
    await stage.wait_for_events(EVENTS // 2)
    await ended(daemon)
    assert await stage.counted("events") == EVENTS // 2


async def test_nothing_is_sent_before_it_is_stored_where_all_sources_begin(
    stage: Rekeyed,
) -> None:
    group = stage_group(load(stage.toml(NAME), {}, "test"))
    settings = {"bootstrap_servers": stage.kafka.bootstrap, "enable_auto_commit": False}
    # Of the least name, so that it gets the source whose process stores it.
    silent = AIOKafkaConsumer(*stage.topics, group_id=group, client_id="0", **settings)
    await silent.start()
    told = "no source is sent before it is stored where all begin."
    try:
        daemon = stage.daemon(NAME)
        await until(lambda: told in daemon.readiness(), daemon)
        await stage.produce(EVENTS // 8)
        assert silent.assignment() and told in daemon.readiness()
        assert await stage.counted("events") == 0
        await until(lambda: "the stage waits" in daemon.log(), daemon)
    finally:
        await silent.stop()
    await stage.wait_for_events(EVENTS // 8)
    await until(lambda: told not in daemon.readiness(), daemon)


async def test_who_finds_the_topic_empty_stores_over_no_offset_of_other_workers(
    kafka: Broker, make_topic: MakeTopic
) -> None:
    topic, own = await make_topic(partitions=2), await make_topic(partitions=LANES)
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap)
    await producer.start()
    for partition in (0, 1, 1, 1):
        await producer.send_and_wait(topic, b"{}", partition=partition)
    await producer.stop()
    group = {"bootstrap_servers": kafka.bootstrap, "group_id": topic, "enable_auto_commit": False}
    consumer = AIOKafkaConsumer(topic, **group)
    await consumer.start()
    mine, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    partitions = [TopicPartition(own, number) for number in range(LANES)]
    try:
        async with asyncio.timeout(30):
            while not consumer.assignment():
                await asyncio.sleep(0.05)
        await consumer.commit({other: 1})
        for _ in range(2):  # the second time it is stored
            found = await stage_offsets.beginnings(
                consumer, [mine], [topic], partitions, LogEnd.LATEST, 0, lambda: True
            )
            assert isinstance(found, stage_offsets.Beginnings)
            assert found.begins[mine].offset == 1 and found.noted.partitions == LANES
        assert await consumer.committed(other) == 1
    finally:
        await consumer.stop()
