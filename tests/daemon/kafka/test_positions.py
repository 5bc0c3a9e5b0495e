"""Where reading goes on in a log, and when its end is reached."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition

from relevanced.daemon.errors import Unavailable
from relevanced.daemon.kafka import is_at_end, not_yet_taken, resume_offset, resuming
from relevanced.daemon.worker import OffsetBeyondEnd

A0 = TopicPartition("a", 0)


@dataclass
class Record:
    offset: int


def records(offsets: Iterable[int]) -> list[Record]:
    return [Record(offset) for offset in offsets]


@pytest.mark.parametrize(
    ("stored", "offset", "gone"), [(10, 10, 0), (15, 15, 0), (20, 20, 0), (4, 10, 6)]
)
def test_reading_goes_on_inside_the_log(stored: int, offset: int, gone: int) -> None:
    assert resume_offset(A0, stored, 10, 20) == (offset, gone)


def test_offset_beyond_the_log_stops_the_lane() -> None:
    with pytest.raises(OffsetBeyondEnd, match=r"a\[0\]: the stored offset 21 .* 20"):
        resume_offset(A0, 21, 10, 20)


def test_records_taken_before_are_dropped_and_holes_kept() -> None:
    assert not_yet_taken(records([3, 4, 5]), 5) == records([5])
    assert not_yet_taken(records([7, 9]), 5) == records([7, 9])
    assert not_yet_taken(records([]), 5) == []


@pytest.mark.parametrize(
    ("next_offset", "end", "seen_ms", "at_end"),
    [
        (10, 10, 5_000, True),
        (11, 10, 5_000, True),
        (9, 10, 5_000, False),  # something is left
        (10, 10, 4_999, False),  # seen too long ago
        (10, 10, 15_000, True),
        (10, 10, 15_001, False),  # the clock was set back
        (10, None, None, False),  # never fetched
    ],
)
def test_end_counts_while_it_was_just_seen(
    next_offset: int, end: int | None, seen_ms: int | None, at_end: bool
) -> None:
    assert is_at_end(next_offset, end, seen_ms, now_ms=10_000) is at_end


async def test_who_asks_without_an_answer_is_told_which_partitions_have_no_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(_: object) -> None:
        await asyncio.Event().wait()

    leaders = {A0: 7, TopicPartition("a", 1): -1, TopicPartition("b", 0): None}
    cluster = SimpleNamespace(leader_for_partition=leaders.__getitem__)
    client = SimpleNamespace(cluster=cluster)
    consumer = SimpleNamespace(_client=client, beginning_offsets=never, end_offsets=never)
    monkeypatch.setattr(resuming, "ANSWER_PATIENCE_S", 0.01)
    with pytest.raises(Unavailable, match=r"0\.01 s: no leader of a\[1\], b\[0\]$"):
        await resuming.log_bounds(consumer, leaders)
    with pytest.raises(Unavailable, match=r"0\.01 s$"):
        await resuming.log_bounds(consumer, [A0])
