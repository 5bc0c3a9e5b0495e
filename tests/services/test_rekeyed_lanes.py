"""Events that a stage divides among lanes, on real parts: topics that do not fit together, workers
that are killed, a topic that is created again; and the numbers add up to the oracle's one lane."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from relevanced.daemon.config import load
from relevanced.daemon.plan import Plan
from relevanced.daemon.storage import Head, InForce, Layouts, close, lane_topics, rebuild
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

NAME = "rekey"
LANES = 3
EVENTS = 8_000
REKEY = f'lanes = "rekey"\nidle_after = "5s"\n[rekey]\npartitions = {LANES}\n'


class Rekeyed(TwoTopics):
    """The same with a topic of the stage."""

    lanes = REKEY

    @property
    def stage_topic(self) -> str:
        return lane_topics(load(self.toml(NAME), {}, "test"))[0]

    async def heads(self) -> list[Head]:
        return [head for lane in range(LANES) if (head := await self.head(NAME, lane))]

    async def wait_for_events(self, count: int) -> None:
        """Until the lanes together have counted so many."""
        async with asyncio.timeout(120):
            while await self._counted() < count:
                await asyncio.sleep(0.1)

    async def _counted(self) -> int:
        return sum(sum(h.counts.get("events", {}).values()) for h in await self.heads())

    async def wait_for_lifts(self, watermarks: Mapping[str, int | None]) -> None:
        """Until all lanes know how far all sources are, and which are not waited for."""
        async with asyncio.timeout(60):
            while True:
                heads = await self.heads()
                same = all(h.lifts == heads[0].lifts and h.watermarks == watermarks for h in heads)
                if same and heads[0].lifts:
                    return
                await asyncio.sleep(0.2)

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
    unreadable = f'relevanced_partition_unreadable{{partition="0",topic="{stage.topics[0]}"}}'
    assert again.series(unreadable) == 1
