"""What a base pane adds to the tables of queries when it settles. Pure, and exact.

Lists are whole by then.
"""

from typing import Final

import numpy as np

from relevanced.metrics import Integers

from ..panes import pane_start
from ..queries import PaneSums, QueryTable, grouped_sums, with_segment
from .columns.arrays import new_column
from .gain_states import score_delays
from .impression_columns import OpenSearches, QueryKeys, SearchColumns
from .lane import Lane
from .queries import BY, WHOLE, ZERO, SettledSearches, queries_kept_from, queries_of

_ROW_COLUMNS: Final = (0, 2, 1)
"""Of a row of the plan: those of `queries.COUNT_COLUMNS`."""


def settle_queries(lane: Lane, start_ms: int) -> SettledSearches | None:
    """Merge the open impressions of one base pane into the tables of its hour, before they are
    closed; None where there are none. Raises OverflowError where a sum could reach 2^62."""
    queries, searches, plan = lane.queries, lane.open.searches, lane.plan
    assert queries is not None and searches is not None
    hour = pane_start(start_ms, plan.hour_ms)
    if queries.since_ms is not None and hour < queries.since_ms:
        return None
    slots = lane.open.pane_slots(start_ms)
    if not len(slots):
        return None
    if hour != queries.hour_ms:
        queries.begin_hour(hour, plan)
    index = lane.open.index_of(slots)
    lines, found = _lines(lane, slots, index), searches.at(index)
    tables, keys = queries.tables, queries.keys
    texts, which = _settle(tables[WHOLE], keys, lines, found)
    if BY in tables:
        segments = _segments(lane, index)
        _settle_by(lane, tables[BY], segments, lines, found)
    empty = lines[:, 1] > 0
    if empty.any():
        of_empty = OpenSearches(found.numbers[empty], found.users[empty])
        _settle(tables[ZERO], keys, lines[empty, 1:2], of_empty)
    return SettledSearches(slots, found, texts, which, lines)


def close_hours(lane: Lane, settled_before: int) -> None:
    """Close the hour that settling has left behind, and drop those that are kept no longer."""
    queries, hour_ms = lane.queries, lane.plan.hour_ms
    assert queries is not None
    if queries.hour_ms is not None and queries.hour_ms + hour_ms <= settled_before:
        queries.close()
    queries.examples.keep_from(settled_before, hour_ms)
    queries.keep_from(queries_kept_from(settled_before, queries.plan, hour_ms))


def _lines(lane: Lane, slots: Integers, index: Integers) -> Integers:
    """(n, columns): what each impression adds to WHOLE."""
    plan = lane.plan
    firsts = [plan.metric_column(n) for n in range(len(plan.metrics))]
    columns = [*_ROW_COLUMNS, *(first + part for first in firsts for part in (0, 1))]
    states = new_column(lane.open.states)[index].astype(np.int64)
    lines = lane.states.rows().take(states, axis=0)[:, columns]  # few rows of a large table
    delays = lane.open.delays_ms
    timed = [n for n, slot in enumerate(slots.tolist()) if slot in delays] if delays else []
    if timed:
        delays_ms = [delays[slot] for slot in slots[timed].tolist()]
        lines[timed] += score_delays(delays_ms, plan)[:, columns]
    return lines


def _segments(lane: Lane, index: Integers) -> Integers:
    """(n,): the segment id of each impression in the grouping of BY."""
    assert lane.plan.queries is not None and lane.plan.queries.by is not None
    grouping = lane.plan.grouping_names.index(lane.plan.queries.by)
    combinations = new_column(lane.open.combinations)[index]
    segments: Integers = lane.segments.combination_table()[combinations, grouping].astype(np.int64)
    return segments


def _settle(
    table: QueryTable, keys: QueryKeys, lines: Integers, found: OpenSearches
) -> tuple[list[str], Integers]:
    """Returns the distinct keys, (k,), and for each search the index of its own, (n,)."""
    distinct_numbers, sums, which = grouped_sums(found.numbers, lines)
    texts = keys.keys_of(distinct_numbers)
    table.settle(PaneSums(texts, sums, which, found.users))
    return texts, which


def _settle_by(
    lane: Lane, table: QueryTable, segments: Integers, lines: Integers, found: OpenSearches
) -> None:
    assert lane.queries is not None
    keys, size = lane.queries.keys, len(lane.queries.keys)
    pairs = segments * size + found.numbers
    distinct_pairs, sums, which = grouped_sums(pairs, lines)
    names = lane.segments.names
    of_segments = (names[segment][1] for segment in (distinct_pairs // size).tolist())
    texts = list(map(with_segment, keys.keys_of(distinct_pairs % size), of_segments))
    table.settle(PaneSums(texts, sums, which, found.users))


def begin_queries(lane: Lane, next_pane_ms: int | None) -> None:
    """Begin the tables that the plan of the lane asks for, with the first hour whose impressions
    all come from now on: in panes from `next_pane_ms` on. Hours that are over stay as they are
    stored; the open one is dropped."""
    before, hour_ms = lane.queries, lane.plan.hour_ms
    since = None if next_pane_ms is None else -(-next_pane_ms // hour_ms) * hour_ms
    lane.queries = queries_of(lane.plan, since)
    lane.open.searches = None
    if lane.queries is None:
        return
    lane.open.searches = SearchColumns()
    lane.open.searches.extend(None, len(lane.open.times_ms))
    if before is not None:
        lane.queries.stored, lane.queries.lost = before.stored, before.lost
        lane.queries.kept_from_ms = before.kept_from_ms
        lane.queries.examples.follow_plan(before.examples, lane.queries.plan.examples)
        lane.queries.closed_parts = [(before.hour_ms or 0, number) for number in before.parts]
