"""A reader that follows a lane through the store sees the writer's lane, whatever happens.

One writer works through a random log with crashes, lost and late requests and roll-backs of the
server; readers read it all the while, in calls of any size. Every state that a reader ever sees
must be one that the writer had, and the last one the oracle's.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from relevanced.daemon.errors import Unavailable
from relevanced.daemon.lane import Lane, Pages
from relevanced.daemon.recompute.buckets import view_of
from relevanced.daemon.storage import (
    ClaimedLane,
    Commit,
    InForce,
    LaneStore,
    Layouts,
    blob_keys,
    confirm,
    lane_store as redis_store,
    plan_commit,
    rebuild,
)
from relevanced.daemon.views import LaneView, Mirror, Names
from tests import oracle
from tests.oracle import Record
from tests.replica import assert_equal, decoder_of, plan_of
from tests.services.fixtures import AnyRedis
from tests.services.proxy import Fault, Proxy
from tests.services.redis_lanes import Dump, dump, restore, store_at
from tests.streams import SMALL_CONFIG, random_records, topic_names
from tests.whole_batch import process_batch


@pytest.fixture
def redis(any_redis: AnyRedis) -> AnyRedis:
    """Every test here runs on a cluster as well."""
    return any_redis


SEEDS = range(3)
"""The whole id of a test is its seed, so each server gets other logs."""
State = Mapping[str, object]


def rows_by_segment(pages: Pages, names: Names) -> dict[tuple[str, str], list[int]]:
    return {
        name: row.tolist()
        for page, rows in pages.items()
        for name, row in zip(names.of_page(page), rows, strict=False)
        if row.any()
    }


def state_of_view(view: LaneView) -> State:
    """The state of a lane as a reader has it, as plain values that can be compared."""
    panes = {key: rows_by_segment(rows, view.names) for key, rows in view.panes.items()}
    return {
        "panes": {key: rows for key, rows in panes.items() if rows},
        "totals": rows_by_segment(view.totals, view.names),
        "counts": {family: dict(labels) for family, labels in view.counts.items() if labels},
        "watermark": view.watermark_ms,
        "offsets": dict(view.offsets),
        "names": view.names.segments,
    }


def state_of_lane(lane: Lane) -> State:
    """The same of the lane in the writer's memory."""
    return state_of_view(replace(view_of(lane), offsets=lane.offsets))


@dataclass
class Reader:
    """A mirror and the store that it reads from."""

    store: LaneStore
    mirror: Mirror

    async def read(self) -> LaneView:
        mirror = self.mirror
        names = len(mirror.names) or 1
        delta = await self.store.read(mirror.lane, mirror.token, mirror.sequence, names)
        assert delta is not None
        mirror.apply(delta)
        return mirror.view()


@dataclass
class Writer:
    """One lane over its log, as a worker drives it, behind a network that loses answers."""

    rng: random.Random
    store: LaneStore
    number: int
    logs: Mapping[str, Sequence[Record]]
    states: dict[tuple[str, int], State] = field(default_factory=dict)
    """(token, sequence) → the state of the lane then."""
    claims: int = 0

    async def claim(self) -> ClaimedLane:
        while True:
            self.claims += 1
            try:
                start = {topic: 0 for topic in self.logs}
                head = await self.store.claim(self.number, f"token-{self.claims}", start)
                names, blobs = await self.store.load(self.number, head, blob_keys)
            except Unavailable:
                continue
            plan = plan_of(SMALL_CONFIG)
            self.owned = rebuild(
                self.number, Layouts(InForce(plan)), list(self.logs), head, names, blobs
            )
            self.record(head.token, head.sequence)
            return self.owned

    def record(self, token: str, sequence: int) -> None:
        state = state_of_lane(self.owned.lane)
        assert self.states.setdefault((token, sequence), state) == state

    def was(self, seen: LaneView) -> bool:
        """Whether the lane was so at that sequence. A claim whose answer was lost left its token
        with a state that was recorded under another one."""
        state = state_of_view(seen)
        if (seen.token, seen.sequence) in self.states:
            return self.states[seen.token, seen.sequence] == state
        return state in [then for (_, n), then in self.states.items() if n == seen.sequence]

    def done(self) -> bool:
        return all(self.owned.lane.offsets[topic] == len(log) for topic, log in self.logs.items())

    async def finished(self) -> bool:
        """Whether all records are done, and the store has their effects."""
        if self.done():
            await self.claim()
        return self.done()

    async def step(self) -> None:
        """One batch; its process may die before or after the commit."""
        lane = self.owned.lane
        pulled, offsets = {}, {}
        for topic, log in self.logs.items():
            first, size = lane.offsets[topic], self.rng.choice((0, 1, 3, 20, 60))
            pulled[topic] = [as_log_record(record) for record in log[first : first + size]]
            offsets[topic] = first + len(pulled[topic])
        process_batch(lane, pulled, offsets, decoder_of(SMALL_CONFIG))
        commit = plan_commit(self.owned)
        fate = self.rng.random()
        if fate < 0.05:
            await self.claim()
            return
        # From here on the store may contain it, whether the answer comes or not.
        self.record(commit.token, commit.sequence + 1)
        answer = await self.commit(commit)
        if answer == "lost" or fate < 0.15:
            await self.claim()
        else:
            confirm(self.owned, commit)

    async def commit(self, commit: Commit) -> str:
        while True:
            try:
                return await self.store.commit(commit)
            except Unavailable:
                continue


def as_log_record(record: Record) -> SimpleNamespace:
    timestamp = -1 if record.timestamp_ms is None else record.timestamp_ms
    return SimpleNamespace(offset=record.offset, timestamp=timestamp, value=record.value)


def random_faults(rng: random.Random, proxy: Proxy) -> None:
    faults: tuple[Fault, ...] = ("cut before", "cut after", "late")
    proxy.chance = lambda: rng.choice(faults) if rng.random() < 0.04 else None


@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
async def test_mirror_is_always_a_lane_that_the_writer_had(
    redis: AnyRedis,
    seed: int,
    topics: int,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(request.node.name)
    names = topic_names(topics)
    records = random_records(rng, topics=topics, partitions=1, events=400)
    logs: dict[str, list[Record]] = {name: [] for name in names}
    for record in records:
        logs[record.topic].append(record)
    async with (
        Proxy(*redis.ports) as proxy,
        store_at(proxy.url) as far,
        store_at(redis.url) as near,
    ):
        random_faults(rng, proxy)
        writer = Writer(rng, far, 0, logs)
        await writer.claim()
        plan = plan_of(SMALL_CONFIG)
        steady, hasty, rare = (Reader(near, Mirror(0, plan)) for _ in range(3))
        saved: Dump = await dump(redis.url)
        while not await writer.finished():
            monkeypatch.setattr(redis_store, "READ_BYTES", rng.choice((1, 300, 4_000, 10**7)))
            _, seen = await asyncio.gather(writer.step(), hasty.read())
            assert writer.was(seen)
            assert state_of_view(await steady.read()) == state_of_lane(writer.owned.lane)
            if rng.random() < 0.1:
                assert state_of_view(await rare.read()) == state_of_lane(writer.owned.lane)
            if rng.random() < 0.1:
                saved = await dump(redis.url)
            elif rng.random() < 0.08:
                await restore(redis.url, saved)
                assert writer.was(await steady.read())
            elif rng.random() < 0.1:
                await proxy.deliver_late()
        expected = oracle.run(records, names, SMALL_CONFIG)[0]
        assert_equal(writer.owned.lane, expected)
        assert state_of_view(await hasty.read()) == state_of_lane(writer.owned.lane)
        latest = await Reader(near, Mirror(0, plan)).read()
        assert state_of_view(latest) == state_of_lane(writer.owned.lane)
