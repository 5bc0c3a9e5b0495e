"""The worker over a source and a store that fail on demand: what each answer leads to."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from relevanced.daemon.config import LogEnd, Start
from relevanced.daemon.errors import Lost, Unavailable
from relevanced.daemon.events import Limits, decoder
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.storage import (
    NO_MARKS,
    AcceptedLog,
    Commit,
    Head,
    InForce,
    LaneDelta,
    Layouts,
    LogMark,
    LogMarks,
    StallMark,
    head,
    head_of,
    layouts_of,
    pack_mark,
    rebuild,
)
from relevanced.daemon.telemetry import Telemetry
from relevanced.daemon.worker import (
    Batch,
    Beginning,
    DeadLetter,
    LogReplaced,
    MemoryBound,
    OffsetBeyondEnd,
    Ownership,
    Pace,
    Ports,
    Process,
    Worker,
)
from relevanced.metrics import parse
from tests.builders import PLAN, START_MS
from tests.fakes import MemoryLane, Verified

TOPIC = "events"
PATIENCE_S = 10.0


class Log:
    """A source of one lane: a list of records, read from wherever the lane was opened."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self.values = list(values)
        self.next: int | None = None
        self.opened: list[int] = []
        self.member = True
        self.membership_checks = 0
        self.hinted: list[int] = []
        self.beginning = 0
        self.first_ms = 0
        self.in_group = 0
        self.topic_id: str | None = None
        self.checks = 0
        self.away = False
        self.polls = 0
        """Since the lane was opened."""

    async def poll(
        self, max_records: int, timeout_ms: int, lanes: Collection[int] | None = None
    ) -> Batch:
        await asyncio.sleep(0)
        self.polls += self.next is not None
        if self.next is None or (lanes is not None and 0 not in lanes):
            return Batch({}, {}, frozenset())
        values, first = self.values[self.next :], self.next
        records = [record(value, first + n) for n, value in enumerate(values)]
        self.next = len(self.values)
        if not records:
            return Batch({}, {}, frozenset({0}))
        return Batch({0: {TOPIC: records}}, {0: {TOPIC: self.next}}, frozenset({0}))

    @asynccontextmanager
    async def batch_in_hand(self) -> AsyncIterator[None]:
        yield

    def lanes_to_open(self) -> frozenset[int]:
        return frozenset({0}) - self.open_lanes

    def lanes_lost(self) -> frozenset[int]:
        return frozenset()

    async def topic_ids(self, lane: int) -> Mapping[str, str]:
        return {} if self.topic_id is None else {TOPIC: self.topic_id}

    async def verify(self, lane: int, offsets: Mapping[str, int], marks: LogMarks) -> None:
        mark, at = marks.get(TOPIC, LogMark()), offsets[TOPIC]
        self.checks += 1
        if mark.topic_id != self.topic_id and None not in (mark.topic_id, self.topic_id):
            raise LogReplaced(TOPIC, lane, at, str(mark.topic_id), self.topic_id)
        if at > len(self.values):
            raise OffsetBeyondEnd(TOPIC, lane, at, len(self.values), self.topic_id)

    async def open(
        self, lane: int, offsets: Mapping[str, int], marks: LogMarks = NO_MARKS
    ) -> Mapping[str, int]:
        if self.away:
            raise Unavailable("Kafka: away")
        await self.verify(lane, offsets, marks)
        self.next = max(offsets[TOPIC], self.beginning)
        self.opened.append(self.next)
        gone = self.next - offsets[TOPIC]
        return {TOPIC: gone} if gone else {}

    async def close(self, lane: int) -> None:
        self.next = None

    async def starting_offsets(self, lane: int, start: Start, now_ms: int) -> Mapping[str, int]:
        return {TOPIC: self.beginning}

    async def first_times(self, lane: int) -> Mapping[str, int]:
        return {TOPIC: self.first_ms}

    async def group_offsets(self, lane: int) -> Mapping[str, int]:
        return {TOPIC: self.in_group} if self.in_group else {}

    async def still_member(self) -> bool:
        self.membership_checks += 1
        return self.member

    def hint(self, lane: int, offsets: Mapping[str, int]) -> None:
        self.hinted.append(offsets[TOPIC])
        self.in_group = offsets[TOPIC]

    @property
    def open_lanes(self) -> frozenset[int]:
        return frozenset() if self.next is None else frozenset({0})

    def status(self) -> Sequence[Any]:
        return []

    obstacle = None


class Memory(Verified):
    """A store of one lane. Each commit meets the next of `faults`, before or after it applies."""

    def __init__(self, *faults: str) -> None:
        self.lane = MemoryLane()
        self.faults = list(faults)
        self.sent: list[Commit] = []
        self.claims = 0
        self.accepted: AcceptedLog | None = None

    def lane_of(self, lane: int) -> MemoryLane:
        return self.lane

    async def claim(
        self, lane: int, token: str, start: Mapping[str, int], logs: LogMarks = NO_MARKS
    ) -> Head:
        self.claims += 1
        return self.lane.claim(token, msgspec.json.encode(start), logs)

    async def accepted_log(self, lane: int, topic: str) -> AcceptedLog | None:
        return self.accepted

    async def load(
        self, lane: int, head: Head, keys_of: Callable[[Head, Sequence[str]], list[str]]
    ) -> tuple[dict[str, bytes], dict[str, bytes | None]]:
        if self.faults[:1] == ["claimed by another"]:
            self.faults.pop(0)
            raise Lost
        return self.lane.names, dict(self.lane.load(head, keys_of))

    async def commit(self, commit: Commit) -> Any:
        self.sent.append(commit)
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "away":
            raise Unavailable("Redis: away")
        if fault == "another owner":
            self.lane.claim("somebody else", b"{}")
        answer = self.lane.commit(commit)
        if fault == "answer lost":
            raise Unavailable("Redis: answer lost")
        return answer

    async def touch(self, lane: int, token: str, sequence: int, idle_ms: int | None) -> bool:
        return self.lane.fields.get("token") == token.encode()

    async def read(
        self, lane: int, token: str, sequence: int | None, names: int
    ) -> LaneDelta | None:
        return None

    @property
    def offset(self) -> int:
        return int(json.loads(self.lane.fields.get("offsets", b'{"events": 0}'))[TOPIC])


class Letters:
    """Takes dead letters, after it failed so often."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.taken: list[DeadLetter] = []

    async def publish(self, letters: Sequence[DeadLetter]) -> None:
        if self.failures:
            self.failures -= 1
            raise Unavailable("dead-letter topic: away")
        self.taken += letters


def record(value: bytes, offset: int) -> SimpleNamespace:
    return SimpleNamespace(
        topic=TOPIC, partition=0, offset=offset, timestamp=START_MS, key=None, value=value
    )


def impression(number: int, at_ms: int = START_MS) -> bytes:
    event = {"type": "impression", "impression_id": number, "timestamp": at_ms, "items": ["a"]}
    return json.dumps(event).encode()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between tries pass at once."""
    monkeypatch.setattr("relevanced.daemon.worker.committer.pause_s", lambda failures, jitter: 0.0)
    monkeypatch.setattr("relevanced.daemon.worker.ownership.pause_s", lambda failures, jitter: 0.0)


async def work_until(
    done: Callable[[], object] | None,
    log: Log,
    store: Memory,
    letters: Letters | None = None,
    memory: MemoryBound | None = None,
    telemetry: Telemetry | None = None,
    layouts: Layouts | None = None,
) -> Ownership:
    """Run a worker until `done`, or, without it, until a lane could not be opened; it then stops in
    order."""
    stop, telemetry = asyncio.Event(), telemetry or Telemetry("test")
    ports, process = Ports(log, store, letters), Process(telemetry, lambda: 0.0, stop)
    layouts = layouts or Layouts(InForce(PLAN))
    ownership = Ownership(ports, process, layouts, Beginning(LogEnd.EARLIEST, 1))
    decode = decoder("native", Limits())
    pace = Pace(max_records=1000, commit_interval_s=0.0)
    worker = Worker(ports, process, ownership, decode, pace, memory)
    working = asyncio.create_task(worker.run())
    async with asyncio.timeout(PATIENCE_S):
        while not (ownership.not_open if done is None else done()):
            await asyncio.sleep(0)
            assert not working.done(), working.result()
        stop.set()
        await working
    assert worker.waiting_for == {}
    return ownership


def accepted(store: Memory) -> int:
    counts = json.loads(store.lane.fields["counts"])
    return int(counts["impression_outcomes"]["accepted"])


@pytest.mark.parametrize(
    ("faults", "claims"),
    [
        ((), 1),
        (("away", "away"), 1),
        (("answer lost",), 1),
        (("another owner",), 2),
        (("another owner", "another owner"), 3),
        (("claimed by another",), 2),
    ],
    ids=lambda value: "-".join(value) or "none" if isinstance(value, tuple) else None,
)
async def test_every_record_counts_once_whatever_a_commit_meets(
    faults: tuple[str, ...], claims: int
) -> None:
    log, store = Log([impression(n) for n in range(5)]), Memory(*faults)
    ownership = await work_until(lambda: store.offset == 5, log, store)
    assert (accepted(store), store.claims) == (5, claims)
    assert ownership.not_open == {}


async def test_at_the_memory_bound_nothing_is_read_until_there_is_room() -> None:
    log, store, resident, times_full = Log([impression(1)]), Memory(), 50, 0
    memory = MemoryBound(100, lambda: resident)

    def has_read_both() -> bool:
        nonlocal resident, times_full
        if store.offset == 1 and not times_full:
            resident = 200
        if memory.reason:
            log.values[1:] = [impression(2)]
            times_full += 1
            assert store.offset == 1
        if times_full == 20:
            resident = 60
        return store.offset == 2

    await work_until(has_read_both, log, store, memory=memory)
    assert (times_full >= 20, accepted(store), store.claims) == (True, 2, 1)


async def test_a_commit_is_sent_again_unchanged() -> None:
    log, store = Log([impression(1)]), Memory("away", "answer lost", "away")
    await work_until(lambda: log.hinted, log, store)
    assert len(store.sent) == 4
    assert all(sent is store.sent[0] for sent in store.sent)


async def test_a_lost_lane_is_claimed_only_after_the_group_confirms() -> None:
    log, store = Log([impression(1)]), Memory("another owner")
    log.member = False
    await work_until(lambda: log.membership_checks > 5, log, store)
    assert store.claims == 1


async def test_an_idle_owner_finds_out_that_it_was_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("relevanced.daemon.worker.worker.TOUCH_EVERY_S", -1.0)
    log, store = Log([impression(1)]), Memory()
    replaced = False

    def done() -> bool:
        nonlocal replaced
        if store.offset == 1 and not replaced:
            replaced = True
            store.lane.claim("somebody else", b"{}")
        return store.claims == 2 and log.next == 1

    await work_until(done, log, store)
    assert accepted(store) == 1


async def test_dead_letters_are_acknowledged_before_the_commit_that_passes_them() -> None:
    log, store, letters = Log([b"{", impression(1)]), Memory(), Letters(failures=2)

    def done() -> bool:
        assert len(letters.taken) == 1 or not store.sent
        return store.offset == 2

    await work_until(done, log, store, letters)
    assert [letter.reason for letter in letters.taken] == ["not_json"]


async def test_a_lane_beyond_the_end_of_its_log_is_stopped() -> None:
    log, store = Log([]), Memory()
    store.lane.claim("before", b'{"events": 7}')
    ownership = await work_until(None, log, store)
    assert "beyond the end of the log" in ownership.not_open[0]
    assert (store.offset, store.claims, log.next) == (7, 1, None)


def lose(store: Memory, part: str) -> None:
    """Remove a part of the stored lane."""
    lane = store.lane
    if part == "head":
        lane.fields = {}
    elif part in ("state", "start"):
        del lane.fields[part]
    elif part in ("names", "listed"):
        getattr(lane, part).clear()
    else:
        del lane.blobs[next(key for key in lane.blobs if key.startswith(part))]


def but_blocks(store: Memory) -> dict[str, bytes]:
    """What is stored of the lane without its blocks, whose keys have the number of their commit."""
    return {k: data for k, data in store.lane.blobs.items() if not k.startswith("open:")}


PARTS = ("head", "state", "names", "listed", "rows:", "open:", "admitted")


@pytest.mark.parametrize("part", PARTS)
async def test_a_damaged_lane_begins_anew_where_the_log_has_all_of_it(part: str) -> None:
    log, store = Log([impression(1), impression(2)]), Memory()
    await work_until(lambda: store.offset == 2, log, store)
    before = but_blocks(store)
    lose(store, part)
    log.next = None
    await work_until(lambda: log.opened[1:] and store.offset == 2, log, store)
    assert accepted(store) == 2 and but_blocks(store) == before


@pytest.mark.parametrize("faults", [(), ("away", "away"), ("another owner",)], ids="-".join)
@pytest.mark.parametrize("part", PARTS)
async def test_a_damaged_lane_stops_where_the_log_lacks_a_part_of_it(
    part: str, faults: Sequence[str]
) -> None:
    """The worker goes on, and the lane begins anew once a person allows it, whatever its first
    commit meets."""
    log, store = Log([impression(1), impression(2)]), Memory()
    await work_until(lambda: store.offset == 2, log, store)
    lose(store, part)
    log.next, log.beginning, log.first_ms = None, 1, START_MS + 60_000
    ownership = await work_until(None, log, store)
    assert "lane 0 is damaged" in ownership.not_open[0]
    assert "relevanced lane begin-anew" in ownership.not_open[0]
    store.permitted, store.faults = True, [*faults]
    await work_until(
        lambda: log.opened[1:] and store.offset == 2 and accepted(store) == 1,
        log,
        store,
    )
    gaps = json.loads(store.lane.fields["counts"]).get("gap_records", {})
    assert gaps == {TOPIC: 1}
    layouts = layouts_of(store.lane.blobs)
    assert layouts is not None and layouts.since.hours == START_MS + HOUR_MS, "the rest is lost"
    assert set(layouts.since.windows.values()) == {START_MS + 60_000}


def says_since(store: Memory) -> tuple[int | None, set[int | None]]:
    """From when on the stored lane says that its hours, and its windows, have all."""
    layouts = layouts_of(store.lane.blobs)
    assert layouts is not None
    return layouts.since.hours, {*layouts.since.windows.values()}


async def test_what_a_lane_lost_is_known_to_its_next_owner_before_its_first_commit() -> None:
    """The process that began it anew ends before."""
    log, store = Log([impression(1), impression(2)]), Memory()
    await work_until(lambda: store.offset == 2, log, store)
    lose(store, "rows:")
    log.next, log.beginning, log.first_ms = None, 1, START_MS + 60_000
    store.permitted, log.away = True, True
    await work_until(lambda: store.lane.fields["sequence"] == b"0", log, store)
    store.permitted, log.away = False, False
    await work_until(lambda: log.opened[1:] and store.offset == 2, log, store)
    assert says_since(store) == (START_MS + HOUR_MS, {START_MS + 60_000})


async def test_what_a_lane_lost_stays_lost_where_it_begins_anew_again() -> None:
    """Its log has all since it began the last time, so it does so by itself."""
    log, store = Log([impression(1), impression(2)]), Memory()
    log.topic_id = "old"
    await work_until(lambda: store.offset == 2, log, store)
    log.next, log.topic_id, log.values = None, "new", [impression(3)]
    log.first_ms, store.accepted = START_MS + 60_000, AcceptedLog("new", 2)
    await work_until(lambda: store.offset == 1, log, store)
    store.permitted = True
    for _ in range(3):
        lose(store, "rows:")
        log.next, began = None, len(log.opened)
        await work_until(lambda: log.opened[began:] and store.offset == 1, log, store)
        assert says_since(store) == (START_MS + HOUR_MS, {START_MS + 60_000})
        store.permitted = False


@pytest.mark.parametrize("part", ["state", "rows:"])
async def test_a_damaged_lane_of_which_a_log_was_replaced_stops(part: str) -> None:
    """What it counted of the other log is in no log any more."""
    log, store = Log([impression(1), impression(2)]), Memory()
    log.topic_id = "old"
    await work_until(lambda: store.offset == 2, log, store)
    log.next, log.topic_id, log.values = None, "new", [impression(3)]
    store.accepted = AcceptedLog("new", 2)
    await work_until(lambda: store.offset == 1, log, store)
    lose(store, part)
    log.next = None
    ownership = await work_until(None, log, store)
    assert "lane 0 is damaged" in ownership.not_open[0]


async def test_another_layout_that_meets_another_log_keeps_each_sum_under_its_metric() -> None:
    """The lane is stopped for its log in the commit that takes it to the layout."""
    plan = replace(PLAN, metrics=(parse("P@1"), parse("P@2")))
    other = Layouts(InForce(plan, 1, "other"), lambda stored: plan if stored.digest else PLAN)
    log, store = Log([impression(1), impression(2, START_MS + 200_000)]), Memory()
    log.topic_id = "old"
    await work_until(lambda: store.offset == 2, log, store)
    log.next, log.topic_id, log.values = None, "new", []
    ownership = await work_until(None, log, store, layouts=other)
    assert ownership.not_open
    head, lane = head_of(store.lane.fields), store.lane
    held = rebuild(0, other, [TOPIC], head, lane.names, lane.load(head)).lane
    settled = held.totals.pages[0][0]
    assert [int(settled[plan.metric_column(metric)]) for metric in range(2)] == [0, 1]


async def test_the_mark_of_a_batch_that_took_too_long_goes_with_its_log() -> None:
    """Offsets of the new log are others: its record at this offset is innocent."""
    log, store = Log([impression(1), impression(2)]), Memory()
    log.topic_id = "new"
    stored_lane(store, "old", 3)
    store.lane.fields["stall"] = pack_mark(StallMark(1, 2, {TOPIC: 9}, (TOPIC, 1)))
    store.accepted = AcceptedLog("new", 3)
    await work_until(lambda: store.offset == 2, log, store)
    assert accepted(store) == 2
    assert head_of(store.lane.fields).stall is None


@pytest.mark.parametrize("part", ["names", "listed"])
async def test_an_owner_whose_commit_finds_damage_writes_the_lane_again(part: str) -> None:
    log, store = Log([impression(1)]), Memory()

    def done() -> bool:
        if len(log.values) == 1 and store.offset == 1:
            lose(store, part)
            log.values.append(impression(2))
        return store.offset == 2

    await work_until(done, log, store)
    assert accepted(store) == 2 and store.claims == 1 and store.lane.is_counted()
    assert store.sent[-1].kept == []


@pytest.mark.parametrize("part", ["names", "listed", "rows:", "open:", "admitted"])
async def test_an_owner_finds_missing_keys_by_itself(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relevanced.daemon.worker.memory_repair.VERIFY_EVERY_S", 0.0)
    monkeypatch.setattr("relevanced.daemon.worker.worker.TOUCH_EVERY_S", -1.0)
    log, store = Log([impression(1)]), Memory()
    lost = False

    def done() -> bool:
        nonlocal lost
        if store.offset == 1 and not lost:
            lost = True
            lose(store, part)
        return lost and store.sent[-1].kept is not None

    await work_until(done, log, store)
    head = store.lane.fields
    assert store.lane.verify(head["token"].decode(), int(head["sequence"])) == []
    assert accepted(store) == 1 and store.claims == 1


async def test_dead_letters_are_retried_as_long_as_it_takes() -> None:
    log, store, letters = Log([b"{"]), Memory(), Letters(failures=30)
    await work_until(lambda: store.offset == 1, log, store, letters)
    assert (store.claims, len(letters.taken)) == (1, 1)


class SlowLetters(Letters):
    """Takes dead letters so long after they were sent."""

    def __init__(self, takes_s: float) -> None:
        super().__init__()
        self.takes_s = takes_s
        self.times_sent = 0

    async def publish(self, letters: Sequence[DeadLetter]) -> None:
        self.times_sent += 1
        await asyncio.sleep(self.takes_s)
        await super().publish(letters)


async def test_dead_letters_on_their_way_are_waited_for_and_not_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A topic that takes longer than a rebalance waits would get them for ever."""
    monkeypatch.setattr("relevanced.daemon.worker.committer.LETTERS_TIMEOUT_S", 0.01)
    log, store, letters = Log([b"{"]), Memory(), SlowLetters(0.1)
    await work_until(lambda: store.offset == 1, log, store, letters)
    assert (letters.times_sent, len(letters.taken)) == (1, 1)


async def test_dead_letters_on_their_way_end_with_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("relevanced.daemon.worker.committer.LETTERS_TIMEOUT_S", 0.01)
    monkeypatch.setattr("relevanced.daemon.worker.worker.LAST_TRY_S", 0.05)
    log, store, letters = Log([b"{"]), Memory(), SlowLetters(3600.0)
    await work_until(lambda: letters.times_sent, log, store, letters)
    assert (store.offset, letters.taken) == (0, [])


async def test_a_stop_ends_a_long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit of the batch in hand is tried once more."""
    monkeypatch.setattr(
        "relevanced.daemon.worker.committer.pause_s", lambda failures, jitter: 3600.0
    )
    log, store = Log([impression(1)]), Memory("away")
    await work_until(lambda: len(store.sent) == 1, log, store)
    assert store.offset == 1


async def test_a_stop_waits_only_so_long_for_a_store_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("relevanced.daemon.worker.worker.LAST_TRY_S", 0.05)
    log, store = Log([impression(1)]), Memory(*["away"] * 1_000_000)
    await work_until(lambda: len(store.sent) > 3, log, store)
    assert store.offset == 0


def lost_lanes(telemetry: Telemetry) -> float:
    """How many lanes are counted as lost whole."""
    (family,) = telemetry.lane_state_lost.labels("kafka_start").collect()
    return family.samples[0].value


async def test_a_lane_that_goes_on_tells_the_group_its_offsets_without_a_record() -> None:
    """A rebalance, or the end of the former owner, may have come before it told them."""
    log, store = Log([impression(1), impression(2)]), Memory()
    await work_until(lambda: store.offset == 2, log, store)
    log.next, log.hinted, log.in_group, telemetry = None, [], 0, Telemetry("test")
    await work_until(lambda: log.hinted, log, store, telemetry=telemetry)
    assert log.hinted == [2] and lost_lanes(telemetry) == 0


@pytest.mark.parametrize("beginning", [0, 7], ids=["empty topic", "behind older records"])
async def test_a_lane_without_a_commit_tells_the_group_nothing_and_is_not_taken_for_lost(
    beginning: int,
) -> None:
    """Also where it is opened again before its first commit, and where its partition is new."""
    log, store = Log([impression(n) for n in range(beginning)]), Memory()
    log.beginning = beginning
    for opened in (1, 2, 3):
        log.next, telemetry = None, Telemetry("test")
        ownership = await work_until(
            lambda opened=opened: len(log.opened) == opened, log, store, telemetry=telemetry
        )
        assert lost_lanes(telemetry) == 0 and ownership.not_open == {}
    assert (log.hinted, store.offset) == ([], beginning)


async def test_a_loss_is_announced_once_though_no_record_follows_and_the_process_ends() -> None:
    """Else each start on a quiet topic, and each rebalance, would announce it as another one."""
    log, store = Log([impression(1), impression(2)]), Memory()
    await work_until(lambda: store.offset == 2, log, store)
    announced = []
    for _ in range(2):  # the second one is another loss
        store.lane, log.beginning = MemoryLane(), 2
        for _ in range(3):
            log.next, telemetry, polls = None, Telemetry("test"), log.polls
            await work_until(
                lambda before=polls: log.polls > before + 5, log, store, telemetry=telemetry
            )
            announced.append(lost_lanes(telemetry))
    assert announced == [1, 0, 0] * 2
    assert (store.offset, log.in_group) == (2, 2)


def begun_anew(telemetry: Telemetry) -> float:
    """How many damaged lanes are counted that began anew."""
    return telemetry.lanes_begun_anew.collect()[0].samples[0].value


@pytest.mark.parametrize("part", ["head", "rows:"])
async def test_lane_that_begins_anew_is_no_other_loss_to_its_next_owner(part: str) -> None:
    """The process that began it anew ends before a record comes."""
    log, store, counted = Log([impression(1), impression(2)]), Memory(), []
    await work_until(lambda: store.offset == 2, log, store)
    for _ in range(2):  # the second one is another loss
        lose(store, part)
        values, log.values = log.values, []
        for _ in range(2):
            log.next, telemetry, polls = None, Telemetry("test"), log.polls
            await work_until(
                lambda before=polls: log.polls > before + 5, log, store, telemetry=telemetry
            )
            counted.append((begun_anew(telemetry), lost_lanes(telemetry)))
        log.next, log.values, telemetry = None, values, Telemetry("test")
        await work_until(lambda: store.offset == 2, log, store, telemetry=telemetry)
        counted.append((begun_anew(telemetry), lost_lanes(telemetry)))
    assert counted == [(1, 0), (0, 0), (0, 0)] * 2
    assert accepted(store) == 2


async def test_what_latest_leaves_out_after_a_loss_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Redis loses the lane after two records; a third comes; the lane begins anew behind it."""
    monkeypatch.setattr("relevanced.daemon.worker.worker.TOUCH_EVERY_S", -1.0)
    log, store = Log([impression(1), impression(2)]), Memory()
    await_loss = True

    def done() -> bool:
        nonlocal await_loss
        if store.offset == 2 and await_loss:
            await_loss = False
            log.values.append(impression(3))
            log.beginning = 3
            store.lane = MemoryLane()
            store.lane.claim("nobody", b'{"events": 0}')
            store.lane.fields.clear()
        return bool(log.opened[1:]) and "counts" in store.lane.fields

    await work_until(done, log, store)
    assert json.loads(store.lane.fields["counts"])["gap_records"] == {TOPIC: 1}


def stored_lane(store: Memory, topic_id: str, offset: int) -> None:
    """Let the store have a lane that has read so far in the topic with this id."""
    offsets = json.dumps({TOPIC: offset}).encode()
    store.lane.claim("before", offsets, {TOPIC: LogMark(topic_id, offset - 1, 1)})


def stored_mark(store: Memory) -> LogMark:
    return head.decoded(store.lane.fields["logs"])[TOPIC]


async def test_what_was_read_is_stored_with_the_offsets() -> None:
    log, store = Log([impression(n) for n in range(5)]), Memory()
    log.topic_id = "first"
    await work_until(lambda: store.offset == 5, log, store)
    checksum = head.checksum_of(record(log.values[4], 4))
    assert stored_mark(store) == LogMark("first", 4, checksum)


async def test_a_lane_of_a_recreated_topic_reads_nothing_until_the_new_log_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The new log is longer than the offset in the old one."""
    monkeypatch.setattr("relevanced.daemon.worker.ownership.LOGS_CHECK_S", 0.0)
    log, store = Log([impression(n) for n in range(5)]), Memory()
    log.topic_id = "second"
    stored_lane(store, "first", 3)

    def done() -> bool:
        if log.checks > 20 and store.accepted is None:
            assert (store.offset, store.claims, log.opened) == (3, 1, [])
            assert stored_mark(store) == LogMark("first", 2, 1, "second", None)
            store.accepted = AcceptedLog("second", 3)
        return store.offset == 5

    ownership = await work_until(done, log, store)
    assert (ownership.not_open, log.opened, accepted(store)) == ({}, [0], 5)
    assert json.loads(store.lane.fields["counts"])["replaced_logs"] == {TOPIC: 1}
    assert stored_mark(store).topic_id == "second"


@pytest.mark.parametrize(
    "word", [AcceptedLog("third", 3), AcceptedLog("second", 2)], ids=["another log", "another stop"]
)
async def test_the_word_for_another_log_or_another_stop_lets_no_lane_go_on(
    word: AcceptedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relevanced.daemon.worker.ownership.LOGS_CHECK_S", 0.0)
    log, store = Log([impression(n) for n in range(5)]), Memory()
    log.topic_id, store.accepted = "second", word
    stored_lane(store, "first", 3)
    ownership = await work_until(lambda: log.checks > 20, log, store)
    assert "was first and is second" in ownership.not_open[0]
    assert (store.offset, log.opened) == (3, [])


async def test_a_stopped_lane_goes_on_once_its_log_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("relevanced.daemon.worker.ownership.LOGS_CHECK_S", 0.0)
    log, store = Log([impression(1)]), Memory()
    log.topic_id = "first"
    stored_lane(store, "first", 3)

    def done() -> bool:
        if log.checks > 20 and len(log.values) == 1:
            assert (store.claims, log.opened) == (1, [])
            log.values = [impression(n) for n in range(4)]
        return store.offset == 4

    ownership = await work_until(done, log, store)
    assert (ownership.not_open, log.opened, accepted(store)) == ({}, [3], 1)
    assert stored_mark(store).found is None


async def test_the_known_rest_of_the_old_log_is_a_gap() -> None:
    log, store = Log([impression(n) for n in range(5)]), Memory()
    log.topic_id, store.accepted = "second", AcceptedLog("second", 3)
    offsets, mark = json.dumps({TOPIC: 3}).encode(), LogMark("first", 2, 1, "second", 7)
    store.lane.claim("before", offsets, {TOPIC: mark})
    await work_until(lambda: store.offset == 5, log, store)
    assert json.loads(store.lane.fields["counts"])["gap_records"] == {TOPIC: 7}


class Replaced(Log):
    """A source of two topics that were both recreated, with so many records left unread of each."""

    unread = {"clicks": 5, "shown": 7}

    async def starting_offsets(self, lane: int, start: Start, now_ms: int) -> Mapping[str, int]:
        return dict.fromkeys(self.unread, 0)

    async def verify(self, lane: int, offsets: Mapping[str, int], marks: LogMarks) -> None:
        self.checks += 1
        for topic, unread in self.unread.items():
            if marks[topic].topic_id != "second":
                error = LogReplaced(topic, lane, offsets[topic], "first", "second")
                error.unread = unread
                raise error

    async def open(
        self, lane: int, offsets: Mapping[str, int], marks: LogMarks = NO_MARKS
    ) -> Mapping[str, int]:
        await self.verify(lane, offsets, marks)
        self.next = 0
        return {}


class OneByOne(Memory):
    """A store with a permission for each of some topics."""

    permissions = frozenset[str]()

    async def accepted_log(self, lane: int, topic: str) -> AcceptedLog | None:
        return AcceptedLog("second", 9) if topic in self.permissions else None


@pytest.mark.parametrize("first", [{"clicks"}, {"shown"}, {"clicks", "shown"}], ids="-".join)
async def test_the_known_rest_of_each_old_log_is_a_gap_whichever_is_accepted_first(
    first: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relevanced.daemon.worker.ownership.LOGS_CHECK_S", 0.0)
    log, store = Replaced([]), OneByOne()
    offsets = json.dumps(dict.fromkeys(log.unread, 9)).encode()
    store.lane.claim("before", offsets, dict.fromkeys(log.unread, LogMark("first", 8, 1)))

    def done() -> bool:
        store.permissions = frozenset(() if log.checks < 5 else first)
        if log.checks > 40:
            store.permissions = frozenset(log.unread)
        return len(counts().get("replaced_logs", ())) == 2

    def counts() -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = json.loads(store.lane.fields.get("counts", b"{}"))
        return found

    with capture_logs() as lines:
        await work_until(done, log, store)
    assert counts()["gap_records"] == log.unread
    assert counts()["replaced_logs"] == dict.fromkeys(log.unread, 1)
    told = [
        line["topic"] for line in lines if line["event"] == "records lost before they were read"
    ]
    assert sorted(told) == sorted(log.unread)


async def test_what_is_known_of_a_lane_stays_while_it_is_taken_over() -> None:
    """It is open in the source then, and its first commit under way: where it was read up to is
    what tells a gap."""
    log, stop = Log([]), asyncio.Event()
    ports, process = Ports(log, Memory(), None), Process(Telemetry("test"), lambda: 0.0, stop)
    ownership = Ownership(ports, process, Layouts(InForce(PLAN)), Beginning(LogEnd.EARLIEST, 1))
    ownership.not_open[0] = "Redis: no answer"
    await log.open(0, {TOPIC: 0})
    ownership.drop_lost()
    assert ownership.not_open == {0: "Redis: no answer"}
