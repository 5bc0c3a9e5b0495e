"""A batch that takes long is marked while the work goes on, and the next owners go by the mark."""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from relevanced.daemon.config import LogEnd
from relevanced.daemon.errors import Unavailable
from relevanced.daemon.events import Decoder, Limits, PlainEvents, decoder, nothing_plain
from relevanced.daemon.storage import InForce, Layouts, StallMark, pack_mark, unpack_mark
from relevanced.daemon.telemetry import Telemetry
from relevanced.daemon.worker import Beginning, Ownership, Pace, Ports, Process, StallWatch, Worker
from tests.builders import PLAN
from tests.daemon.worker.test_worker import PATIENCE_S, TOPIC, Letters, Log, Memory, impression

LIMIT_S = 0.05
LONG_S = 2.0
"""For which the decoder of a stalling record works at most."""

pytestmark = pytest.mark.usefixtures("no_waiting")


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relevanced.daemon.worker.ownership.pause_s", lambda failures, jitter: 0.0)


class Marked:
    """The marks that a store took, after it refused so often."""

    def __init__(self, store: Memory, refusals: int = 0) -> None:
        self.store = store
        self.refusals = refusals
        self.marks: list[StallMark] = []

    async def write(self, lane: int, token: str, sequence: int, mark: StallMark) -> bool:
        if self.refusals:
            self.refusals -= 1
            raise Unavailable("Redis: away")
        owner = self.store.lane.fields["token"], self.store.lane.fields["sequence"]
        if owner != (token.encode(), str(sequence).encode()):
            return False
        self.store.lane.fields["stall"] = pack_mark(mark)
        self.marks.append(mark)
        return True


@dataclass
class Stalling:
    """A decoder that works in one piece over records of offset `number`, until the batch was
    marked; then somebody else takes the lane."""

    inner: Decoder
    marked: Marked
    number: int

    limits = Limits()

    def __call__(self, value: bytes | None, record_time_ms: int | None) -> Any:
        if value == impression(self.number):
            before, until_s = len(self.marked.marks), time.thread_time() + LONG_S
            while len(self.marked.marks) == before and time.thread_time() < until_s:
                pass
            if len(self.marked.marks) > before:
                self.marked.store.lane.claim("somebody else", b"{}")
        return self.inner(value, record_time_ms)

    def slices(self, value: bytes | None, record_time_ms: int | None) -> Iterator[Sequence[Any]]:
        return iter((self(value, record_time_ms),))

    def plain(self, records: Any, most_bytes: int) -> PlainEvents:
        return nothing_plain(len(records))

    def is_mapping(self, record: Any) -> bool:
        return False

    def of_record(self, record: Any) -> Any:
        return self(record.value, record.timestamp)

    def slices_of(self, record: Any) -> Iterator[Sequence[Any]]:
        return self.slices(record.value, record.timestamp)


async def work(log: Log, store: Memory, marked: Marked, letters: Letters, end: int) -> None:
    """Run a worker until the store has this offset."""
    stop = asyncio.Event()
    ports, process = Ports(log, store, letters), Process(Telemetry("test"), lambda: 0.0, stop)
    ownership = Ownership(ports, process, Layouts(InForce(PLAN)), Beginning(LogEnd.EARLIEST, 1))
    decode = Stalling(decoder("native", Limits()), marked, 2)
    watch = StallWatch(marked.write, LIMIT_S)
    worker = Worker(ports, process, ownership, decode, Pace(1000, 0.0), stalls=watch)
    working = asyncio.create_task(worker.run())
    async with asyncio.timeout(PATIENCE_S):
        while store.offset < end:
            await asyncio.sleep(0)
            assert not working.done(), working.result()
        stop.set()
        await working


@pytest.mark.parametrize("refusals", [0, 2])
async def test_the_record_that_stalls_is_found_and_all_others_count(refusals: int) -> None:
    log, store, letters = Log([impression(n) for n in range(5)]), Memory(), Letters()
    marked = Marked(store, refusals)
    await work(log, store, marked, letters, 5)
    whole, one = {TOPIC: 5}, (TOPIC, 2)
    assert [(mark.times, mark.record, mark.until) for mark in marked.marks] == [
        (1, None, whole),
        (2, None, whole),
        (1, one, whole),
        (2, one, whole),
    ]
    counts = json.loads(store.lane.fields["counts"])
    assert counts["impression_outcomes"] == {"accepted": 4}
    assert counts["rejected"] == {"stalls": 1}
    ((reason, offset),) = [(letter.reason, letter.record.offset) for letter in letters.taken]
    assert (reason, offset) == ("stalls", 2)


async def test_a_batch_that_waits_for_a_server_is_not_marked() -> None:
    log, store = Log([impression(0)]), Memory("away", "away")
    marked = Marked(store)
    await work(log, store, marked, Letters(), 1)
    assert marked.marks == []


async def test_a_mark_that_a_commit_left_behind_changes_nothing() -> None:
    log, store = Log([impression(n) for n in range(2)]), Memory()
    store.lane.claim("before", b'{"events": 1}')
    store.lane.fields["stall"] = pack_mark(StallMark(0, 2, {TOPIC: 1}, (TOPIC, 0)))
    marked, letters = Marked(store), Letters()
    await work(log, store, marked, letters, 2)
    assert (letters.taken, len(store.sent)) == ([], 1)
    assert unpack_mark(store.lane.fields["stall"]) is not None
