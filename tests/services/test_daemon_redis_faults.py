"""Whatever Redis does, a running daemon waits, says why, and the numbers come out right.

Other tests hold on every flavour of server what each step of the store makes of a refusal. Here the
whole process runs, on one of them.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from tests import oracle
from tests.services.daemons import Daemon
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_lanes import ask, dump, restore, until
from tests.services.redis_server import RedisServer, one_binary
from tests.services.whole_path import CONFIG, PARTITIONS, Stage

SOME = 2_000
"""Events that come between one fault and the next."""
RATE = 30
"""Events per second of event time, so that panes settle on the way."""
COUNTED_S = 1.0
MOST_COMMANDS_PER_S = 5_000
"""What a daemon of four lanes that waits may ask of a server: a commit has some hundred parts, and
is tried seldom. A loop without pauses asks for tens of thousands."""
PATIENCE_S = 40.0
NAME = "faults"
ONE_LANE = 1

Act = Callable[["Scene"], None]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server of the test's own, with a user for the daemon."""
    built = RedisServer(one_binary(), tmp_path / "redis")
    try:
        built.start()
        built.call("ACL SETUSER worker on >first ~* &* +@all")
        yield built
    finally:
        if built.running:
            built.kill()


class Scene:
    """A daemon on a topic and on a server that misbehaves."""

    def __init__(self, stage: Stage, server: RedisServer) -> None:
        self.stage, self.server, self.sent = stage, server, 0
        self.daemon: Daemon = stage.daemon(NAME, "all")

    def key(self, name: str) -> str:
        return f"{self.stage.store(NAME).prefix(ONE_LANE)}{name}"

    async def feed(self) -> None:
        await self.stage.produce(SOME)
        self.sent += SOME

    async def caught_up(self) -> None:
        await self.stage.wait_for(NAME, self.sent)

    async def told(self, pattern: str) -> str:
        """Wait until /readyz contains it."""

        async def found() -> str | None:
            text = await asyncio.to_thread(self.daemon.readiness)
            return text if re.search(pattern, text) else None

        return await until(found, PATIENCE_S)

    async def shows(self, series: str, value: float) -> None:
        """Wait until /metrics shows it."""

        async def found() -> bool:
            return await asyncio.to_thread(self.daemon.series, series) == value

        await until(found, PATIENCE_S)

    async def logged(self, text: str) -> None:
        """Wait until the daemon's log says it."""

        async def found() -> bool:
            return text in self.daemon.log()

        await until(found, PATIENCE_S)

    async def commands(self) -> int:
        """How many commands the server has received, done or refused."""
        stats = await ask(self.server.url, "INFO", "commandstats")
        return sum(one["calls"] + one.get("rejected_calls", 0) for one in stats.values())

    async def assert_no_busy_loop(self) -> None:
        before = await self.commands()
        await asyncio.sleep(COUNTED_S)
        asked_per_s = (await self.commands() - before) / COUNTED_S
        assert asked_per_s < MOST_COMMANDS_PER_S

    async def assert_numbers_are_right(self) -> None:
        """After an orderly end."""
        await self.caught_up()
        await self.told('"ready": *true')
        assert await asyncio.to_thread(self.daemon.terminate) == 0, self.daemon.log()
        assert "Traceback" not in self.daemon.log()
        expected = oracle.run(await self.stage.records(), [self.stage.topic], CONFIG)
        await self.stage.assert_equals_oracle(NAME, expected)


@pytest.fixture
async def scene(
    kafka: Broker, server: RedisServer, make_topic: MakeTopic, tmp_path: Path
) -> AsyncIterator[Scene]:
    url = server.url.replace("redis://", "redis://worker:first@")
    stage = Stage(kafka, url, await make_topic(partitions=PARTITIONS), tmp_path, RATE)
    built = Scene(stage, server)
    await built.feed()
    await built.caught_up()
    yield built
    stage.close()


# Refusals


@dataclass(frozen=True)
class Refusal:
    """How a server is brought to refuse, how it is brought back, and what /readyz says."""

    strike: Act
    heal: Act
    words: str


def orders(*commands: str) -> Act:
    def give(scene: Scene) -> None:
        for command in commands:
            answer = scene.server.call(command.format(head=scene.key("head")))
            assert not answer.startswith("-"), (command, answer)

    return give


def break_snapshots(scene: Scene) -> None:
    """Where its file must go stands a folder that is not empty."""
    (scene.server.directory / "dump.rdb" / "x").mkdir(parents=True)
    orders('CONFIG SET save "3600 1"', "BGSAVE")(scene)


REFUSALS = {
    "replica": Refusal(
        orders("REPLICAOF 127.0.0.1 1"), orders("REPLICAOF NO ONE"), "Redis: ReadOnlyError"
    ),
    "full": Refusal(
        orders("CONFIG SET maxmemory 1"), orders("CONFIG SET maxmemory 0"), "OutOfMemoryError"
    ),
    "no snapshots": Refusal(break_snapshots, orders('CONFIG SET save ""'), "MISCONF"),
    "password changed": Refusal(
        orders("ACL SETUSER worker resetpass >second", "CLIENT KILL USER worker"),
        orders("ACL SETUSER worker resetpass >first"),
        "AuthenticationError",
    ),
    "no permission": Refusal(
        orders("ACL SETUSER worker -@write"), orders("ACL SETUSER worker +@all"), "NoPermission"
    ),
    "head overwritten": Refusal(
        orders("RENAME {head} kept", "SET {head} x"),
        orders("RENAME kept {head}"),
        f"lane {ONE_LANE}: [^;]*WRONGTYPE",
    ),
}


async def test_refusals_are_waited_out_and_reported(scene: Scene) -> None:
    for name, refusal in REFUSALS.items():
        refusal.strike(scene)
        await scene.feed()
        # The exporter, which keeps its copy, may say it before the worker is not ready.
        text = await scene.told(f'"ready":false.*{refusal.words}')
        assert "first" not in text, name
        await scene.assert_no_busy_loop()
        refusal.heal(scene)
        await scene.caught_up()
    await scene.assert_numbers_are_right()


async def test_other_lanes_go_on_beside_one_that_is_refused(scene: Scene) -> None:
    before = await scene.stage.taken(NAME)
    REFUSALS["head overwritten"].strike(scene)
    await scene.feed()
    others = {
        f"{scene.stage.store(NAME).prefix(n)}head" for n in range(PARTITIONS) if n != ONE_LANE
    }

    async def moved() -> bool:
        held = [await ask(scene.server.url, "HGET", head, "offsets") for head in others]
        return sum(int(re.findall(rb"\d+", text)[-1]) for text in held) > sum(before.values())

    await until(moved, PATIENCE_S)
    REFUSALS["head overwritten"].heal(scene)
    await scene.assert_numbers_are_right()


async def test_silence_is_waited_out(scene: Scene) -> None:
    scene.server.freeze()
    try:
        await scene.feed()
        await scene.told("Redis: TimeoutError")
    finally:
        scene.server.thaw()
    await scene.assert_no_busy_loop()
    await scene.assert_numbers_are_right()


# Losses


async def test_server_that_loads_older_data_is_waited_for_and_the_log_read_again(
    scene: Scene,
) -> None:
    scene.server.call("SAVE")
    await scene.feed()
    await scene.caught_up()
    scene.server.kill()
    await scene.told("Redis: ConnectionError")
    scene.server.settings |= {
        "key-load-delay": "50000",
        "loading-process-events-interval-bytes": "1024",
        "user": "worker on >first ~* &* +@all",
    }
    starting = asyncio.create_task(asyncio.to_thread(scene.server.start))
    await scene.told("BusyLoadingError")
    await starting
    await scene.feed()
    await scene.caught_up()
    assert "the store has older state of the lane: reading again" in scene.daemon.log()
    await scene.assert_numbers_are_right()


async def test_lane_begins_anew_where_all_is_gone(scene: Scene) -> None:
    orders("FLUSHALL")(scene)
    await scene.feed()
    await scene.caught_up()
    assert "the store lost the lane: it is read again" in scene.daemon.log()
    await scene.assert_numbers_are_right()


async def test_lanes_that_are_lost_in_part_begin_anew_and_leave_nothing_behind(
    scene: Scene,
) -> None:
    """The head of one; of another also the list of its keys."""
    orders("DEL {head}")(scene)
    other = scene.stage.store(NAME).prefix(ONE_LANE + 1)
    await ask(scene.server.url, "DEL", f"{other}head", f"{other}changes")
    await scene.feed()
    await scene.caught_up()
    await scene.logged("keys of lost lanes removed")
    await scene.assert_numbers_are_right()


async def test_records_that_are_gone_from_the_log_are_counted(scene: Scene) -> None:
    older = await dump(scene.server.url)
    before = await scene.stage.taken(NAME)
    await scene.feed()
    await scene.caught_up()
    after = await scene.stage.taken(NAME)
    admin = AIOKafkaAdminClient(bootstrap_servers=scene.stage.kafka.bootstrap)
    await admin.start()
    place = TopicPartition(scene.stage.topic, ONE_LANE)
    await admin.delete_records({place: RecordsToDelete(before_offset=after[ONE_LANE] - 5)})
    await admin.close()
    await restore(scene.server.url, older)
    await scene.feed()
    await scene.caught_up()
    lost = after[ONE_LANE] - 5 - before[ONE_LANE]
    series = f'relevanced_gap_records_total{{topic="{scene.stage.topic}"}}'
    await scene.shows(series, lost)
    assert "records lost before they were read" in scene.daemon.log()
    await scene.told('"ready": *true')


async def test_lane_beyond_the_end_of_its_log_stops_alone(scene: Scene) -> None:
    await ask(
        scene.server.url,
        "HSET",
        scene.key("head"),
        "offsets",
        f'{{"{scene.stage.topic}":1000000}}',
        "token",
        "x",
    )
    await scene.told(f"lane {ONE_LANE}: [^;]*1000000")
    await scene.shows(f'relevanced_lane_stopped{{lane="{ONE_LANE}"}}', 1)
    assert '"lane stopped"' in scene.daemon.log()
    before = await scene.stage.taken(NAME)
    await scene.feed()

    async def others_go_on() -> bool:
        now = await scene.stage.taken(NAME)
        return all(now[n] > before[n] for n in range(PARTITIONS) if n != ONE_LANE)

    await until(others_go_on, PATIENCE_S)


# Eviction


async def test_a_policy_that_evicts_state_is_warned_of_once(scene: Scene) -> None:
    assert "may evict" not in scene.daemon.log()
    orders("CONFIG SET maxmemory-policy allkeys-lru")(scene)
    await scene.shows('relevanced_redis_may_evict_state{policy="allkeys-lru"}', 1)
    await scene.assert_numbers_are_right()
    assert scene.daemon.log().count("may evict") == 1
