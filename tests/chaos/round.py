"""One round: workers on topics and a Redis of their own, traffic, faults, and then the account.

Whatever a fault did is undone before the account: then the workers have to catch up, to end in
order, and what Redis holds has to equal the oracle over the topics' records.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from relevanced.daemon.config.loading import load
from relevanced.daemon.storage.commit import ClaimedLane
from relevanced.daemon.storage.redis.client import connect
from relevanced.daemon.storage.redis.lane_store import LaneStore
from relevanced.daemon.storage.redis.upkeep import SIGN_OF_LIFE_EVERY_S
from relevanced.daemon.storage.restore import rebuild
from relevanced.daemon.storage.schema import namespace
from tests.chaos.comparison import Difference, differences, expected_of, lost_and_doubled
from tests.chaos.redis_pair import RedisPair
from tests.chaos.schedule import SESSION_S, Plan
from tests.chaos.served import events_missing, unready
from tests.chaos.stage import Slot, Stage
from tests.chaos.traffic import PARTITIONS, TOPIC_SETTINGS, Producer, read_all
from tests.oracle import DEFAULT_METRICS, LaneResult, OracleConfig, Record
from tests.replica import every_key, plan_of
from tests.services.processes import tail
from tests.services.redis_lanes import stray_keys

CATCH_UP_S: Final = 120.0
FAULT_PATIENCE_S: Final = 90.0
READY_S: Final = 30.0
CALM_S: Final = 1.0
"""Traffic goes on for so long after the last fault."""
LOOK_EVERY_S: Final = 0.2
CONFIG: Final = OracleConfig(
    windows_s=(60, 300, 3600),
    attribution_window_s=60,
    lateness_s=5,
    groupings=(("country",), ("device",), ("country", "device"), ("experiment:ranker-v2",)),
    metric_names=(*DEFAULT_METRICS, "IPS-P@10", "IPS-DCG@10"),
    units={"ranker-v2": "user_id"},
    stratify={"ranker-v2": "country"},
    propensities={"ios": (1.0, 0.6, 0.3, 0.05), "web": (1.0, 0.7, 0.5)},
    surface="device",
    weighed_ranks=10,
)
TOML: Final = """
windows = ["60s", "300s", "3600s"]
[kafka]
bootstrap_servers = ["{bootstrap}"]
topics = {topics}
group_id = "{name}"
start = "{start}"
session_timeout = "{session}s"
max_batch_records = 2000
commit_interval = "100ms"
[redis]
url = "{redis}"
namespace = "{name}"
[attribution]
window = "60s"
lateness = "5s"
[metrics]
names = ["P@1", "P@5", "P@10", "Success@10", "RR@10", "ERR@10", "nDCG@10", "IPS-P@10", "IPS-DCG@10"]
[propensities]
attribute = "device"
[propensities.tables.ios]
version = "1"
ranks = [1.0, 0.6, 0.3, 0.05]
[propensities.tables.web]
version = "1"
ranks = [1.0, 0.7, 0.5]
[segments]
groupings = [["country"], ["device"], ["country", "device"], ["experiment:ranker-v2"]]
discovered_experiments = 0
[experiments.ranker-v2]
planned_impressions = 1000
primary = "P@1"
stratify_by = "country"
"""


class RoundFailed(Exception):
    """The numbers cannot even be compared; the message says why."""


@dataclass
class Account:
    """What came of a round."""

    faults: int = 0
    records: int = 0
    lost: int = 0
    doubled: int = 0
    first: Difference | None = None
    missed: list[str] = field(default_factory=list)
    """Kinds of faults whose moment did not come."""
    problems: list[str] = field(default_factory=list)
    """What else is not as it must be."""

    @property
    def good(self) -> bool:
        return self.first is None and not self.problems


class Round:
    """`async with Round(stage, plan) as round`; the faults reach into its parts."""

    def __init__(self, stage: Stage, plan: Plan, directory: Path) -> None:
        self.stage, self.plan, self.directory = stage, plan, directory
        self.name = f"round-{plan.seed}-{random.SystemRandom().randrange(10**6)}"
        self.topics = [f"{self.name}-{number}" for number in range(plan.topics)]
        self.luck = random.Random(f"round {plan.seed}")
        self.redis = RedisPair(directory, plan.fsync, self.luck)
        self.producer = Producer(stage.broker.bootstrap, self.topics, plan.seed)
        self.wanted = set(range(plan.workers))
        """Slots whose workers are started again at the end where a fault ended them."""
        self.problems: list[str] = []
        """What went wrong by itself."""

    async def __aenter__(self) -> "Round":
        self.directory.mkdir(parents=True)
        self.stage.luck.seed(f"proxies {self.plan.seed}")
        for topic in self.topics:
            await self.stage.broker.create_topic(topic, PARTITIONS, TOPIC_SETTINGS)
        await self.redis.start()
        await self.lead_to_master()
        for slot in self.slots:
            slot.logs.clear()
            if slot.number in self.wanted:
                self.start_worker(slot)
        await self.producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.producer.stop()
        for slot in self.slots:
            await slot.heal()
            await slot.end()
        await self.redis.close()
        for topic in self.topics:
            await self.stage.broker.delete_topic(topic)

    @property
    def slots(self) -> Sequence[Slot]:
        return self.stage.slots

    def start_worker(self, slot: Slot) -> None:
        complaint = slot.complaint()
        if complaint is not None:
            self.problems.append(complaint)
        role = "all" if slot.number == 0 and self.plan.serves else "worker"
        slot.start(self.directory, self._toml(slot), role)

    async def lead_to_master(self) -> None:
        """All workers reach the Redis that counts."""
        for slot in self.slots:
            await slot.redis.switch(self.redis.master.port)

    async def lose_lane(self, lane: int) -> None:
        """Take the head of a lane and the list of its keys: nothing names the others any more."""
        async with connect(self.redis.master.url) as client:
            prefix = LaneStore(client, self._namespace()).prefix(lane)
            await client.delete(f"{prefix}head", f"{prefix}changes")

    async def heal(self) -> None:
        """Undo what faults have left."""
        await asyncio.to_thread(self.stage.broker.start)
        for slot in self.slots:
            await slot.heal()
            if slot.number in self.wanted:
                self.start_worker(slot)

    async def account(self) -> Account:
        """Stop the traffic, let the workers catch up and end, and compare."""
        await asyncio.sleep(CALM_S)
        await self.producer.stop()
        records = await read_all(self.stage.broker.bootstrap, self.topics)
        await self._wait_until_taken(records)
        account = Account(records=len(records), problems=self.problems)
        starts = await self._field("start")
        expected = expected_of(records, starts, CONFIG)
        account.problems += await self._ask_workers(expected)
        account.problems += await self._missing_lanes()
        account.problems += await self._end_workers()
        await self._compare(expected, starts, account)
        return account

    async def _wait_until_taken(self, records: Sequence[Record]) -> None:
        ends = {lane: dict.fromkeys(self.topics, 0) for lane in range(PARTITIONS)}
        for record in records:
            ends[record.partition][record.topic] = record.offset + 1
        try:
            async with asyncio.timeout(CATCH_UP_S):
                while await self._field("offsets") != ends:
                    self._look_at_workers()
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            taken = await self._field("offsets")
            raise RoundFailed(
                f"not caught up within {CATCH_UP_S:.0f} s: {taken}, must be {ends}\n{self.logs()}"
            ) from None

    def _look_at_workers(self) -> None:
        for slot in self.slots:
            if slot.number in self.wanted and not slot.running:
                raise RoundFailed(f"worker {slot.number} ended by itself\n{self.logs()}")

    async def _ask_workers(self, expected: Mapping[int, LaneResult]) -> list[str]:
        """Whether all are ready again, and what the exporter serves is what was counted."""
        working = [slot for slot in self.slots if slot.running]
        told = await asyncio.gather(*(unready(slot.port, READY_S) for slot in working))
        problems = [f"worker {s.number} is not ready: {t}" for s, t in zip(working, told) if t]
        if self.plan.serves:
            wanted = {
                kind: sum(of_lane.events[kind] for of_lane in expected.values())
                for kind in ("impressions", "feedback")
            }
            served = await events_missing(self.slots[0].port, wanted, READY_S)
            problems += [f"the exporter serves {served}"] if served else []
        return problems

    async def _missing_lanes(self) -> list[str]:
        """Whether the number of lanes is there: a sign of life brings it back where Redis lost
        it."""
        lanes = None
        try:
            async with asyncio.timeout(2 * SIGN_OF_LIFE_EVERY_S):
                async with connect(self.redis.master.url) as client:
                    key = f"{self._namespace()}:meta"
                    while (lanes := await client.hget(key, "lanes")) != str(PARTITIONS).encode():
                        await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            return [f"the namespace has {lanes!r} lanes, must be {PARTITIONS}"]
        return []

    async def _end_workers(self) -> list[str]:
        working = [slot for slot in self.slots if slot.running]
        await asyncio.gather(*(slot.leave() for slot in working))
        return [complaint for slot in working if (complaint := slot.complaint()) is not None]

    async def _field(self, name: str) -> dict[int, dict[str, int]]:
        """Field of the head of every lane that has one."""
        async with connect(self.redis.master.url) as client:
            store = LaneStore(client, self._namespace())
            raw = [await client.hget(f"{store.prefix(n)}head", name) for n in range(PARTITIONS)]
        return {n: msgspec.json.decode(text) for n, text in enumerate(raw) if text is not None}

    async def _compare(
        self,
        expected: Mapping[int, LaneResult],
        starts: Mapping[int, Mapping[str, int]],
        account: Account,
    ) -> None:
        for number, wanted in sorted(expected.items()):
            held = await self._load(number)
            told = differences(held.lane, wanted, starts[number])
            account.first = account.first or next(told, None)
            lost, doubled = lost_and_doubled(held.lane, wanted)
            account.lost += lost
            account.doubled += doubled
            account.problems += await self._strays(held)

    async def _strays(self, held: ClaimedLane) -> list[str]:
        """Keys of a lane that nobody would ever read, or unlink."""
        async with connect(self.redis.master.url) as client:
            return await stray_keys(client, self._namespace(), held)

    async def _load(self, lane: int) -> ClaimedLane:
        async with connect(self.redis.master.url) as client:
            store = LaneStore(client, self._namespace())
            head = await store.claim(lane, f"reader-{random.random()}", {})
            await store.sweep()  # as any next owner does, where the former did not come to it
            names, blobs = await store.load(lane, head, every_key)
            return rebuild(lane, plan_of(CONFIG), self.topics, head, names, blobs)

    def _namespace(self) -> str:
        return namespace(load(self._toml(self.slots[0]), {}, "chaos"))

    def _toml(self, slot: Slot) -> str:
        return TOML.format(
            bootstrap=f"127.0.0.1:{slot.kafka.port}",
            redis=f"redis://127.0.0.1:{slot.redis.port}/0",
            topics=msgspec.json.encode(self.topics).decode(),
            name=self.name,
            start=self.plan.start,
            session=SESSION_S,
        )

    def logs(self) -> str:
        """The end of every worker's log."""
        paths = [path for slot in self.slots for path in slot.logs[-2:]]
        return "\n".join(f"--- {path.name}\n{tail(path.read_text(), 15)}" for path in paths)
