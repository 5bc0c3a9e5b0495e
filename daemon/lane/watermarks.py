"""How the events of a topic-partition move its watermark, and where it is not waited for.

Pure, and a function of the log alone: the same after any fault, and for any cut into batches. An
event that would move the watermark by more than JUMP_MS is *ahead*. It is pending until others
confirm it, so that a clock which is wrong makes no other event late:

    ahead ─▶ pending ─▶ CONFIRMING ids, over at least CONFIRMED_OVER_MS, ─▶ the watermark moves to
                │       and half as many votes as events near it lately     the least of their times
                └─▶ as many events near the watermark as ids that are ahead ─▶ forgotten

A jump in time, after an outage or in a topic with an event an hour, is confirmed soon, because
nothing near the watermark arrives any more but stragglers. A producer whose clock is wrong is
contradicted by the others, even where a batch of it fills a partition for seconds; and clocks that
are wrong by chance never follow each other for long.

A topic-partition that is at its end would hold back all others of its lane. It is *lifted*: for the
lane it stands a lateness behind them, and its records meet at least that. So only a record that
comes more than the lateness after others can tell; its own watermark stays what its events made it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np

from relevanced.metrics import Integers

JUMP_MS: Final = 300_000
"""A single event moves a watermark no further than this: five minutes without an event are rare in
busy topics, and clocks that are wrong by less do little harm."""
CONFIRMING: Final = 4
"""Impression ids that confirm a jump of the watermark: one, and three more."""
CONFIRMED_OVER_MS: Final = 60_000
"""The least event time between the first and last of them. A producer sends what it gathered at
once, so its records fill a partition for some seconds, but not for so long."""
MOST_NEAR: Final = 24
"""So many events near the watermark are remembered, half of them once it is JUMP_MS later. Half as
many impression ids must outweigh them: chance never makes twelve wrong clocks follow each other."""


class Pending(msgspec.Struct, array_like=True):
    """The events ahead of a watermark that await confirmation. Stored as an array: the order of the
    fields is the format."""

    times_ms: dict[str, int] = {}
    """Impression id → the least time of its events; at most CONFIRMING of them, all ahead."""
    votes: int = 0
    """Ids that came to be ahead, less events near the watermark, since the first of them; 0 where
    nothing is pending."""
    near: int = 0
    """Events near the watermark, MOST_NEAR at most; halved whenever it passes a multiple of
    JUMP_MS. It tells a busy topic from one with few events."""

    def note(self, impression_id: str, time_ms: int) -> int | None:
        """Note an event that is ahead. Of more ids than CONFIRMING, those of the least and of the
        greatest time are kept. Returns the time up to which all agree, where that is a jump."""
        times_ms = self.times_ms
        known_ms = times_ms.get(impression_id)
        if known_ms is None:
            self.votes += 1
            if len(times_ms) == CONFIRMING:
                least_ms, greatest_ms = min(times_ms.values()), max(times_ms.values())
                if least_ms <= time_ms <= greatest_ms:
                    return self._confirmed_ms()
                extreme_ms, choose = (least_ms, min) if time_ms < least_ms else (greatest_ms, max)
                del times_ms[choose(id_ for id_, ms in times_ms.items() if ms == extreme_ms)]
        times_ms[impression_id] = time_ms if known_ms is None else min(known_ms, time_ms)
        return self._confirmed_ms()

    def contradict(self) -> None:
        """Note an event near the watermark."""
        self.near = min(self.near + 1, MOST_NEAR)
        if self.votes:
            self.votes -= 1
            if not self.votes:
                self.times_ms.clear()

    def _confirmed_ms(self) -> int | None:
        if len(self.times_ms) < CONFIRMING or self.votes < self.near // 2:
            return None
        least_ms, greatest_ms = min(self.times_ms.values()), max(self.times_ms.values())
        return least_ms if greatest_ms - least_ms >= CONFIRMED_OVER_MS else None

    def pass_on(self, before: int, watermark: int) -> None:
        """Note that the watermark moved: halve `near`, and forget the events that are not ahead."""
        self.near >>= min(watermark // JUMP_MS - before // JUMP_MS, MOST_NEAR)
        for impression_id, time_ms in list(self.times_ms.items()):
            if time_ms <= watermark + JUMP_MS:
                del self.times_ms[impression_id]
        if not self.times_ms:
            self.votes = 0


_AS_COSTLY: Final = 16
"""So many events one by one cost what passing a multiple of JUMP_MS costs by arrays."""


def moved(watermark: int | None, pending: Pending, impression_id: str, time_ms: int) -> int:
    """The watermark after an event of this impression id and time; notes in `pending` what it is
    evidence of."""
    if watermark is None:
        return time_ms
    if time_ms > watermark + JUMP_MS:
        confirmed_ms = pending.note(impression_id, time_ms)
        if confirmed_ms is None:
            return watermark
        pending.pass_on(watermark, confirmed_ms)
        pending.votes = len(pending.times_ms)
        return confirmed_ms
    if time_ms > watermark:
        pending.pass_on(watermark, time_ms)
    if time_ms > watermark - JUMP_MS:
        pending.contradict()
    return max(watermark, time_ms)


def moved_by_all(
    watermark: int, pending: Pending, id_at: Callable[[int], str], times_ms: Integers
) -> Integers:
    """The watermark just before each of n events and, last, after all of them, (n + 1,).

    `id_at` returns the impression id of the event at an index: it is seldom asked.
    """
    marks = np.maximum.accumulate(np.append(watermark, times_ms))
    passed = range(watermark // JUMP_MS + 1, int(marks[-1]) // JUMP_MS + 1)
    is_calm = not pending.votes and len(passed) < max(MOST_NEAR, len(times_ms) // _AS_COSTLY)
    if not is_calm or (len(times_ms) and int(np.diff(marks).max()) > JUMP_MS):
        return _moved_one_by_one(watermark, pending, id_at, times_ms.tolist())
    start = 0
    for multiple in passed:
        stop = int(np.searchsorted(marks, multiple * JUMP_MS)) - 1
        pending.near = _with_near(pending.near, marks[start:stop], times_ms[start:stop]) // 2
        start = stop
    pending.near = _with_near(pending.near, marks[start:-1], times_ms[start:])
    return marks


def _with_near(near: int, marks: Integers, times_ms: Integers) -> int:
    if near == MOST_NEAR:
        return near
    return min(near + int(np.count_nonzero(times_ms > marks - JUMP_MS)), MOST_NEAR)


def _moved_one_by_one(
    watermark: int, pending: Pending, id_at: Callable[[int], str], times_ms: Sequence[int]
) -> Integers:
    marks, calm_until = [watermark], watermark
    for index, time_ms in enumerate(times_ms):
        if time_ms >= calm_until or pending.votes or pending.near < MOST_NEAR:
            watermark = moved(watermark, pending, id_at(index), time_ms)
            # an event before the next multiple only moves the watermark
            calm_until = watermark - watermark % JUMP_MS + JUMP_MS
        elif time_ms > watermark:
            watermark = time_ms
        marks.append(watermark)
    return np.array(marks, np.int64)


Watermarks: TypeAlias = Mapping[str, int | None]
"""Log → watermark, None before its first event."""
Lifts: TypeAlias = Mapping[str, int]
"""Log → the watermark that its records meet at least, of those that were lifted."""


def lifted_ms(watermark: int | None, lift: int | None) -> int | None:
    """Where a log of this watermark and lift stands for its lane."""
    if watermark is None or lift is None:
        return lift if watermark is None else watermark
    return max(watermark, lift)


def lane_watermark_ms(watermarks: Watermarks, lifts: Lifts) -> int | None:
    """The watermark of a lane: the least of its logs; None while one of them had no event and is
    not lifted."""
    marks = [lifted_ms(mark, lifts.get(log)) for log, mark in watermarks.items()]
    known = [mark for mark in marks if mark is not None]
    return min(known) if known and len(known) == len(marks) else None


def new_lifts(
    watermarks: Watermarks, lifts: Lifts, idle: Collection[str], lateness_ms: int, clock_ms: int
) -> dict[str, int]:
    """What idle logs are to be lifted to, where that is more than they are at: the lateness behind
    the greatest watermark, and behind the clock, which a wrong one may be ahead of."""
    greatest = max((mark for mark in watermarks.values() if mark is not None), default=None)
    if greatest is None:
        return {}
    to_ms = min(greatest, clock_ms) - lateness_ms
    at = {log: lifted_ms(watermarks[log], lifts.get(log)) for log in idle if log in watermarks}
    return {log: to_ms for log, mark in at.items() if mark is None or mark < to_ms}
