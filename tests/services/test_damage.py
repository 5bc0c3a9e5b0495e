"""Redis loses keys of a lane: afterwards the numbers are those of the log, or absent and said.

A worker reads one lane of a log in memory; the store, the scripts and the servers are real. After
each loss a reader without a copy must see the right numbers or be told of the damage, and never see
other numbers.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import cache
from itertools import islice
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pytest
from redis.asyncio import Redis

from relevanced.daemon.config import LogEnd
from relevanced.daemon.errors import Unavailable
from relevanced.daemon.lane import Lane, new_lane
from relevanced.daemon.storage import (
    DamagedLane,
    InForce,
    LaneRegister,
    LaneStore,
    Layouts,
    Namespace,
    blob_keys,
)
from relevanced.daemon.telemetry import Telemetry
from relevanced.daemon.tools.traffic import Faults, Traffic, generate_events
from relevanced.daemon.views import LaneReads, LaneView
from relevanced.daemon.worker import Batch, Beginning, Ownership, Pace, Ports, Process, Worker
from tests import oracle
from tests.daemon.worker.test_worker import Log
from tests.oracle import OracleConfig, Record
from tests.replica import assert_equal, decoder_of, plan_of
from tests.seeds import seeds
from tests.services.fixtures import AnyRedis, OwnRedis
from tests.services.redis_lanes import NAMESPACE, client_at, until
from tests.services.redis_server import RedisServer
from tests.services.test_redis_mirror import state_of_lane, state_of_view
from tests.whole_batch import process_batch

TOPIC: Final = "events"
START_MS: Final = 1_795_176_000_000
RECORDS: Final = 1_000
SOME: Final = 700
"""Records that come before the loss."""
CONFIG: Final = OracleConfig(
    windows_s=(60, 300),
    attribution_window_s=60,
    lateness_s=5,
    groupings=(("country",), ("device",)),
    history_hours=48,
    hour_s=120,
    units={"ranker-v2": "user_id"},
)
PLAN: Final = plan_of(CONFIG)
PREFIX: Final = f"{{{NAMESPACE}:0}}:"
KINDS: Final = (
    *("head", "names", "changes", "layouts", "admitted", "open", "rows", "totals"),
    "experiment",
)
OTHERS: Final = ("meta", "exporter", "shown", "namespaces")
SEEDS: Final = seeds(4)


@pytest.fixture
def redis(any_redis: AnyRedis) -> AnyRedis:
    """Every test here runs on a cluster as well."""
    return any_redis


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Owners check their lanes at every opportunity."""
    monkeypatch.setattr("relevanced.daemon.worker.memory_repair.VERIFY_EVERY_S", 0.05)
    monkeypatch.setattr("relevanced.daemon.worker.worker.TOUCH_EVERY_S", 0.02)
    monkeypatch.setattr("relevanced.daemon.worker.ownership.STOPPED_PAUSE_S", 0.1)


def values() -> list[bytes]:
    traffic = Traffic(seed=3, rate=2, faults=Faults(duplicates=0.01, disorder=0.02, orphans=0.01))
    events = islice(generate_events(traffic, START_MS), RECORDS)
    return [msgspec.json.encode(event) for _, event in events]


VALUES: Final = values()


@cache
def reference(count: int, start: int = 0) -> Lane:
    """The lane after these records, which the oracle confirms."""
    lane = new_lane(0, PLAN, {TOPIC: start}, [TOPIC])
    records = [record(value, start + n) for n, value in enumerate(VALUES[start:count])]
    process_batch(lane, {TOPIC: records}, {TOPIC: count}, decoder_of(CONFIG))
    of_oracle = [Record(TOPIC, 0, r.offset, r.timestamp, r.value) for r in records]
    assert_equal(lane, oracle.run(of_oracle, [TOPIC], CONFIG)[0])
    return lane


def record(value: bytes, offset: int) -> SimpleNamespace:
    """A record that was produced long after its event, so that no event is ahead."""
    return SimpleNamespace(
        topic=TOPIC,
        partition=0,
        offset=offset,
        timestamp=START_MS + 86_400_000,
        key=None,
        value=value,
    )


class Source(Log):
    """A log of such records."""

    async def poll(
        self, max_records: int, timeout_ms: int, lanes: Collection[int] | None = None
    ) -> Batch:
        first, batch = self.next, await super().poll(max_records, timeout_ms, lanes)
        if first is None or not batch.lanes:
            return batch
        records = [record(value, first + n) for n, value in enumerate(self.values[first:])]
        return Batch({0: {TOPIC: records}}, batch.next_offsets, batch.caught_up)


class Scene:
    """A log, of which a part has come, and a server."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.log = Source(VALUES[:SOME])
        self.store = LaneStore(client, NAMESPACE)
        self.namespace = Namespace(client, "relevanced", NAMESPACE)
        self.telemetry = Telemetry("test")
        self.ownership: Ownership | None = None

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """A worker with no memory of the lane."""
        stop = asyncio.Event()
        self.log.next, self.telemetry = None, Telemetry("test")
        await self.namespace.register(1)
        store = LaneStore(self.client, NAMESPACE)
        ports = Ports(self.log, store)
        process = Process(self.telemetry, lambda: 0.0, stop)
        self.ownership = Ownership(
            ports, process, Layouts(InForce(PLAN)), Beginning(LogEnd.EARLIEST, 1)
        )
        pace = Pace(max_records=100, commit_interval_s=0.0)
        worker = Worker(ports, process, self.ownership, decoder_of(CONFIG), pace)
        task = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            stop.set()
            await task

    async def repaired(self) -> bool:
        return bool(self.telemetry.lane_repairs.collect()[0].samples[0].value)

    async def offset(self) -> int:
        stored = await self.client.hget(f"{PREFIX}head", "offsets")
        return -1 if stored is None else int(msgspec.json.decode(stored)[TOPIC])

    async def settled(self) -> None:
        """Until all records are taken, and the lane is whole: a reader without a copy says so."""

        async def done() -> bool:
            assert self.ownership is not None
            if not self.ownership.lanes or await self.offset() != len(self.log.values):
                return False
            return isinstance(await self.read(), LaneView)

        await until(done, 20)

    async def read(self) -> LaneView | str | None:
        """What a reader without a copy sees: the lane, what is wrong with it, or nothing."""
        reads = LaneReads(self.store, self.namespace, PLAN, Telemetry("test"))
        try:
            found = await reads.read()
        except Unavailable as error:  # it was made whole while it was read
            return str(error)
        if reads.damaged:
            assert reads.without_copy == [0]
            return reads.damaged[0]
        for mirror, delta in found:
            assert delta is not None
            mirror.apply(delta)
            return mirror.view()
        return None

    async def keys(self) -> dict[str, list[str]]:
        """Kind → keys of the server."""
        kinds = dict[str, list[str]]()
        async for key in self.client.scan_iter():
            name = key.decode()
            kind = name.removeprefix(PREFIX) if name.startswith(PREFIX) else name.split(":")[-1]
            kinds.setdefault(kind.split(":")[0], []).append(name)
        return {kind: sorted(names) for kind, names in sorted(kinds.items())}

    async def lose(self, *names: str) -> None:
        for name in names:  # one at a time: on a cluster they are in several slots
            await self.client.unlink(name)


@asynccontextmanager
async def scene_at(redis: AnyRedis) -> AsyncIterator[Scene]:
    """A lane that a worker has written, and that nobody has in memory."""
    async with client_at(redis.url) as client:
        scene = Scene(client)
        async with scene.working():
            await scene.settled()
        await scene.namespace.lease("nobody", 60_000)
        await scene.namespace.store_selection(b"{}")
        await scene.namespace.sign_of_life(1)
        yield scene


def assert_is_right(seen: LaneView | str | None, lane: Lane) -> None:
    assert isinstance(seen, LaneView), seen
    assert state_of_view(seen) == state_of_lane(lane)
    assert {n: t.arms.keys() for n, t in seen.experiments.items()} == {
        n: t.arms.keys() for n, t in lane.experiments.by_name.items()
    }


@pytest.mark.parametrize("kind", [*KINDS, *OTHERS])
async def test_nobody_sees_other_numbers_after_a_loss_at_rest(redis: AnyRedis, kind: str) -> None:
    async with scene_at(redis) as scene:
        keys = await scene.keys()
        assert set(keys) == {*KINDS, *OTHERS, "hours"}
        await scene.lose(keys[kind][-1])
        seen = await scene.read()
        if kind in ("exporter", "shown", "namespaces", "open", "admitted"):
            assert_is_right(seen, reference(SOME))  # readers do not need it
        elif kind == "meta":
            assert seen is None
        else:
            assert isinstance(seen, str) and "begin-anew" in seen
        async with scene.working():
            await scene.settled()
            begun_anew = scene.telemetry.lanes_begun_anew.collect()[0].samples[0].value
        assert begun_anew == (kind in KINDS)
        assert_is_right(await scene.read(), reference(SOME))


@pytest.mark.parametrize("kind", [*KINDS, *OTHERS])
async def test_running_owner_makes_the_lane_whole(redis: AnyRedis, kind: str) -> None:
    async with scene_at(redis) as scene, scene.working():
        await scene.settled()
        await scene.lose((await scene.keys())[kind][-1])
        if kind in KINDS and kind != "head":
            await until(scene.repaired)
        scene.log.values += VALUES[SOME : SOME + 200]
        if kind == "meta":
            await scene.namespace.register(1)  # as each worker does every ten seconds
        await scene.settled()
        scene.log.values += VALUES[SOME + 200 :]
        await scene.settled()
        assert_is_right(await scene.read(), reference(RECORDS))


@pytest.mark.parametrize("running", [False, True], ids=["at rest", "running"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_random_losses_are_made_good(redis: AnyRedis, seed: int, running: bool) -> None:
    rng = random.Random(f"losses {seed}")
    async with scene_at(redis) as scene:
        lost = list[str]()

        async def lose_some() -> None:
            every = [key for of_kind in (await scene.keys()).values() for key in of_kind]
            past = {key for key in every if ":hours:" in key}
            lost[:] = rng.sample(every, rng.choice((1, 3, len(every) // 2, len(every))))
            await scene.lose(*(key for key in lost if key not in past))

        if not running:
            await lose_some()
            seen = await scene.read()
            if isinstance(seen, LaneView):
                assert_is_right(seen, reference(SOME))
        async with scene.working():
            await scene.settled()
            for end in range(SOME + 100, RECORDS + 1, 100):
                if running:
                    await lose_some()
                    await scene.namespace.register(1)
                scene.log.values[:] = VALUES[:end]
                await scene.settled()
                assert_is_right(await scene.read(), reference(end))


@pytest.mark.parametrize("running", [False, True], ids=["at rest", "running"])
async def test_past_hours_are_lost_alone_and_known(redis: AnyRedis, running: bool) -> None:
    async with scene_at(redis) as scene:
        whole = await scene.read()
        assert isinstance(whole, LaneView) and len(whole.hours) > 2
        first = min(whole.hours)
        lost = [key for key in (await scene.keys())["hours"] if f":{first}:" in key]
        if not running:
            await scene.lose(lost[0])
            assert "hours" in str(await scene.read())
        async with scene.working():
            await scene.settled()
            await scene.lose(lost[0])

            async def noted() -> bool:
                seen = await scene.read()
                return isinstance(seen, LaneView) and seen.lost_hours == {first}

            await until(noted)
        seen = await scene.read()
        assert_is_right(seen, reference(SOME))
        assert isinstance(seen, LaneView) and set(seen.hours) == set(whole.hours) - {first}
        assert {start: dict(pages) for start, pages in seen.hours.items()} == {
            start: dict(pages) for start, pages in whole.hours.items() if start != first
        }


async def test_damaged_lane_stops_where_the_log_is_gone_until_a_person_decides(
    redis: AnyRedis,
) -> None:
    async with scene_at(redis) as scene:
        await scene.lose(f"{PREFIX}changes")
        scene.log.beginning = 100
        async with scene.working():

            async def stopped() -> bool:
                assert scene.ownership is not None
                return "relevanced lane begin-anew" in scene.ownership.not_open.get(0, "")

            await until(stopped)
            assert isinstance(await scene.read(), str)
            await LaneRegister(scene.client, NAMESPACE).permit_to_begin_anew(0)
            await scene.settled()
        seen = await scene.read()
        expected = state_of_lane(reference(SOME, start=100))
        counts = {**expected["counts"], "gap_records": {TOPIC: 100}}  # type: ignore[dict-item]
        assert isinstance(seen, LaneView)
        assert state_of_view(seen) == {**expected, "counts": counts}


@pytest.mark.parametrize("key", ["changes", "names", "totals:0", "open:"])
async def test_loss_between_check_and_load_is_noticed(redis: AnyRedis, key: str) -> None:
    async with scene_at(redis) as scene:
        head = await scene.store.claim(0, "next", {TOPIC: 0})
        assert await scene.store.verify(0, head.token, head.sequence) == []
        names = [name for of_kind in (await scene.keys()).values() for name in of_kind]
        await scene.lose(next(name for name in names if name.startswith(PREFIX + key)))
        with pytest.raises(DamagedLane):
            await scene.store.load(0, head, blob_keys)


async def test_reader_with_a_copy_keeps_it_and_says_so(redis: AnyRedis) -> None:
    async with scene_at(redis) as scene:
        telemetry = Telemetry("test")
        reads = LaneReads(scene.store, scene.namespace, PLAN, telemetry)
        for mirror, delta in await reads.read():
            assert delta is not None
            mirror.apply(delta)
        for key in ("changes", "names", "head"):
            await scene.lose(f"{PREFIX}{key}")
            ((mirror, delta),) = await reads.read()
            assert delta is None and reads.without_copy == []
            assert "lane 0 is damaged" in reads.damaged[0]
            assert_is_right(mirror.view(), reference(SOME))
            assert telemetry.lane_damaged.labels("0")._value.get() == 1


async def test_volatile_policies_evict_nothing_of_a_lane(own_redis: OwnRedis) -> None:
    """Nothing but what is staged, or renewed every few seconds, has a time to live."""
    server: RedisServer = own_redis(maxmemory_policy="volatile-lru")
    async with scene_at(server) as scene, Redis.from_url(server.url) as client:
        before = await scene.keys()
        ending = [name for names in before.values() for name in names if await client.ttl(name) > 0]
        assert ending == before.pop("exporter"), "its lease, which a process takes again"
        used = int((await client.info("memory"))["used_memory"])
        await client.config_set("maxmemory", used + 100_000)
        for n in range(200):
            await client.set(f"other:{n}", b"x" * 1000, ex=1_000)
        await client.config_set("maxmemory", 0)
        assert len([n for n in range(200) if await client.exists(f"other:{n}")]) < 200
        after = await scene.keys()
        assert {kind: after.get(kind) for kind in before} == before
        assert_is_right(await scene.read(), reference(SOME))


async def test_eviction_of_any_key_is_noticed(own_redis: OwnRedis) -> None:
    """A server that is full evicts what nobody read for a while."""
    server: RedisServer = own_redis(maxmemory_policy="allkeys-lru")
    async with scene_at(server) as scene, Redis.from_url(server.url) as client:
        before = Counter({kind: len(keys) for kind, keys in (await scene.keys()).items()})
        used = int((await client.info("memory"))["used_memory"])
        await client.config_set("maxmemory", used)
        for n in range(200):
            await client.set(f"other:{n}", b"x" * 1000)
        await client.config_set("maxmemory", 0)
        await scene.lose(*[f"other:{n}" for n in range(200)])
        after = Counter({kind: len(keys) for kind, keys in (await scene.keys()).items()})
        assert before - after, "nothing was evicted"
        seen = await scene.read()
        if isinstance(seen, LaneView):
            assert_is_right(seen, reference(SOME))
        async with scene.working():
            await scene.settled()
        assert_is_right(await scene.read(), reference(SOME))
