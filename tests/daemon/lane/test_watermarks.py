"""What moves a watermark: what is confirmed, and no clock that is wrong."""

import random
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

from relevanced.daemon.lane import (
    CONFIRMED_OVER_MS,
    CONFIRMING,
    JUMP_MS,
    Pending,
    lane_watermark_ms,
    moved,
    moved_by_all,
    new_lifts,
)
from relevanced.daemon.panes import HOUR_MS
from tests.oracle import Clock

MINUTE_MS: Final = 60_000
Events: TypeAlias = Sequence[tuple[str, int]]
"""(impression id, time in ms) of each."""


def after(*events: tuple[str, int], pending: Pending | None = None) -> int | None:
    watermark, pending = None, Pending() if pending is None else pending
    for id_, time_ms in events:
        watermark = moved(watermark, pending, id_, time_ms)
    return watermark


def ahead(count: int, at_ms: int = HOUR_MS, apart_ms: int = 30_000) -> list[tuple[str, int]]:
    return [(f"a{n}", at_ms + n * apart_ms) for n in range(count)]


def test_the_first_event_sets_the_watermark() -> None:
    assert after(("q", 7)) == 7


@pytest.mark.parametrize(("over_ms", "watermark"), [(0, JUMP_MS), (1, 0)])
def test_one_event_moves_it_by_a_jump_at_most(over_ms: int, watermark: int) -> None:
    assert after(("q", 0), ("p", JUMP_MS + over_ms)) == watermark


@pytest.mark.parametrize(("ids", "watermark"), [(CONFIRMING - 1, 0), (CONFIRMING, HOUR_MS)])
def test_a_jump_needs_one_impression_and_three_more(ids: int, watermark: int) -> None:
    assert after(("q", 0), *ahead(ids)) == watermark


def test_all_feedback_of_an_impression_confirms_once() -> None:
    clicks = [("a0", HOUR_MS + n * MINUTE_MS) for n in range(50)]
    assert after(("q", 0), *clicks) == 0


@pytest.mark.parametrize(("over_ms", "watermark"), [(-1, 0), (0, HOUR_MS)])
def test_a_jump_is_confirmed_over_a_minute(over_ms: int, watermark: int) -> None:
    last = ("z", HOUR_MS + CONFIRMED_OVER_MS + over_ms)
    assert after(("q", 0), *ahead(50, apart_ms=1), last) == watermark


def test_a_jump_is_believed_as_far_as_all_agree() -> None:
    far = [("x", 9 * HOUR_MS), ("y", 8 * HOUR_MS)]
    assert after(("q", 0), *far, ("a", 2 * HOUR_MS), ("b", HOUR_MS)) == HOUR_MS


def test_an_event_near_the_watermark_contradicts_one_that_is_ahead() -> None:
    first, *others = ahead(CONFIRMING)
    assert after(("q", 0), first, ("near", 1), *others) == 1
    assert after(("q", 0), first, ("old", -JUMP_MS), *others) == HOUR_MS


def test_stragglers_that_are_fewer_do_not_prevent_a_jump() -> None:
    """After an outage, of every three events one is from before it."""
    events = []
    for n in range(60):
        now_ms = HOUR_MS + n * 2_000
        events += [(f"a{n}", now_ms), (f"b{n}", now_ms), (f"s{n}", -n)]
    assert after(("q", 0), *events) == HOUR_MS + 59 * 2_000


@pytest.mark.parametrize("batch", [1, 60, 500])
def test_a_producer_with_a_wrong_clock_never_moves_a_busy_topic(batch: int) -> None:
    """It sends one record of twenty, an hour ahead, as a batch of so many at once."""
    pending, watermark, turns = Pending(), 0, 40
    for turn in range(turns):
        began_ms = turn * batch * 20
        wrong = [(f"w{turn}-{n}", began_ms + n + HOUR_MS) for n in range(batch)]
        right = [(f"q{turn}-{n}", began_ms + n) for n in range(batch * 19)]
        for id_, time_ms in wrong + right:
            watermark = moved(watermark, pending, id_, time_ms)
        assert watermark == right[-1][1]


def test_clocks_that_are_wrong_by_chance_never_move_a_busy_topic() -> None:
    """One record of ten is ahead, by anything up to a day. It is busy by then."""
    rng, pending, watermark, ahead_of = random.Random(7), Pending(), 0, 0
    for n in range(200_000):
        wrong_ms = rng.randrange(JUMP_MS + 1, 24 * HOUR_MS) if n > 50 and rng.random() < 0.1 else 0
        watermark = moved(watermark, pending, f"q{n}", n * 10 + wrong_ms)
        ahead_of += watermark > n * 10
    assert ahead_of == 0


def test_a_busy_topic_that_becomes_sparse_is_followed_after_twelve_events() -> None:
    busy = [(f"q{n}", n) for n in range(100)]
    later = [(f"p{n}", n * HOUR_MS) for n in range(1, 13)]
    assert after(*busy, *later[:-1]) == 99
    assert after(*busy, *later) == HOUR_MS
    assert after(*busy, *later, ("r", 13 * HOUR_MS)) == 2 * HOUR_MS


@pytest.mark.parametrize("hours", [0.2, 1, 30])
def test_a_sparse_topic_follows_three_events_behind(hours: float) -> None:
    times_ms = [int(n * hours * HOUR_MS) for n in range(30)]
    pending, watermark = Pending(), None
    for n, time_ms in enumerate(times_ms):
        watermark = moved(watermark, pending, f"q{n}", time_ms)
        assert watermark == times_ms[max(n - CONFIRMING + 1, 0)]


def test_what_the_watermark_reaches_is_not_pending() -> None:
    pending = Pending()
    after(("q", 0), *ahead(2, 7 * MINUTE_MS), ("near", 3 * MINUTE_MS), pending=pending)
    assert (pending.times_ms, pending.votes) == ({}, 0)


def test_memory_is_bounded() -> None:
    pending = Pending()
    after(("q", 0), *ahead(100_000, apart_ms=0), pending=pending)
    assert len(pending.times_ms) == CONFIRMING
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(pending), type=Pending) == pending


def random_events(rng: random.Random, count: int) -> list[tuple[str, int]]:
    """Events around a clock that sometimes leaps, some of them far ahead of it or behind."""
    now_ms, events = 0, []
    share = rng.choice((0.0, 0.01, 0.2, 0.7))
    for _ in range(count):
        now_ms += rng.choice((0, 1, 1_000, 20_000))
        if rng.random() < 0.01:
            now_ms += rng.choice((2, 5, 7, 100)) * MINUTE_MS
        wrong_ms = rng.choice((-40, -4, 4, 6, 60, 61)) * MINUTE_MS if rng.random() < share else 0
        jitter_ms = rng.choice((0, 0, 1, JUMP_MS, -JUMP_MS, 59_999))
        events.append((f"q{rng.randrange(12)}", now_ms + wrong_ms + jitter_ms))
    return events


def cut(rng: random.Random, events: Events) -> Iterable[Events]:
    while events:
        size = rng.choice((1, 2, 10, 100))
        yield events[:size]
        events = events[size:]


@given(seed=st.integers(0, 2**64), count=st.integers(0, 300))
def test_any_cut_gives_the_watermarks_of_the_oracle(seed: int, count: int) -> None:
    rng = random.Random(seed)
    events, clock, pending = random_events(rng, count + 1), Clock(), Pending()
    expected, were_ahead = [], []
    for id_, time_ms in events:
        expected.append(clock.watermark)
        were_ahead.append(clock.read(id_, time_ms))
    watermark, marks = events[0][1], [events[0][1]]
    alone, alone_pending = watermark, Pending()
    for part in cut(rng, events[1:]):
        times_ms = np.array([time_ms for _, time_ms in part], np.int64)
        ids = [id_ for id_, _ in part]
        *arriving, watermark = moved_by_all(watermark, pending, ids.__getitem__, times_ms)
        marks += arriving
        for id_, time_ms in part:
            alone = moved(alone, alone_pending, id_, time_ms)
        assert (alone, alone_pending) == (watermark, pending)
    assert marks[1:] == expected[1:] and (watermark, pending.votes) == (
        clock.watermark,
        clock.votes,
    )
    assert sorted(pending.times_ms.items()) == sorted((id_, ms) for ms, id_ in clock.pending)
    jumps = [t - w > JUMP_MS for (_, t), w in zip(events[1:], marks[1:], strict=True)]
    assert jumps == were_ahead[1:]


MARKS: Final = {"a/0": 9_000, "a/1": 3_000, "a/2": None}
LATENESS_MS: Final = 1_000


def test_an_idle_log_is_lifted_to_a_lateness_behind_the_greatest() -> None:
    """And never back."""
    assert lane_watermark_ms(MARKS, {}) is None
    lifts = new_lifts(MARKS, {}, {"a/1", "a/2"}, LATENESS_MS, HOUR_MS)
    assert lifts == {"a/1": 8_000, "a/2": 8_000}
    assert lane_watermark_ms(MARKS, lifts) == 8_000
    assert lane_watermark_ms(MARKS, {"a/2": 1_000}) == 1_000
    assert new_lifts(MARKS, lifts, {"a/0", "a/1", "a/2"}, LATENESS_MS, HOUR_MS) == {}


def test_a_clock_that_is_ahead_lifts_no_other_log_beyond_this_one() -> None:
    assert new_lifts(MARKS, {}, {"a/1", "a/2"}, LATENESS_MS, 5_000) == {"a/1": 4_000, "a/2": 4_000}
    assert new_lifts(MARKS, {}, {"a/1", "a/2"}, LATENESS_MS, 3_000) == {"a/2": 2_000}


def test_nothing_is_lifted_before_the_first_event_or_while_it_is_not_idle() -> None:
    assert new_lifts({"a/0": None}, {}, {"a/0"}, LATENESS_MS, HOUR_MS) == {}
    assert new_lifts(MARKS, {}, (), LATENESS_MS, HOUR_MS) == {}
