"""What a base pane adds to the tables of queries when it settles: its sums by query, examples, and
the items that were shown for judged queries and are not judged. Pure, and exact.

Lists are whole by then. A list counts by the file of judgements that is in force at the time of its
impression, once for each impression, whatever of it was too late to be graded.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final
from zlib import crc32

import numpy as np

from relevanced.metrics import Integers, distinct

from ..judgements import NO_ITEM, Grades, IndexEntry
from ..panes import pane_start
from ..plan import EXPERIMENT_PREFIX, NONE, OTHER, Plan
from ..queries import (
    FIRST_ITEMS,
    FIRST_ROWS,
    NO_QUERY,
    NO_SCORE,
    Example,
    Order,
    PaneSums,
    QueryTable,
    first_examples,
    grouped_sums,
    order_of,
    with_item,
    with_segment,
)
from .admission import attribute_values
from .columns.arrays import new_column
from .gain_states import score_delays
from .judged import LaneJudged, items_of
from .lane import BEFORE, Lane
from .new_impressions import OpenSearches, QueryKeys, SearchColumns
from .queries import (
    BY,
    MISSING,
    QUERY_COUNT_COLUMNS,
    WHOLE,
    ZERO,
    has_same_queries,
    queries_kept_from,
    queries_of,
)

_SCORED: Final = len(QUERY_COUNT_COLUMNS)
"""The column, of those of WHOLE, in which the first metric says whether it is defined."""
_ANY: Final[Order] = (NO_SCORE + 1, 0, b"", 0)
_NONE: Final[Order] = (-NO_SCORE, 0, b"", 0)
"""Every search comes before the one, and none before the other."""


@dataclass(frozen=True)
class SettledSearches:
    """The n searches of a base pane that was just merged into WHOLE."""

    slots: Integers
    keys: Sequence[str]
    """The distinct keys of their queries, (k,)."""
    which: Integers
    """For each search, the index of its key, (n,)."""
    lines: Integers
    """What each added to the table, (n, columns)."""


def take_examples(lane: Lane, settled: SettledSearches) -> None:
    """Take examples from the searches of a base pane."""
    queries = lane.queries
    assert queries is not None
    count, table, examples = queries.plan.examples, queries.tables[WHOLE], queries.examples
    if not count:
        return
    if table.is_cut:
        examples.follow(table)
    for key, candidates in _candidates(lane, settled).items():
        kept = examples.by_key.get(key, ())
        new = [_example(lane, order, slot) for order, slot in nsmallest(count, candidates)]
        after = first_examples((*kept, *new), count)
        if after != kept:
            examples.put(key, after)


def _candidates(lane: Lane, settled: SettledSearches) -> dict[str, list[tuple[Order, int]]]:
    """(order, slot) of the searches that come before the last example of their query, or whose
    query has too few examples yet, by key."""
    assert lane.queries is not None
    eligible = _eligible(lane.queries.tables[WHOLE])
    lasts = {n: _last(lane, key) for n, key in enumerate(settled.keys) if key in eligible}
    if not lasts:
        return {}
    last_scores, last_marks = (np.full(len(settled.keys), value, np.int64) for value in _NONE[:2])
    for n, last in lasts.items():
        last_scores[n], last_marks[n] = last[:2]
    scores = _sort_scores(lane.plan, settled.lines)
    members = np.flatnonzero(scores <= last_scores[settled.which])
    ids = lane.open.ids.at(lane.open.index_of(settled.slots[members]))
    # Most scores are equal. What also comes after in the order of equal ones needs no tuple.
    marks = np.fromiter(map(crc32, ids), np.int64, len(ids))
    before = scores[members] < last_scores[settled.which[members]]
    before |= marks <= last_marks[settled.which[members]]
    found: dict[str, list[tuple[Order, int]]] = defaultdict(list)
    for at in np.flatnonzero(before).tolist():
        member = int(members[at])
        slot, distinct_index = int(settled.slots[member]), int(settled.which[member])
        time_ms = lane.open.times_ms[lane.open.index_of(slot)]
        order = order_of(int(scores[member]), ids[at], time_ms)
        if order < lasts[distinct_index]:
            found[settled.keys[distinct_index]].append((order, slot))
    return found


def _eligible(table: QueryTable) -> set[str]:
    """The keys of the rows for which examples are taken."""
    enough = np.ones(len(table), np.bool_)
    if table.min_users:
        enough = table.users.has_enough(np.arange(len(table)))
    return {table.keys[row] for row in table.first_wanted(FIRST_ROWS, enough)} - {NO_QUERY}


def _last(lane: Lane, key: str) -> Order:
    """What a search of the query must come before to become an example."""
    assert lane.queries is not None
    kept = lane.queries.examples.by_key.get(key, ())
    return _ANY if len(kept) < lane.queries.plan.examples else kept[-1].order


def _sort_scores(plan: Plan, lines: Integers) -> Integers:
    """(n,) what each search is ordered by."""
    sums = lines[:, _SCORED + 1]
    sign = -1 if plan.metrics[0].direction == "down" else 1
    return np.where(lines[:, _SCORED] > 0, sign * sums, NO_SCORE)


def _example(lane: Lane, order: Order, slot: int) -> Example:
    index = lane.open.index_of(slot)
    items = tuple(lane.open.list_of(slot)[:FIRST_ITEMS])
    gains = [0.0] * len(items)
    for rank0, gain in lane.states[int(new_column(lane.open.states)[index])][1]:
        if rank0 < len(items):
            gains[rank0] = float(gain)  # also where a grade was written as an integer
    segments = _segments_of(lane, index)
    assert lane.queries is not None
    by = lane.queries.plan.by
    sort_score, _, impression_id, time_ms = order
    return Example(
        sort_score=sort_score,
        impression_id=impression_id.decode(),
        time_ms=time_ms,
        items=items,
        gains=tuple(gains),
        attributes=_attributes(lane.plan, segments),
        segment="" if by is None else segments[lane.plan.grouping_names.index(by)],
    )


def _segments_of(lane: Lane, index: int) -> list[str]:
    """The segment of the impression at an index in each grouping, the whole first."""
    combination = int(new_column(lane.open.combinations)[index])
    ids = lane.segments.combinations[combination]
    return [lane.segments.names[segment_id][1] for segment_id in ids]


def _attributes(plan: Plan, segments: list[str]) -> dict[str, str]:
    """The values of attributes that segments say. Whoever searched is left out."""
    assert plan.queries is not None
    found: dict[str, str] = {}
    for names, segment in zip(plan.groupings, segments[1:], strict=True):
        if segment in (OTHER, BEFORE):
            continue
        for name, value in zip(names, attribute_values(segment), strict=True):
            is_attribute = not name.startswith(EXPERIMENT_PREFIX) and name != plan.queries.user
            if is_attribute and value != NONE:
                found[name] = value
    return found


def settle_missing(lane: Lane, slots: Integers, found: OpenSearches) -> None:
    """Merge the impressions of a base pane, (n,) slots and their searches, into MISSING. Raises
    OverflowError where a sum could reach 2^62."""
    assert lane.queries is not None and lane.judged is not None
    ids: dict[str, int] = {}
    pairs: list[int] = []
    of_pairs: list[int] = []
    for (key, text), indices, grades in _lists(lane, lane.judged, slots, found):
        for item in _unjudged(text, grades, lane.plan.missing_depth):
            pair = ids.setdefault(with_item(key, item), len(ids))
            pairs += [pair] * len(indices)
            of_pairs += indices
    searched = np.array(pairs, np.int64)
    sums = np.bincount(searched, minlength=len(ids)).astype(np.int64).reshape(-1, 1)
    users = found.users[np.array(of_pairs, np.int64)]
    lane.queries.tables[MISSING].settle(PaneSums(list(ids), sums, searched, users))


def _lists(
    lane: Lane, judged: LaneJudged, slots: Integers, found: OpenSearches
) -> Iterator[tuple[tuple[str, bytes], list[int], Grades]]:
    """The distinct lists of judged queries, (key of the query, list as text); for each the indices
    of the impressions that showed it, and the grades of the query."""
    assert lane.queries is not None
    for entry, indices in _by_file(lane, judged, slots):
        by_query, numbers = (judged.files.contents or {})[entry].by_query, found.numbers[indices]
        used = distinct(numbers)
        keys = zip(used.tolist(), lane.queries.keys.keys_of(used), strict=True)
        graded = {number: key for number, key in keys if key in by_query}
        lists: dict[tuple[str, bytes], list[int]] = defaultdict(list)
        for index in indices[np.isin(numbers, list(graded))].tolist():
            key = graded[int(found.numbers[index])]
            lists[key, lane.open.text_of(int(slots[index]))].append(index)
        for shown, of_list in lists.items():
            yield shown, of_list, by_query[shown[0]]


def _by_file(
    lane: Lane, judged: LaneJudged, slots: Integers
) -> Iterator[tuple[IndexEntry, Integers]]:
    """The files that are in force at the times of impressions, each with their indices."""
    entries = judged.files.in_use.entries
    starts = np.array([entry.start_ms for entry in entries], np.int64)
    times_ms = lane.open.times_ms.at(lane.open.index_of(slots))
    files = np.searchsorted(starts, times_ms, side="right") - 1
    for file in np.unique(files[files >= 0]).tolist():
        yield entries[file], np.flatnonzero(files == file)


def _unjudged(text: bytes, grades: Grades, depth: int) -> list[str]:
    """The items of the first places of a list that have no grade, each once."""
    items = dict.fromkeys(items_of(text)[:depth])
    return [item for item in items if item != NO_ITEM and item not in grades]


def has_same_missing(one: Plan, other: Plan) -> bool:
    """Whether MISSING goes on from one plan to the other."""
    if not one.missing or not other.missing:
        return one.missing == other.missing
    return has_same_queries(one, other) and one.judged == other.judged


def begin_missing(lane: Lane, next_pane_ms: int | None) -> None:
    """Begin MISSING where the plan of the lane asks for it, with the first hour whose impressions
    all come from now on: in panes from `next_pane_ms` on. That of the open hour is dropped."""
    queries, hour_ms = lane.queries, lane.plan.hour_ms
    if queries is None:
        return
    queries.tables.pop(MISSING, None)
    is_later = lane.plan.missing and next_pane_ms is not None
    queries.missing_since_ms = -(-(next_pane_ms or 0) // hour_ms) * hour_ms if is_later else None


_ROW_COLUMNS: Final = (0, 2, 1)
"""Of a row of the plan: those of `queries.COUNT_COLUMNS`."""


def settle_queries(lane: Lane, start_ms: int) -> None:
    """Merge the open impressions of one base pane into the tables of its hour, before they are
    closed. Raises OverflowError where a sum could reach 2^62."""
    queries, searches, plan = lane.queries, lane.open.searches, lane.plan
    assert queries is not None and searches is not None
    hour = pane_start(start_ms, plan.hour_ms)
    if queries.since_ms is not None and hour < queries.since_ms:
        return
    slots = lane.open.pane_slots(start_ms)
    if not len(slots):
        return
    if hour != queries.hour_ms:
        queries.begin_hour(hour, plan)
    index = lane.open.index_of(slots)
    lines, found = _lines(lane, slots, index), searches.at(index)
    tables, keys = queries.tables, queries.keys
    texts, which = _settle(tables[WHOLE], keys, lines, found)
    take_examples(lane, SettledSearches(slots, texts, which, lines))
    if BY in tables:
        segments = _segments(lane, index)
        _settle_by(lane, tables[BY], segments, lines, found)
    empty = lines[:, 1] > 0
    if empty.any():
        of_empty = OpenSearches(found.numbers[empty], found.users[empty])
        _settle(tables[ZERO], keys, lines[empty, 1:2], of_empty)
    if MISSING in tables:
        settle_missing(lane, slots, found)


def close_hours(lane: Lane, settled_before: int) -> None:
    """Close the hour that settling has left behind, and drop those that are kept no longer."""
    queries, hour_ms = lane.queries, lane.plan.hour_ms
    assert queries is not None
    if queries.hour_ms is not None and queries.hour_ms + hour_ms <= settled_before:
        queries.close()
    queries.examples.keep_from(settled_before, hour_ms)
    first = queries_kept_from(settled_before, queries.plan, hour_ms)
    queries.lost = {start for start in queries.lost if start >= first}
    queries.closed = {s: tables for s, tables in queries.closed.items() if s >= first}
    for start in [start for start in queries.stored if start < first]:
        del queries.stored[start]
        queries.dropped.append(start)


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
        lane.queries.examples.follow_plan(before.examples, lane.queries.plan.examples)
        lane.queries.closed_parts = [(before.hour_ms or 0, number) for number in before.parts]
