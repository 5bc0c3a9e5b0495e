"""From changes of gain states to rows: what a batch adds to the panes, what settles, what is
dropped.

Pure, and exact: all sums are int64, so they do not depend on order or on how the log was cut into
batches.

    changes ─▶ one difference per (base pane, combination) ─▶ rows of every window's pane ─▶ totals,
    once settled
"""

import math

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics.lists import Integers

from ..panes import PaneKey, pane_start
from . import hours
from .columns.column import column, grouped
from .experiments import settle_pane
from .gain_states import score_delays
from .lane import Lane
from .paged_rows import LARGEST_SUM, PagedRows, Pages, Rows


def apply_changes(lane: Lane) -> None:
    """Add what the batch changed to the rows of all windows.

    Raises OverflowError where a counter could reach 2^62.
    """
    changes = lane.changes
    parts = [_differences(lane)] if len(changes.panes) else []
    if changes.delays:
        parts.append(_delay_differences(lane))
    if not parts:
        return
    starts, combinations, differences = map(np.concatenate, zip(*parts, strict=True))
    numbers = lane.segments.combination_table()[combinations]
    segments = numbers.reshape(-1)
    # each line counts in one segment per grouping
    lines = np.repeat(np.arange(len(starts)), numbers.shape[1])
    starts, sums = starts[lines], differences
    for position, span in enumerate(lane.plan.timing.windows):
        starts, segments, sums = _summed(starts, span.pane_ms, segments, sums, lines)
        lines = np.arange(len(sums))
        for start, chosen in grouped(starts):
            _add(lane, (position, start), segments[chosen], sums[chosen])


def _summed(
    starts: Integers, pane_ms: int, segments: Integers, rows: Rows, lines: Integers
) -> tuple[Integers, Integers, Rows]:
    """`rows[lines]`, summed by pane of so many milliseconds and segment: the distinct pairs,
    ascending, and their sums."""
    # times are below 10^14: each of so many seconds has room for millions of segments
    panes, most = starts // pane_ms, int(segments.max()) + 1
    keys = panes * most + segments
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
    sums = np.add.reduceat(rows.take(lines[order], axis=0), first, axis=0)
    panes, summed = np.divmod(keys[first], most)
    return panes * pane_ms, summed, sums


def _differences(lane: Lane) -> tuple[Integers, Integers, Rows]:
    """(base pane, combination, difference of rows), one line per pane and combination that
    changed."""
    changes, rows = lane.changes, lane.states.rows()
    columns = (changes.panes, changes.combinations, changes.before, changes.after)
    (panes, combinations, before, after), counts = _counted(*map(column, columns))
    differences = rows.take(after, axis=0) - rows.take(before, axis=0)
    _check_sum(differences, len(changes.panes))
    differences *= counts[:, np.newaxis]
    first = np.flatnonzero(
        (np.diff(panes, prepend=-1) != 0) | (np.diff(combinations, prepend=-1) != 0)
    )
    return panes[first], combinations[first], np.add.reduceat(differences, first, axis=0)


def _counted(*columns: Integers) -> tuple[list[Integers], Integers]:
    """The distinct lines of columns, ascending, and how often each stands there.

    A line is one number while it is sorted: a sort of numbers is many times as fast as one of
    lines.
    """
    least = [int(numbers.min()) for numbers in columns]
    sizes = [int(n.max()) - low + 1 for n, low in zip(columns, least, strict=True)]
    if math.prod(sizes) >= 2**62:
        distinct, whiches = zip(*(np.unique(n, return_inverse=True) for n in columns), strict=True)
        lines, counts = _counted(*(which.reshape(-1) for which in whiches))
        return [n[line] for n, line in zip(distinct, lines, strict=True)], counts
    keys = np.zeros(len(columns[0]), np.int64)
    for numbers, low, size in zip(columns, least, sizes, strict=True):
        keys *= size
        keys += numbers
        keys -= low
    keys.sort()
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(first, append=len(keys))
    keys, lines = keys[first], []
    for low, size in zip(reversed(least), reversed(sizes), strict=True):
        keys, line = np.divmod(keys, size)
        lines.append(line + low)
    return lines[::-1], counts


def _delay_differences(lane: Lane) -> tuple[NDArray[np.int64], NDArray[np.int64], Rows]:
    """The same for metrics of time, one line per change."""
    panes, combinations, before, after = zip(*lane.changes.delays, strict=True)
    differences = score_delays(after, lane.plan) - score_delays(before, lane.plan)
    return np.array(panes, np.int64), np.array(combinations, np.int64), differences


def _add(lane: Lane, key: PaneKey, segments: Integers, sums: Rows) -> None:
    """Add the sums of distinct segments to one pane."""
    rows = lane.panes.get(key)
    if rows is None:
        rows = lane.panes[key] = PagedRows(lane.plan.row_width)
    lane.changes.pages.update((key, page) for page in rows.add(segments, sums))


def _check_sum(differences: Rows, count: int) -> None:
    """Refuse a batch of as many changes that could wrap before its sum is seen."""
    largest = max(int(differences.max()), -int(differences.min()))
    if count * largest >= LARGEST_SUM:
        raise OverflowError(f"{count} changes of up to {largest}: must sum to less than 2^62")


def settle(lane: Lane) -> None:
    """Add the base panes that the watermark has passed to the totals and to their hours, once, and
    close their impressions."""
    watermark = lane.watermark_ms
    if watermark is None:
        return
    timing = lane.plan.timing
    before = pane_start(watermark - timing.settle_ms, timing.base_ms)
    if lane.settled_before is not None and before <= lane.settled_before:
        return
    since, lane.settled_before = lane.settled_before, before
    for key in sorted(key for key in lane.panes if key[0] == 0 and key[1] < before):
        if since is None or key[1] >= since:
            pages = {page: rows for page, rows in lane.panes[key].pages.items() if rows.any()}
            _settle_rows(lane, pages)
            if lane.plan.history_hours:
                _add_to_hour(lane, key[1], before, pages)
    if lane.plan.history_hours:
        _drop_old_hours(lane, before)
    for pane in lane.open.panes():
        if pane < before:
            settle_pane(lane, pane)
            lane.open.close_pane(pane)
    lane.open.trim()


def _settle_rows(lane: Lane, pages: Pages) -> None:
    for page, rows in pages.items():
        lane.totals.add_page(page, rows)
    lane.changes.total_pages.update(pages)


def _add_to_hour(lane: Lane, pane: int, settled_before: int, pages: Pages) -> None:
    start = hours.open_hour(pane, lane.plan)
    if start < hours.kept_from(settled_before, lane.plan):
        return
    into = lane.hours.setdefault(start, PagedRows(lane.plan.row_width))
    for page, rows in pages.items():
        into.add_page(page, rows)
    lane.changes.hour_pages.update((start, page) for page in pages)


def _drop_old_hours(lane: Lane, before: int) -> None:
    """Forget the hours that are kept no longer, among them any that this batch itself settled."""
    first = hours.kept_from(before, lane.plan)
    for start in [start for start in lane.stored_hours if start < first]:
        lane.changes.dropped_hours += ((start, page) for page in lane.stored_hours.pop(start))
    for start in [start for start in lane.hours if start < first]:
        lane.changes.dropped_hours += ((start, page) for page in lane.hours.pop(start).page_numbers)
    lane.changes.hour_pages = {page for page in lane.changes.hour_pages if page[0] >= first}


def drop_old_panes(lane: Lane) -> None:
    """Forget the panes that no view can need any more."""
    watermark = lane.watermark_ms
    if watermark is None:
        return
    timing = lane.plan.timing
    limits = [timing.dropped_before(span, watermark) for span in timing.windows]
    for key in [key for key in lane.panes if key[1] < limits[key[0]]]:
        lane.changes.dropped += ((key, page) for page in lane.panes.pop(key).page_numbers)
    lane.changes.pages = {page for page in lane.changes.pages if page[0] in lane.panes}
