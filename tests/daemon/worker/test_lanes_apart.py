"""Several lanes in one worker: a server that does not answer for one holds back that one alone."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from relevanced.daemon.config import LogEnd, Start
from relevanced.daemon.errors import RegistryUnavailable, Unavailable
from relevanced.daemon.events import Limits, LogRecord, decoder
from relevanced.daemon.judgements import judged_plan
from relevanced.daemon.plan import Plan
from relevanced.daemon.schemas import ID, SchemaId
from relevanced.daemon.storage import (
    NO_MARKS,
    AcceptedLog,
    Commit,
    Head,
    InForce,
    LaneDelta,
    Layouts,
    LogMarks,
    StallMark,
)
from relevanced.daemon.telemetry import Telemetry
from relevanced.daemon.worker import (
    Batch,
    Beginning,
    DeadLetter,
    Ownership,
    Pace,
    PartitionStatus,
    Ports,
    Process,
    StallWatch,
    Worker,
    taking_over,
)
from tests.builders import PLAN, START_MS, plan_with
from tests.fakes import MemoryLane, Verified

TOPIC = "events"
PATIENCE_S = 10.0
LANES = range(3)
STUCK = 1


def record(value: bytes, lane: int, offset: int) -> SimpleNamespace:
    return SimpleNamespace(
        topic=TOPIC, partition=lane, offset=offset, timestamp=START_MS, key=None, value=value
    )


def impression(number: int) -> bytes:
    event = {"type": "impression", "impression_id": number, "timestamp": START_MS, "items": ["a"]}
    return json.dumps(event).encode()


class Logs:
    """A source of several lanes without an end: every poll brings one more record of each."""

    def __init__(self) -> None:
        self.next: dict[int, int] = {}
        self.assigned = set(LANES)
        self.lost: set[int] = set()
        self.in_hand = 0
        self.first: dict[int, bytes] = {}
        """Lane → its first record, where that is not an impression."""
        self.refused: set[int] = set()

    async def poll(
        self, max_records: int, timeout_ms: int, lanes: Collection[int] | None = None
    ) -> Batch:
        await asyncio.sleep(0)
        wanted = [lane for lane in self.next if lanes is None or lane in lanes]
        found, offsets = {}, {}
        for lane in wanted:
            offset = self.next[lane]
            value = self.first.get(lane, impression(0)) if offset == 0 else impression(offset)
            found[lane] = {TOPIC: [record(value, lane, offset)]}
            self.next[lane] += 1
            offsets[lane] = {TOPIC: self.next[lane]}
        return Batch(found, offsets, frozenset())

    @asynccontextmanager
    async def batch_in_hand(self) -> AsyncIterator[None]:
        self.in_hand += 1
        try:
            yield
        finally:
            self.in_hand -= 1

    def lanes_to_open(self) -> frozenset[int]:
        return frozenset(self.assigned - self.next.keys())

    def lanes_lost(self) -> frozenset[int]:
        lost, self.lost = frozenset(self.lost), set()
        return lost

    def revoke(self, lane: int) -> None:
        self.assigned.discard(lane)
        self.next.pop(lane)
        self.lost.add(lane)

    async def topic_ids(self, lane: int) -> Mapping[str, str]:
        return {}

    async def verify(self, lane: int, offsets: Mapping[str, int], marks: LogMarks) -> None:
        pass

    async def open(
        self, lane: int, offsets: Mapping[str, int], marks: LogMarks = NO_MARKS
    ) -> Mapping[str, int]:
        while lane in self.refused:
            await asyncio.sleep(0)
        self.next[lane] = offsets[TOPIC]
        return {}

    async def close(self, lane: int) -> None:
        self.next.pop(lane, None)

    async def starting_offsets(self, lane: int, start: Start, now_ms: int) -> Mapping[str, int]:
        return {TOPIC: 0}

    async def first_times(self, lane: int) -> Mapping[str, int]:
        return {}

    async def group_offsets(self, lane: int) -> Mapping[str, int]:
        return {}

    async def still_member(self) -> bool:
        return True

    def hint(self, lane: int, offsets: Mapping[str, int]) -> None:
        pass

    @property
    def open_lanes(self) -> frozenset[int]:
        return frozenset(self.next)

    def status(self) -> Sequence[PartitionStatus]:
        return []

    obstacle = None


class Stores(Verified):
    """Lanes in memory. `stuck` contains the (call, lane) pairs that get neither an answer nor an
    error."""

    def __init__(self, *stuck: tuple[str, int]) -> None:
        self.lanes = {lane: MemoryLane() for lane in LANES}
        self.stuck = set(stuck)
        self.commits: list[int] = []

    def lane_of(self, lane: int) -> MemoryLane:
        return self.lanes[lane]

    async def _answer(self, call: str, lane: int) -> None:
        while (call, lane) in self.stuck:
            await asyncio.sleep(0)

    async def claim(
        self, lane: int, token: str, start: Mapping[str, int], logs: LogMarks = NO_MARKS
    ) -> Head:
        await self._answer("claim", lane)
        return self.lanes[lane].claim(token, json.dumps(start).encode(), logs)

    async def accepted_log(self, lane: int, topic: str) -> AcceptedLog | None:
        return None

    async def load(
        self, lane: int, head: Head, keys_of: Callable[[Head, Sequence[str]], list[str]]
    ) -> tuple[dict[str, bytes], dict[str, bytes | None]]:
        stored = self.lanes[lane]
        return stored.names, dict(stored.load(head, keys_of))

    async def commit(self, commit: Commit) -> Any:
        await self._answer("commit", commit.lane)
        self.commits.append(commit.lane)
        return self.lanes[commit.lane].commit(commit)

    async def touch(self, lane: int, token: str, sequence: int, idle_ms: int | None) -> bool:
        await self._answer("touch", lane)
        head = self.lanes[lane].fields
        return (head["token"], head["sequence"]) == (token.encode(), str(sequence).encode())

    async def read(
        self, lane: int, token: str, sequence: int | None, names: int
    ) -> LaneDelta | None:
        return None

    def offset(self, lane: int) -> int:
        return int(json.loads(self.lanes[lane].fields.get("offsets", b'{"events": 0}'))[TOPIC])

    def accepted(self, lane: int) -> int:
        counts = json.loads(self.lanes[lane].fields.get("counts", b"{}"))
        return int(counts.get("impression_outcomes", {}).get("accepted", 0))


class Letters:
    """A dead-letter topic that is unavailable while `away` is set."""

    def __init__(self) -> None:
        self.away = True
        self.taken: list[DeadLetter] = []

    async def publish(self, letters: Sequence[DeadLetter]) -> None:
        await asyncio.sleep(0)
        if self.away:
            raise Unavailable("dead-letter topic: away")
        self.taken += letters


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between tries, and for lanes that do not answer, pass at once."""
    monkeypatch.setattr("relevanced.daemon.worker.committer.pause_s", lambda failures, jitter: 0.0)
    monkeypatch.setattr("relevanced.daemon.worker.ownership.pause_s", lambda failures, jitter: 0.0)
    name = "relevanced.daemon.worker.schema_waits.pause_s"
    monkeypatch.setattr(name, lambda failures, jitter: 0.0)
    monkeypatch.setattr("relevanced.daemon.worker.worker.LAST_TRY_S", 0.05)


class Shelf:
    """Where schemas come from. Records name the schema of their `"schema"`, if they have one."""

    def __init__(self) -> None:
        self.away = True
        self.never_answers = False
        self.known: set[SchemaId] = set()
        self.asked: list[set[SchemaId]] = []

    def unknown(self, records: Mapping[str, Sequence[LogRecord]]) -> set[SchemaId]:
        values = [json.loads(record.value or b"") for record in records[TOPIC]]
        named = {SchemaId(ID, value["schema"]) for value in values if "schema" in value}
        return named - self.known

    async def fetch(self, wanted: set[SchemaId]) -> None:
        self.asked.append(set(wanted))
        await asyncio.sleep(0)
        while self.never_answers:
            await asyncio.sleep(0)
        if self.away:
            raise RegistryUnavailable("registry https://sr:8081 does not answer", "refused")
        self.known |= wanted
        wanted.clear()


@asynccontextmanager
async def working(
    logs: Logs,
    stores: Stores,
    letters: Letters | None = None,
    schemas: Shelf | None = None,
    stalls: StallWatch | None = None,
    plan: Plan = PLAN,
) -> AsyncIterator[tuple[Worker, Ownership]]:
    stop, telemetry = asyncio.Event(), Telemetry("test")
    ports = Ports(logs, stores, letters, schemas)
    process = Process(telemetry, lambda: 0.0, stop)
    ownership = Ownership(ports, process, Layouts(InForce(plan)), Beginning(LogEnd.EARLIEST, 3))
    pace, decode = Pace(max_records=1, commit_interval_s=0.0), decoder("native", Limits())
    worker = Worker(ports, process, ownership, decode, pace, stalls=stalls)
    task = asyncio.create_task(worker.run())
    try:
        yield worker, ownership
    finally:
        stop.set()
        await task
    assert logs.in_hand == 0


async def happens(met: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not met():
            await asyncio.sleep(0)


def others_flow(stores: Stores) -> Callable[[], bool]:
    """A function: whether the other lanes have moved on by twenty commits since now."""
    begin = {lane: stores.offset(lane) for lane in LANES if lane != STUCK}
    return lambda: all(stores.offset(lane) >= at + 20 for lane, at in begin.items())


@pytest.mark.parametrize("call", ["claim", "commit"])
async def test_a_shard_that_does_not_answer_holds_back_its_lane_alone(call: str) -> None:
    logs, stores = Logs(), Stores((call, STUCK))
    async with working(logs, stores):
        await happens(others_flow(stores))
        assert stores.offset(STUCK) == 0
        stores.stuck.clear()
        await happens(lambda: stores.offset(STUCK) >= 20)
    for lane in LANES:
        assert stores.accepted(lane) == stores.offset(lane), "each record once"


async def test_a_partition_without_a_leader_holds_back_its_lane_alone() -> None:
    logs, stores = Logs(), Stores()
    logs.refused.add(STUCK)
    async with working(logs, stores):
        await happens(others_flow(stores))
        assert stores.offset(STUCK) == 0
        logs.refused.clear()
        await happens(lambda: stores.offset(STUCK) >= 20)


async def test_dead_letters_that_wait_hold_back_their_lane_alone() -> None:
    logs, stores, letters = Logs(), Stores(), Letters()
    logs.first[STUCK] = b"{"
    async with working(logs, stores, letters) as (worker, _):
        await happens(others_flow(stores))
        assert stores.offset(STUCK) == 0
        assert worker.waiting_for == {"dead letters, lane 1": "dead-letter topic: away"}
        letters.away = False
        await happens(lambda: stores.offset(STUCK) >= 20)
        assert worker.waiting_for == {}
    assert len(letters.taken) == 1
    assert stores.accepted(STUCK) == stores.offset(STUCK) - 1


async def test_a_lane_that_is_revoked_while_it_waits_is_dropped_and_others_flow() -> None:
    logs, stores = Logs(), Stores(("commit", STUCK))
    async with working(logs, stores) as (worker, ownership):
        await happens(lambda: logs.next.get(STUCK) == 1)
        await happens(others_flow(stores))
        logs.revoke(STUCK)
        await happens(lambda: STUCK not in ownership.lanes)
        await happens(lambda: logs.in_hand <= 2)
        stores.stuck.clear()
        logs.assigned.add(STUCK)
        await happens(lambda: stores.offset(STUCK) >= 20)
    assert stores.accepted(STUCK) == stores.offset(STUCK), "what was dropped is read again"


def naming(schema: int) -> bytes:
    """The first record of a lane, which names a schema."""
    return json.dumps({**json.loads(impression(0)), "schema": schema}).encode()


async def test_a_registry_that_is_away_holds_back_lanes_of_unknown_schemas_alone() -> None:
    logs, stores, shelf = Logs(), Stores(), Shelf()
    logs.first[STUCK] = naming(12)
    async with working(logs, stores, schemas=shelf) as (worker, _):
        await happens(others_flow(stores))
        assert stores.offset(STUCK) == 0 and logs.next[STUCK] == 1
        assert stores.accepted(STUCK) == 0, "nothing of the batch is applied before"
        waits = {"registry https://sr:8081 does not answer": "lane 1 waits for schema 12 (refused)"}
        assert worker.waiting_for == waits
        shelf.away = False
        await happens(lambda: stores.offset(STUCK) >= 20)
        assert worker.waiting_for == {}
    assert stores.accepted(STUCK) == stores.offset(STUCK), "each record once"
    assert shelf.asked[-1] == {SchemaId(ID, 12)}
    assert all(asked == {SchemaId(ID, 12)} for asked in shelf.asked), "known ones are not asked for"


async def test_a_lane_that_is_revoked_while_it_waits_for_a_schema_is_dropped() -> None:
    logs, stores, shelf = Logs(), Stores(), Shelf()
    logs.first[STUCK] = naming(12)
    async with working(logs, stores, schemas=shelf) as (worker, ownership):
        await happens(lambda: worker.waiting_for)
        logs.revoke(STUCK)
        await happens(lambda: STUCK not in ownership.lanes and not worker.waiting_for)
        await happens(others_flow(stores))
        shelf.away = False
        logs.assigned.add(STUCK)
        await happens(lambda: stores.offset(STUCK) >= 20)
    assert stores.accepted(STUCK) == stores.offset(STUCK), "what was dropped is read again"


async def test_a_lane_that_is_revoked_while_it_waits_for_a_schema_waits_for_no_file() -> None:
    logs, stores = Logs(), Stores()
    logs.first[STUCK] = naming(12)
    plan = plan_with(judged=judged_plan(["P@5"], relevant_from=1, max_grade=3))
    async with working(logs, stores, schemas=Shelf(), plan=plan) as (worker, ownership):
        await happens(lambda: len(worker.waiting_for) == 2)
        logs.revoke(STUCK)
        await happens(lambda: STUCK not in ownership.lanes)
        await happens(lambda: [*worker.waiting_for] == ["judgements"])
        assert f"lane {STUCK} waits" not in worker.waiting_for["judgements"]


@pytest.mark.parametrize("never_answers", [False, True])
async def test_a_stop_ends_the_wait_for_a_schema_at_once(
    monkeypatch: pytest.MonkeyPatch, never_answers: bool
) -> None:
    monkeypatch.setattr("relevanced.daemon.worker.worker.LAST_TRY_S", PATIENCE_S)
    logs, stores, shelf = Logs(), Stores(), Shelf()
    shelf.never_answers = never_answers
    logs.first = {lane: naming(12) for lane in LANES}
    async with asyncio.timeout(PATIENCE_S / 2):
        async with working(logs, stores, schemas=shelf):
            await happens(lambda: len(shelf.asked) >= len(LANES))
    assert [stores.offset(lane) + stores.accepted(lane) for lane in LANES] == [0, 0, 0]


async def test_a_lane_that_waits_for_a_schema_is_not_blamed_for_it() -> None:
    marks: list[int] = []

    async def mark(lane: int, token: str, sequence: int, mark: StallMark) -> bool:
        marks.append(lane)
        return True

    logs, stores, shelf = Logs(), Stores(), Shelf()
    logs.first[STUCK] = naming(12)
    stalls = StallWatch(mark, limit_s=0.5)
    async with working(logs, stores, schemas=shelf, stalls=stalls):
        await happens(lambda: len(shelf.asked) >= 5)
        loop = asyncio.get_running_loop()
        began_s, spent_s = loop.time(), time.thread_time()
        await happens(lambda: time.thread_time() - spent_s > 1.0 and loop.time() - began_s > 1.0)
        assert stores.offset(STUCK) == 0
    assert marks == []


async def test_a_lane_that_is_revoked_while_it_is_opened_is_left() -> None:
    logs, stores = Logs(), Stores(("claim", STUCK))
    async with working(logs, stores) as (_, ownership):
        await happens(others_flow(stores))
        logs.assigned.discard(STUCK)
        await happens(lambda: not ownership.is_opening)
        stores.stuck.clear()
        await happens(others_flow(stores))
    assert "token" not in stores.lanes[STUCK].fields


async def test_a_touch_that_waits_holds_back_its_lane_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("relevanced.daemon.worker.worker.TOUCH_EVERY_S", -1.0)
    logs, stores = Logs(), Stores(("touch", STUCK))
    async with working(logs, stores) as (_, ownership):
        await happens(lambda: ownership.lanes.keys() == set(LANES))
        logs.next[STUCK] = 10**9  # nothing to read: it is idle, and compares
        await happens(others_flow(stores))


async def test_commits_of_one_poll_are_sent_together() -> None:
    logs, stores = Logs(), Stores(*(("commit", lane) for lane in LANES))
    async with working(logs, stores):
        await happens(lambda: logs.in_hand >= 3)
        assert [stores.offset(lane) + stores.accepted(lane) for lane in LANES] == [0, 0, 0]
        stores.stuck.clear()
        await happens(lambda: set(stores.commits) == set(LANES))


async def test_state_is_rebuilt_outside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    rebuild = taking_over.rebuild

    def noted(*arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return rebuild(*arguments)

    monkeypatch.setattr(taking_over, "rebuild", noted)
    logs, stores = Logs(), Stores()
    async with working(logs, stores):
        await happens(lambda: all(stores.offset(lane) for lane in LANES))
    assert len(threads) == 3 and threading.main_thread() not in threads


async def test_an_unforeseen_exception_in_one_lane_ends_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs, stores, met = Logs(), Stores(), asyncio.Event()

    async def broken(_: Commit) -> None:
        met.set()
        raise TypeError("nobody foresaw this")

    monkeypatch.setattr(stores, "commit", broken)
    with pytest.raises(TypeError, match="nobody foresaw this"):
        async with working(logs, stores):
            await met.wait()
