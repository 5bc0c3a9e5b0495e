"""From changes of gain states to rows: what a batch adds to the panes of every window, and to
judged rows.

Pure, and exact: all sums are int64, so they do not depend on order or on how the log was cut into
batches.

    changes ─▶ one difference per (base pane, combination) ─▶ rows of every window's pane

The steps are ordered so that each sees few lines: the changes of a batch are counted first (equal
changes are one line), then summed by pane and combination, of each window only what it keeps, and
only then spread over segments. A longer window is summed from the longest panes before it that
divide its own and are whole, not from the changes.

Judged panes are final at their end + lateness: they are added to their hours half an hour before
those of clicks settle, and dropped with them.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Integers

from ..panes import pane_start
from . import kept_rows
from .columns.arrays import grouped, new_column
from .columns.texts import Texts
from .gain_states import score_delays
from .judged import ShownInBatch, ShownLists
from .lane import Lane
from .row_sets import LARGEST_SUM, Rows, RowSet

MOST_IN_RUN: Final = 16
"""Runs of more rows are not summed row by row: one pane may have all searches of a batch."""


def apply_changes(lane: Lane, left_out: Integers | None = None) -> None:
    """Add what the batch changed to the rows of all windows, but in the columns that are left out.

    Raises OverflowError where a counter could reach 2^62.
    """
    changes = lane.changes
    parts = [_differences(lane)] if len(changes.panes) else []
    if changes.delays:
        parts.append(_delay_differences(lane))
    if not parts:
        return
    starts, combinations, differences = map(np.concatenate, zip(*parts, strict=True))
    if left_out is not None:
        differences[:, left_out] = 0
    _add_to(lane, lane, starts, combinations, differences)


def _add_to(
    into: RowSet, lane: Lane, starts: Integers, combinations: Integers, differences: Rows
) -> None:
    """Add to the rows of the panes of all windows: line n of the differences is that of a base pane
    and a combination.

    A batch of a sparse recording spans more time than panes are kept. Those that it leaves behind
    get no rows: what is final of them is added by the hour.
    """
    timing, watermark = lane.plan.timing, lane.watermark_ms
    table = lane.segments.combination_table()
    base = _Sums(timing.base_ms, starts, combinations, differences, np.arange(len(starts)))
    whole = [base]  # what nothing is left out of: longer windows keep more
    for index, span in enumerate(timing.windows):
        # Panes of 50 s are multiples of base panes of 10 s, but make no panes of 120 s.
        finer = next(each for each in reversed(whole) if span.pane_ms % each.pane_ms == 0)
        kept = finer
        if watermark is not None:
            kept = finer.since(timing.dropped_before(span, watermark))
        by_combination = kept if kept.pane_ms == span.pane_ms else _summed(kept, span.pane_ms)
        if kept is finer:
            whole.append(by_combination)
        by_segment = _summed(_spread(by_combination, table), span.pane_ms)
        for start, inside in grouped(by_segment.starts):
            into.add_rows((index, start), by_segment.ids[inside], by_segment.rows[inside])
    if watermark is not None:
        left = base.before(timing.dropped_before(timing.windows[0], watermark))
        by_hour = _summed(left, lane.plan.hour_ms)
        by_hour = _summed(_spread(by_hour, table), lane.plan.hour_ms)
        before = timing.settled_before(watermark)
        for hour, inside in grouped(by_hour.starts):
            segments, rows = by_hour.ids[inside], by_hour.rows[inside]
            into.add_left_behind(hour, segments, rows, before, lane.plan)


class _Sums(NamedTuple):
    """Rows of panes of one length: line n counts `rows[lines[n]]` in the pane that starts at
    `starts[n]`, and in the combination or segment `ids[n]`."""

    pane_ms: int
    starts: Integers
    ids: Integers
    rows: Rows
    lines: Integers

    def since(self, first_ms: int) -> "_Sums":
        """The lines from an instant on: itself where there are no others."""
        is_kept = self.starts >= first_ms
        return self if is_kept.all() else self._of(is_kept)

    def before(self, first_ms: int) -> "_Sums":
        """The lines before an instant."""
        return self._of(self.starts < first_ms)

    def _of(self, which: NDArray[np.bool_]) -> "_Sums":
        starts, ids, lines = self.starts[which], self.ids[which], self.lines[which]
        return self._replace(starts=starts, ids=ids, lines=lines)


def _spread(sums: _Sums, table: Integers) -> _Sums:
    """Each combination counts in one segment per grouping."""
    segments = table[sums.ids]
    lines = np.repeat(np.arange(len(segments)), segments.shape[1])
    return sums._replace(
        starts=sums.starts[lines], ids=segments.reshape(-1), lines=sums.lines[lines]
    )


def _summed(finer: _Sums, pane_ms: int) -> _Sums:
    """The same by panes of `pane_ms`: the distinct pairs (pane start, id), ascending, and their
    sums."""
    if not len(finer.starts):
        return finer._replace(pane_ms=pane_ms)
    # Times are below 10^14 ms and panes at least a second: pane and id fit into one int64.
    panes, most = finer.starts // pane_ms, int(finer.ids.max()) + 1
    keys = panes * most + finer.ids
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
    sums = _sums_of_runs(finer.rows, finer.lines[order], first)
    panes, summed = np.divmod(keys[first], most)
    return _Sums(pane_ms, panes * pane_ms, summed, sums, np.arange(len(sums)))


def _sums_of_runs(rows: Rows, lines: Integers, first: Integers) -> Rows:
    """The sums of the runs of `rows[lines]` that begin at `first`, ascending from 0."""
    lengths = np.diff(first, append=len(lines))
    if 4 * len(first) < 3 * len(lines) or lengths.max(initial=0) > MOST_IN_RUN:
        return np.asarray(np.add.reduceat(rows.take(lines, axis=0), first, axis=0))
    # Of a sparse recording most runs have one row, which reduceat copies slowly.
    sums, added = rows.take(lines[first], axis=0), 1
    while len(longer := np.flatnonzero(lengths > added)):
        sums[longer] += rows.take(lines[first[longer] + added], axis=0)
        added += 1
    return sums


def _differences(lane: Lane) -> tuple[Integers, Integers, Rows]:
    """(base pane, combination, difference of rows), one line per pane and combination that
    changed."""
    changes, rows = lane.changes, lane.states.rows()
    columns = (changes.panes, changes.combinations, changes.before, changes.after)
    (panes, combinations, before, after), counts = _counted(*map(new_column, columns))
    # `take` of whole rows costs a fifth of indexing with an array.
    differences = rows.take(after, axis=0) - rows.take(before, axis=0)
    _check_sum(differences, len(changes.panes))
    differences *= counts[:, np.newaxis]
    first = np.flatnonzero(
        (np.diff(panes, prepend=-1) != 0) | (np.diff(combinations, prepend=-1) != 0)
    )
    return (
        panes[first],
        combinations[first],
        _sums_of_runs(differences, np.arange(len(panes)), first),
    )


def summed_by_pane(
    base_ms: int, panes: Integers, combinations: Integers, rows: Rows
) -> tuple[Integers, Integers, Rows]:
    """(base pane, combination, sum of rows), one line per pane and combination."""
    _check_sum(rows, len(panes))
    found = _summed(_Sums(base_ms, panes, combinations, rows, np.arange(len(panes))), base_ms)
    return found.starts, found.ids, found.rows


def _counted(*columns: Integers) -> tuple[list[Integers], Integers]:
    """The distinct lines of columns, ascending, and how often each occurs.

    Each line is packed into one integer to be sorted: a sort of integers is many times as fast as
    one of lines.
    """
    least = [int(values.min()) for values in columns]
    sizes = [int(n.max()) - low + 1 for n, low in zip(columns, least, strict=True)]
    if math.prod(sizes) >= 2**62:
        # Too large for one integer: count lines of indices into the distinct values instead.
        distinct, indices = zip(*(np.unique(n, return_inverse=True) for n in columns), strict=True)
        lines, counts = _counted(*(index.reshape(-1) for index in indices))
        return [n[line] for n, line in zip(distinct, lines, strict=True)], counts
    keys = np.zeros(len(columns[0]), np.int64)
    for values, low, size in zip(columns, least, sizes, strict=True):
        keys *= size
        keys += values
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
    """The same for the metrics of time, one line per change of a delay."""
    panes, combinations, before, after = zip(*lane.changes.delays, strict=True)
    differences = score_delays(after, lane.plan) - score_delays(before, lane.plan)
    return np.array(panes, np.int64), np.array(combinations, np.int64), differences


def _check_sum(differences: Rows, count: int) -> None:
    """Raise OverflowError for `count` changes whose sum could wrap around before it is checked."""
    largest = max(int(differences.max()), -int(differences.min()))
    if count * largest >= LARGEST_SUM:
        raise OverflowError(f"{count} changes of up to {largest}: must sum to less than 2^62")


IMPRESSION: Final = "impression"
PAGE: Final = "page"
"""Labels of `judged_late`: a new impression, and what changed the list of one."""


def _texts_at(
    texts: Texts, index: Integers, now: Mapping[int, bytes], which: Integers
) -> Sequence[bytes]:
    """The lists at `which` of the places `index`, but what is `now` there where a record changed
    one."""
    found = texts.at(index[which])
    if now:
        return [now.get(n, text) for n, text in zip(which.tolist(), found, strict=True)]
    return found


def grade_shown(lane: Lane) -> None:
    """Grade the lists that the batch has shown so far, and add them to the judged rows. Raises
    OverflowError where a counter could reach 2^62."""
    judged = lane.judged
    if judged is None:
        return
    shown, judged.shown = judged.shown, ShownInBatch(judged.from_slot)
    if not len(shown) or judged.files.contents is None:  # a command without files grades nothing
        return
    assert lane.open.searches is not None and lane.query_keys is not None
    index, watermarks_ms = lane.open.index_of(shown.slots), shown.watermarks_ms
    times_ms = lane.open.times_ms.at(index)
    lists = ShownLists(
        queries=lane.open.searches.at(index).numbers,
        keys=lane.query_keys,
        times_ms=times_ms,
        watermarks_ms=watermarks_ms,
        texts_at=partial(_texts_at, lane.open.items, index, shown.now),
        before=shown.before,
    )
    graded = judged.grader.grade(lists, judged.files.in_use, judged.files.contents, judged.since_ms)
    late = np.flatnonzero(graded.is_late).tolist()
    pages = sum(n in shown.before for n in late)
    for label, count in ((IMPRESSION, len(late) - pages), (PAGE, pages)):
        if count:
            lane.count("judged_late", label, count)
    which = np.flatnonzero(graded.is_judged)
    if not len(which):
        return
    base_ms = lane.plan.timing.base_ms
    combinations = new_column(lane.open.combinations)[index[which]].astype(np.int64)
    starts, combinations, rows = summed_by_pane(
        base_ms, pane_start(times_ms[which], base_ms), combinations, graded.rows[which]
    )
    _add_to(judged, lane, starts, combinations, rows)


def settle_optional_rows(lane: Lane) -> None:
    """Settle the rows that wait for no feedback, and let files of judgements go that nothing needs
    any more. After the lane has settled."""
    watermark = lane.watermark_ms
    if watermark is None:
        return
    assert lane.settled_before is not None
    for rows in lane.optional_rows.values():
        rows.settle(watermark, lane.settled_before, lane.plan)
    if lane.judged is not None:
        kept_from = kept_rows.rows_kept_from(watermark, lane.settled_before, lane.plan)
        lane.judged.files.let_go(watermark, lane.plan.timing, kept_from)
