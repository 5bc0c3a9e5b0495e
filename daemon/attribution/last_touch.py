"""Last touch: feedback that names no impression joins the latest one that its visitor was shown.
Pure.

It is held until the watermark of the lane reaches its time + `Plan.touch_ms`: all impressions that
met an earlier watermark have been read by then, and no others are asked, so the choice follows from
the log alone, however topics interleave and batches are cut. `touch_ms` ≤ lateness, so no
impression that could be chosen has settled by then. What was chosen never changes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ..lane import Held, Lane, TouchColumns, encode_items
from ..timing import GRACE_MS
from .join_rules import join_at, rank0_of


@dataclass(frozen=True)
class _Shown:
    """The open impressions of one visitor, n of them, by time."""

    times_ms: Sequence[int]
    met_ms: Sequence[int]
    indices: Sequence[int]
    """Into the columns of open impressions."""


def decide(lane: Lane, *, is_read: bool = False) -> None:
    """Join the held feedback whose impressions have all been read, and count it; `is_read`: all
    there are. Before a pane settles."""
    wait_ms, watermark, touches = lane.plan.touch_ms, lane.watermark_ms, lane.open.touches
    if wait_ms is None or watermark is None or touches is None:
        return
    due = list(lane.waiting.take_held(None if is_read else watermark - wait_ms))
    if not due:
        return
    shown = _shown_to(lane, touches, {feedback.visitor for feedback in due})
    nothing = _Shown((), (), ())
    for feedback in due:
        for outcome in _outcomes(lane, touches, feedback, shown.get(feedback.visitor, nothing)):
            lane.count("feedback_outcomes", outcome)


def _shown_to(lane: Lane, touches: TouchColumns, visitors: set[int]) -> dict[int, _Shown]:
    """What is open of each of the visitors, who are given by their hashes."""
    wanted = np.array(sorted(visitors), np.int64)
    index = touches.of_visitors(wanted)
    index = index[np.frombuffer(lane.open.is_open, np.bool_)[index]]
    times_ms = lane.open.times_ms.at(index)
    found = touches.at(index, times_ms)
    order = np.lexsort((times_ms, found.visitors))
    order = order[np.isin(found.visitors[order], wanted)]
    of_whom, start = np.unique(found.visitors[order], return_index=True)
    stops = np.append(start, len(order))[1:].tolist()
    times, met, indices = (a[order].tolist() for a in (times_ms, found.met_ms, index))
    return {
        visitor: _Shown(times[first:stop], met[first:stop], indices[first:stop])
        for visitor, first, stop in zip(of_whom.tolist(), start.tolist(), stops, strict=True)
    }


def _outcomes(lane: Lane, touches: TouchColumns, feedback: Held, shown: _Shown) -> tuple[str, ...]:
    """Join the feedback if it can; returns its outcome, and what is counted beside it."""
    assert lane.plan.touch_ms is not None
    before_ms, looked_at = feedback.time_ms + lane.plan.touch_ms, 0
    for at in _in_order(lane, feedback.time_ms, shown):
        if shown.met_ms[at] >= before_ms or not _is_open(lane, feedback, shown.times_ms[at]):
            continue
        if looked_at == lane.plan.most_touched:
            return "unjoined", "crowded_visitor"
        looked_at += 1
        slot = lane.open.slots_at(shown.indices[at])
        rank0 = _rank0(lane, touches, slot, feedback, before_ms)
        if rank0 is not None:
            join_at(lane, slot, rank0, feedback)
            return "joined", "joined_last_touch"
    return ("unjoined",) if looked_at else ("unjoined", "unknown_visitor")


def _in_order(lane: Lane, time_ms: int, shown: _Shown) -> Iterator[int]:
    """The impressions that feedback of a time can belong to, the most likely first: the latest
    before it (of equal times the greatest id), then the earliest after it (the least id)."""
    times = shown.times_ms
    first = bisect_left(times, time_ms - lane.plan.timing.attribution_ms)
    middle, end = bisect_right(times, time_ms), bisect_right(times, time_ms + GRACE_MS)
    for span, is_before in ((range(middle - 1, first - 1, -1), True), (range(middle, end), False)):
        for _, of_one_time in groupby(span, key=times.__getitem__):
            several = list(of_one_time)
            if len(several) > 1:
                several.sort(key=lambda n: lane.open.ids[shown.indices[n]], reverse=is_before)
            yield from several


def _is_open(lane: Lane, feedback: Held, shown_ms: int) -> bool:
    met_ms = feedback.watermark_ms
    return met_ms is None or lane.plan.timing.closes_at(shown_ms) > met_ms


def _rank0(
    lane: Lane, touches: TouchColumns, slot: int, feedback: Held, before_ms: int
) -> int | None:
    """The rank from 0 of the item in the list as it was before a watermark; None where it is not
    there."""
    assert feedback.item is not None
    if encode_items(feedback.item) not in lane.open.text_of(slot):
        return None
    items, met_ms = lane.open.list_of(slot), touches.met_ms.get(slot, {})
    for rank0, item_met_ms in met_ms.items():
        if item_met_ms >= before_ms:
            items[rank0] = None
    return rank0_of(items, feedback.item, feedback.rank)
