"""The demo's traffic as lanes: due by the clock, in order, kept until it is durable."""

import tracemalloc
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import msgspec
import pytest

from relevanced.daemon.config import LogEnd
from relevanced.daemon.tools.demonstration import LANES, TOPIC, DemoSource, demo_traffic
from relevanced.daemon.tools.traffic import TrafficStream
from relevanced.daemon.worker import Batch, OffsetBeyondEnd

SECOND_MS = 1000
MINUTE_S = 60
HOUR_MINUTES = 60


def traffic() -> Iterator[tuple[int, Mapping[str, Any]]]:
    """One event a second, from second 1 on."""
    for number in count(1):
        yield number * SECOND_MS, {"impression_id": f"q{number}", "number": number}


class Demo:
    """A source and its clock."""

    def __init__(self, events: Iterator[tuple[int, Mapping[str, Any]]] | None = None) -> None:
        self.now_s = 0.0
        self.source = DemoSource(events or traffic(), lambda: self.now_s)

    async def opened(self) -> "Demo":
        for lane in range(LANES):
            await self.source.open(lane, await self.source.starting_offsets(lane, LogEnd.LATEST, 0))
        return self

    async def at(self, now_s: float, *, most: int = 1000) -> Batch:
        self.now_s = now_s
        return await self.source.poll(most, timeout_ms=0)


def numbers(batch: Batch, lane: int | None = None) -> list[int]:
    lanes = batch.lanes if lane is None else {lane: batch.lanes.get(lane, {TOPIC: []})}
    values = [record.value or b"" for topics in lanes.values() for record in topics[TOPIC]]
    return sorted(msgspec.json.decode(value)["number"] for value in values)


async def test_records_come_when_they_are_due() -> None:
    demo = await Demo().opened()
    assert numbers(await demo.at(0.999)) == []
    assert numbers(await demo.at(3)) == [1, 2, 3]
    assert numbers(await demo.at(3.5)) == []
    assert numbers(await demo.at(5)) == [4, 5]


async def test_a_poll_is_bounded_and_goes_on_after() -> None:
    demo = await Demo().opened()
    assert numbers(await demo.at(10, most=4)) == [1, 2, 3, 4]
    assert numbers(await demo.at(10, most=99)) == [5, 6, 7, 8, 9, 10]


async def test_lanes_are_caught_up_when_nothing_more_is_due() -> None:
    demo = await Demo().opened()
    behind, level = await demo.at(10, most=4), await demo.at(10)
    assert behind.caught_up == frozenset()
    assert level.caught_up == {0, 1}


async def test_an_impression_stays_in_its_lane_in_offset_order() -> None:
    demo = await Demo().opened()
    batch = await demo.at(50)
    assert set(batch.lanes) == {0, 1}
    for lane, topics in batch.lanes.items():
        assert [record.offset for record in topics[TOPIC]] == list(range(len(topics[TOPIC])))
        assert batch.next_offsets[lane] == {TOPIC: len(topics[TOPIC])}
        assert {record.partition for record in topics[TOPIC]} == {lane}
    again = await (await Demo().opened()).at(50)
    assert [numbers(again, lane) for lane in (0, 1)] == [numbers(batch, lane) for lane in (0, 1)]


async def test_a_lane_is_read_again_from_what_is_durable() -> None:
    demo = await Demo().opened()
    batch = await demo.at(30)
    await demo.source.close(0)
    demo.source.hint(0, {TOPIC: 2})
    begin = await demo.source.starting_offsets(0, LogEnd.EARLIEST, 0)
    assert begin == {TOPIC: 2}
    await demo.source.open(0, {TOPIC: 4})
    assert numbers(await demo.at(30)) == numbers(batch, 0)[4:]


async def test_a_closed_lane_is_not_read_and_loses_nothing() -> None:
    demo = await Demo().opened()
    await demo.source.close(1)
    assert demo.source.open_lanes == frozenset({0})
    assert demo.source.lanes_to_open() == frozenset({1})
    batch = await demo.at(20)
    assert set(batch.lanes) == {0}
    await demo.source.open(1, {TOPIC: 0})
    assert numbers(batch) + numbers(await demo.at(20)) == numbers(batch, 0) + [
        n for n in range(1, 21) if n not in numbers(batch, 0)
    ]


async def test_offsets_beyond_the_end_are_refused() -> None:
    demo = await Demo().opened()
    await demo.source.close(0)
    with pytest.raises(OffsetBeyondEnd, match="offset 1 is beyond the end of the log, 0"):
        await demo.source.open(0, {TOPIC: 1})


async def test_status_has_the_lag() -> None:
    demo = await Demo().opened()
    await demo.source.close(1)
    await demo.at(20)
    [level] = demo.source.status()
    assert (level.partition, level.lag_records, level.fetched_ms) == (0, 0, 20_000)
    await demo.source.open(0, {TOPIC: 1})
    [behind] = demo.source.status()
    assert behind.lag_records == (level.next_offset or 0) - 1 > 0


async def test_lanes_are_never_taken_away() -> None:
    demo = await Demo().opened()
    async with demo.source.batch_in_hand():
        assert await demo.source.still_member()
    assert demo.source.lanes_lost() == frozenset()


async def test_hours_of_traffic_leave_nothing_behind() -> None:
    """Neither in the records that are kept, nor in the users and events of the traffic."""
    demo = await Demo(iter(TrafficStream(demo_traffic(seed=1, rate=2), 0))).opened()
    traced = {}
    tracemalloc.start()
    try:
        for minute in range(4 * HOUR_MINUTES + 1):
            batch = await demo.at(minute * MINUTE_S)
            for lane, offsets in batch.next_offsets.items():
                demo.source.hint(lane, offsets)
            if minute % HOUR_MINUTES == 0:
                traced[minute // HOUR_MINUTES], _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    read = sum(one.next_offset or 0 for one in demo.source.status())
    assert read > 0.9 * 2 * 4 * HOUR_MINUTES * MINUTE_S
    assert max(traced[3], traced[4]) < traced[1] + 100_000, "of many MB that went through"
