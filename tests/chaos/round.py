"""One round: workers with topics and a Redis of their own, traffic, faults, and the comparison.

After the faults everything is repaired. Then the workers must catch up and end without errors, and
the state in Redis must equal the result of the oracle over the records of the topics.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
from redis.crc import key_slot

from relevanced.daemon.config import REKEY, Layout, lane_decoder_of, layout_of, load, under_layout
from relevanced.daemon.errors import Damaged, Lost
from relevanced.daemon.lane import log_name
from relevanced.daemon.plan import Plan as ProductPlan
from relevanced.daemon.recompute.libraries import class_libraries, library_of
from relevanced.daemon.storage import (
    SIGN_OF_LIFE_EVERY_S,
    ClaimedLane,
    InForce,
    LaneStore,
    LayoutRegistry,
    Layouts,
    StoredLayout,
    connect,
    layouts_of,
    namespace,
    rebuild,
)
from tests.chaos.comparison import (
    Difference,
    differences,
    expected_of,
    expected_shares,
    lost_and_doubled,
)
from tests.chaos.configuration import CONFIG, configuration
from tests.chaos.redis_cluster import ClusterOfRound
from tests.chaos.redis_pair import RedisPair
from tests.chaos.registered import Registered
from tests.chaos.schedule import SESSION_S, Plan
from tests.chaos.sent import StageTopic, ends_of, verdicts
from tests.chaos.served import unready, wrong_events
from tests.chaos.stage import Slot, Stage
from tests.chaos.traffic import TOPIC_SETTINGS, Listed, Places, Producer, read_all
from tests.chaos.undisturbed import Files, StoredLane, disturbances, undisturbed, with_past_queries
from tests.oracle import LaneResult, Record
from tests.replica import every_key
from tests.services.processes import tail
from tests.services.redis_lanes import stray_keys

CATCH_UP_S: Final = 120.0
FAULT_PATIENCE_S: Final = 90.0
READY_S: Final = 30.0
CALM_S: Final = 1.0
"""Traffic continues for this long after the last fault."""
POLL_EVERY_S: Final = 0.2
FOR_READERS: Final = 10**6
"""A generation that no lane has."""


class RoundFailed(Exception):
    """The round ended before the comparison; the message says why."""


@dataclass
class RoundResult:
    """The result of a round."""

    faults: int = 0
    records: int = 0
    lost: int = 0
    doubled: int = 0
    silent: int = 0
    """Lanes that look whole and differ."""
    first: Difference | None = None
    sent: Counter[str] = field(default_factory=Counter)
    """What a stage sent, by what lanes make of it."""
    missed: list[str] = field(default_factory=list)
    """Kinds of faults whose moment never occurred."""
    problems: list[str] = field(default_factory=list)
    """Other violations, as sentences."""

    @property
    def passed(self) -> bool:
        return self.first is None and not self.problems


class Round:
    """The running round, an async context manager; faults act on its parts."""

    def __init__(self, stage: Stage, plan: Plan, directory: Path) -> None:
        self.stage, self.plan, self.directory = stage, plan, directory
        self.name = f"round-{plan.seed}-{random.SystemRandom().randrange(10**6)}"
        topics = [f"{self.name}-{index}" for index in range(plan.topics)]
        self.places = Places(topics, plan.lanes)
        self.sent: StageTopic | None = None
        """Where a stage divides events among lanes."""
        self.rng = random.Random(f"round {plan.seed}")
        self.redis: Any = RedisPair(directory, plan.fsync, self.rng)
        """Or, where the plan says so, a ClusterOfRound; faults know which of them they need."""
        if plan.on_cluster:
            self.redis = ClusterOfRound(directory)
        self.registered = Registered() if plan.registered else None
        self.producer = Producer(stage.broker.bootstrap, self.places, plan.seed, self.registered)
        self.active = set(range(plan.workers))
        """Numbers of the slots that have a worker; if a fault kills it, it is started again."""
        self.variants: dict[int, int] = {}
        """Slot → index of `LAYOUTS` that its configuration has, if it is not the first."""
        self.deployed = {0}
        """Those that any had so far."""
        self.problems: list[str] = []
        """Violations found so far."""
        self.judgements = Listed.judgements(directory / "judgements", self.producer.traffic.world)
        self.classes = Listed.classes(directory / "classes")
        self.files_lock = asyncio.Lock()
        """Locked while a fault affects the files."""
        self.clock_lock = asyncio.Lock()
        """Locked while a fault affects a clock, or needs clocks that are right."""

    async def __aenter__(self) -> "Round":
        self.directory.mkdir(parents=True)
        for listed in (self.judgements, self.classes):
            listed.put_in_place()
        if self.registered is not None:
            await self.registered.server.start()
        self.stage.rng.seed(f"proxies {self.plan.seed}")
        for topic, partitions in self.places.partitions.items():
            await self.stage.broker.create_topic(topic, partitions, TOPIC_SETTINGS)
        if self.plan.lanes == REKEY:
            config = load(self._toml(self.slots[0]), {}, "chaos")
            self.sent = StageTopic(self.stage.broker.bootstrap, config, self.places)
            await self.stage.broker.create_topic(self.sent.name, self.places.lanes, TOPIC_SETTINGS)
        await self.redis.start()
        await self.connect_to_master()
        for slot in self.slots:
            slot.logs.clear()
            if slot.number in self.active:
                self.start_worker(slot)
        await self.producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.producer.stop()
        for slot in self.slots:
            await slot.heal()
            await slot.end()
        await self.redis.close()
        if self.registered is not None:
            await self.registered.server.stop()
        for topic in (*self.places.topics, *([self.sent.name] if self.sent else [])):
            await self.stage.broker.delete_topic(topic)

    @property
    def slots(self) -> Sequence[Slot]:
        return self.stage.slots

    def deploy(self, slot: int, layout: int) -> None:
        """Give a slot another configuration, for when it starts again."""
        self.variants[slot] = layout
        self.deployed.add(layout)

    def start_worker(self, slot: Slot) -> None:
        problem = slot.exit_problem()
        if problem is not None:
            self.problems.append(problem)
        role = "all" if slot.number == 0 and self.plan.serves else "worker"
        slot.start(self.directory, self._toml(slot), role)

    def config_at(self, slot: Slot, redis: str) -> str:
        """The configuration of a slot at another Redis."""
        return self._toml(slot).replace(self._redis_of(slot), redis)

    def _redis_of(self, slot: Slot) -> str:
        if self.plan.on_cluster:
            return str(self.redis.url)
        return f"redis://127.0.0.1:{slot.redis.port}/0"

    def slot_of_lane(self, lane: int) -> int:
        """Where a Redis Cluster has a lane."""
        return key_slot(f"{{{self.namespace}:{lane}}}:head".encode())

    async def connect_to_master(self) -> None:
        """Direct all workers to the Redis master."""
        if not self.plan.on_cluster:
            for slot in self.slots:
                await slot.redis.switch(self.redis.master.port)

    async def put_in_force(self, layout: int) -> None:
        """As `relevanced layout use` does."""
        wanted = layout_of(load(self._toml(self.slots[0], layout), {}, "chaos"))
        async with connect(self.redis.url) as client:
            await LayoutRegistry(client, self.namespace).use(wanted.digest, wanted.text)

    async def heal(self) -> None:
        """Repair everything that faults may have left."""
        await asyncio.to_thread(self.stage.broker.start)
        for slot in self.slots:
            await slot.heal()
            if slot.number in self.active:
                self.start_worker(slot)

    async def finish(self) -> RoundResult:
        """Stop the traffic, wait until the workers have caught up, end them, and compare."""
        await asyncio.sleep(CALM_S)
        await self.producer.stop()
        records = await read_all(self.stage.broker.bootstrap, self.places, self.registered)
        await self._wait_while(lambda: self._behind(records))
        await self._wait_while(self._damage)
        expected = await self._expected(records)
        await self._wait_while(lambda: self._unlifted(expected))
        result = RoundResult(records=len(records), problems=self.problems)
        result.problems += await self._ask_workers(expected)
        result.problems += await self._missing_lanes()
        result.problems += await self._end_workers()
        await self._compare(records, await self._expected(records), result)
        return result

    async def _wait_while(self, problem: Callable[[], Awaitable[str | None]]) -> None:
        """Wait until there is no problem any more."""
        found: str | None = "not looked yet"
        try:
            async with asyncio.timeout(CATCH_UP_S):
                while found := await problem():
                    self._check_workers_run()
                    await asyncio.sleep(POLL_EVERY_S)
        except TimeoutError:
            raise RoundFailed(f"{found} for {CATCH_UP_S:.0f} s\n{self.logs()}") from None

    async def _behind(self, records: Sequence[Record]) -> str | None:
        """How far lanes are, if not at the ends of their logs."""
        ends = ends_of(records, self.places)
        if self.sent is not None:
            committed = await self.sent.committed()
            if committed != ends[0]:
                return f"the stage is at {committed}, must be at {ends[0]}"
            ends = await self.sent.ends()
        at = await self._field("offsets")
        behind = any(at.get(n, {}).get(log, -1) < end for n in ends for log, end in ends[n].items())
        return f"offsets are {at}, must be {ends}" if behind else None

    async def _unlifted(self, expected: Mapping[int, LaneResult]) -> str | None:
        """The lanes that wait for the empty partition, or do not know how far the others are."""
        if self.places.are_lanes:
            return None
        lifts, marks = await self._field("lifts"), await self._field("watermarks")
        waiting = [
            lane
            for lane, of_lane in expected.items()
            if log_name(*self.places.empty) not in lifts.get(lane, {})
            or marks.get(lane) != of_lane.watermarks
        ]
        return f"lanes {waiting} wait with {lifts}, {marks}" if waiting else None

    async def _expected(self, records: Sequence[Record]) -> dict[int, LaneResult]:
        """The oracle's lanes, lifted as those in Redis."""
        starts, lifts = await self._field("start"), await self._field("lifts")
        if self.sent is None:
            return expected_of(records, starts, CONFIG, lifts)
        start = dict.fromkeys(self.places.logs, 0)
        if self.plan.start == "latest":
            start |= self.sent.starts(self.directory)
        return expected_shares(records, start, CONFIG, lifts, self.places.lanes)

    async def _damage(self) -> str | None:
        async with connect(self.redis.url) as client:
            store = LaneStore(client, self.namespace)
            for lane in range(self.places.lanes):
                try:
                    delta = await store.read(lane, "", None, 1)
                    if delta is None:
                        return f"lane {lane} is gone"
                    missing = await store.verify(lane, delta.head.token, delta.head.sequence)
                except (Damaged, Lost) as error:
                    return f"lane {lane}: {error!r}"
                if missing:
                    return f"lane {lane} lacks {missing}"
        return None

    def _check_workers_run(self) -> None:
        for slot in self.slots:
            if slot.number in self.active and not slot.running:
                raise RoundFailed(f"worker {slot.number} ended by itself\n{self.logs()}")

    async def _ask_workers(self, expected: Mapping[int, LaneResult]) -> list[str]:
        """Problems: workers that are not ready, and wrong counts served by the exporter."""
        working = [slot for slot in self.slots if slot.running]
        reasons = await asyncio.gather(*(unready(slot.port, READY_S) for slot in working))
        problems = [
            f"worker {slot.number} is not ready: {reason}"
            for slot, reason in zip(working, reasons, strict=True)
            if reason
        ]
        if self.plan.serves:
            expected_events = {
                kind: sum(of_lane.events[kind] for of_lane in expected.values())
                for kind in ("impressions", "feedback")
            }
            served = await wrong_events(self.slots[0].port, expected_events, READY_S)
            problems += [f"the exporter serves {served}"] if served else []
        return problems

    async def _missing_lanes(self) -> list[str]:
        """A problem if the number of lanes is missing: signs of life restore it if Redis lost
        it."""
        lanes, count = None, str(self.places.lanes)
        try:
            async with asyncio.timeout(2 * SIGN_OF_LIFE_EVERY_S):
                async with connect(self.redis.url) as client:
                    key = f"{self.namespace}:meta"
                    while (lanes := await client.hget(key, "lanes")) != count.encode():
                        await asyncio.sleep(POLL_EVERY_S)
        except TimeoutError:
            return [f"the namespace has {lanes!r} lanes, must be {count}"]
        return []

    async def _end_workers(self) -> list[str]:
        working = [slot for slot in self.slots if slot.running]
        await asyncio.gather(*(slot.leave() for slot in working))
        return [problem for slot in working if (problem := slot.exit_problem()) is not None]

    async def _field(self, name: str) -> dict[int, dict[str, int]]:
        """Lane → a field of its head, for the lanes that have one."""
        async with connect(self.redis.url) as client:
            store = LaneStore(client, self.namespace)
            lanes = range(self.places.lanes)
            raw = [await client.hget(f"{store.prefix(n)}head", name) for n in lanes]
        return {n: msgspec.json.decode(text) for n, text in enumerate(raw) if text is not None}

    async def _compare(
        self,
        records: Sequence[Record],
        expected: Mapping[int, LaneResult],
        result: RoundResult,
    ) -> None:
        files, starts = self._files(), await self._field("start")
        if self.sent is not None:
            records = await self.sent.records()
            result.sent = verdicts(records)
        for number, lane_result in sorted(expected.items()):
            stored, claimed = await self._load(number)
            first = next(differences(claimed.lane, lane_result, starts[number]), None)
            first = first or self._disturbance(stored, records, starts[number], files)
            result.first = result.first or first
            result.silent += first is not None  # its keys are all there: nobody would know
            lost, doubled = lost_and_doubled(claimed.lane, lane_result)
            result.lost += lost
            result.doubled += doubled
            result.problems += await self._stray_keys(claimed)

    def _files(self) -> Files:
        config = load(self._toml(self.slots[0], 0), {}, "chaos")
        library, classes = library_of(config), class_libraries(config)
        assert library is not None
        for each in (library, *classes.values()):
            each.refresh(())
        return Files(library.readable, {name: each.readable for name, each in classes.items()})

    def _disturbance(
        self,
        stored: StoredLane,
        records: Sequence[Record],
        start: Mapping[str, int],
        files: Files,
    ) -> Difference | None:
        """The first value that differs from that of a run without faults."""
        layouts = layouts_of(stored.blobs)
        assert layouts is not None, "a lane that was read has committed"
        config = load(self._toml(self.slots[0], 0, native=True), {}, "chaos")
        plan = under_layout(config, Layout(layouts.last.digest, layouts.last.text)).lane_plan
        read = [one for one in records if one.offset < stored.head.offsets.get(one.topic, 0)]
        calm = undisturbed(stored, read, start, plan, lane_decoder_of(config), files)
        return next(disturbances(stored, calm, plan), None)

    async def _stray_keys(self, claimed: ClaimedLane) -> list[str]:
        """Problems: keys of a lane that no owner would ever read or unlink."""
        async with connect(self.redis.url) as client:
            return await stray_keys(client, self.namespace, claimed)

    async def _load(self, lane: int) -> tuple[StoredLane, ClaimedLane]:
        async with connect(self.redis.url) as client:
            store = LaneStore(client, self.namespace)
            head = await store.claim(lane, f"reader-{random.random()}", {})
            await store.sweep()  # as the next owner does, if the former owner did not finish
            names, blobs = await store.load(lane, head, with_past_queries)
            stored = StoredLane(lane, head, names, blobs)
            read = {key: blobs[key] for key in every_key(head, list(blobs)) if key in blobs}
            return stored, rebuild(lane, self._layouts(), [*head.offsets], head, names, read)

    def _layouts(self) -> Layouts:
        """Read lanes under the first layout, whatever was in force last: what all layouts have must
        equal the oracle's."""
        config = load(self._toml(self.slots[0], 0), {}, "chaos")
        first = layout_of(config)

        def plan_of_stored(stored: StoredLayout) -> ProductPlan:
            return under_layout(config, Layout(stored.digest, stored.text)).lane_plan

        in_force = InForce(config.lane_plan, FOR_READERS, first.digest, first.text)
        return Layouts(in_force, plan_of_stored)

    @property
    def namespace(self) -> str:
        return namespace(load(self._toml(self.slots[0]), {}, "chaos"))

    def _toml(self, slot: Slot, variant: int | None = None, *, native: bool = False) -> str:
        """`native`: for records as `read_all` returns them."""
        if variant is None:
            variant = self.variants.get(slot.number, 0)
        registered = None if native else self.registered
        return configuration(
            variant,
            self.places.topics,
            None if registered is None else registered.server.url,
            bootstrap=f"127.0.0.1:{slot.kafka.port}",
            redis=self._redis_of(slot),
            name=self.name,
            lanes=self.plan.lanes,
            start=self.plan.start,
            session=SESSION_S,
            judgements=self.judgements.path,
            classes=self.classes.path,
        )

    def logs(self) -> str:
        """The last lines of the latest logs of all workers."""
        paths = [path for slot in self.slots for path in slot.logs[-2:]]
        return "\n".join(f"--- {path.name}\n{tail(path.read_text(), 15)}" for path in paths)
