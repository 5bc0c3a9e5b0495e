"""How the events of a topic-partition move its watermark.

Pure, and a function of the log alone: the same after any fault, and for any cut into batches. An
event that would move the watermark by more than JUMP_MS is *ahead*. It is pending until others
confirm it, so that a clock which is wrong makes no other event late:

    ahead ─▶ pending ─▶ CONFIRMING ids, over at least CONFIRMED_OVER_MS ─▶ the watermark moves to
                │                                                          the least of their times
                └─▶ as many events near the watermark as ids that are ahead ─▶ forgotten

A jump in time, after an outage or in a topic with an event an hour, is confirmed soon, because
nothing near the watermark arrives any more but stragglers. A producer whose clock is wrong is
contradicted by the others, even where a batch of it fills a partition for seconds.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from relevanced.metrics.lists import Integers

from ..panes import CONFIRMED_OVER_MS, CONFIRMING, JUMP_MS


class Pending(msgspec.Struct, array_like=True):
    """The events ahead of a watermark that await confirmation. Stored as an array: the order of the
    fields is the format."""

    times_ms: dict[str, int] = {}
    """Impression id → the least time of its events; at most CONFIRMING of them, all ahead."""
    votes: int = 0
    """Ids that came to be ahead, less events near the watermark, since the first of them; 0 where
    nothing is pending."""

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
                    return None
                extreme_ms, choose = (least_ms, min) if time_ms < least_ms else (greatest_ms, max)
                del times_ms[choose(id_ for id_, ms in times_ms.items() if ms == extreme_ms)]
        times_ms[impression_id] = time_ms if known_ms is None else min(known_ms, time_ms)
        return self._confirmed_ms()

    def contradict(self) -> None:
        """Note an event near the watermark."""
        self.votes -= 1
        if not self.votes:
            self.times_ms.clear()

    def _confirmed_ms(self) -> int | None:
        if len(self.times_ms) < CONFIRMING:
            return None
        least_ms, greatest_ms = min(self.times_ms.values()), max(self.times_ms.values())
        return least_ms if greatest_ms - least_ms >= CONFIRMED_OVER_MS else None

    def forget_reached(self, watermark: int) -> None:
        """Forget the events that are not ahead of this watermark."""
        for impression_id, time_ms in list(self.times_ms.items()):
            if time_ms <= watermark + JUMP_MS:
                del self.times_ms[impression_id]
        if not self.times_ms:
            self.votes = 0


def moved(watermark: int | None, pending: Pending, impression_id: str, time_ms: int) -> int:
    """The watermark after an event of this impression id and time; notes in `pending` what it is
    evidence of."""
    if watermark is None:
        return time_ms
    if time_ms > watermark + JUMP_MS:
        confirmed_ms = pending.note(impression_id, time_ms)
        if confirmed_ms is None:
            return watermark
        pending.forget_reached(confirmed_ms)
        pending.votes = len(pending.times_ms)
        return confirmed_ms
    if pending.votes and time_ms > watermark - JUMP_MS:
        pending.contradict()
    if time_ms > watermark:
        watermark = time_ms
        if pending.votes:
            pending.forget_reached(watermark)
    return watermark


def moved_by_all(
    watermark: int, pending: Pending, impression_ids: Sequence[str], times_ms: Integers
) -> Integers:
    """The watermark just before each of n events and, last, after all of them, (n + 1,)."""
    marks = np.maximum.accumulate(np.append(watermark, times_ms))
    if not pending.votes and (len(times_ms) == 0 or int(np.diff(marks).max()) <= JUMP_MS):
        return marks
    return _moved_one_by_one(watermark, pending, impression_ids, times_ms.tolist())


def _moved_one_by_one(
    watermark: int, pending: Pending, impression_ids: Sequence[str], times_ms: Sequence[int]
) -> Integers:
    marks, reach = [watermark], watermark + JUMP_MS
    for index, time_ms in enumerate(times_ms):
        if pending.votes or time_ms > reach:
            watermark = moved(watermark, pending, impression_ids[index], time_ms)
            reach = watermark + JUMP_MS
        elif time_ms > watermark:
            watermark, reach = time_ms, time_ms + JUMP_MS
        marks.append(watermark)
    return np.array(marks, np.int64)
