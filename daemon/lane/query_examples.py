"""Which searches of a base pane become the examples of their queries. Pure, and exact."""

from collections import defaultdict
from heapq import nsmallest
from typing import Final
from zlib import crc32

import numpy as np

from relevanced.metrics import Integers

from ..plan import EXPERIMENT_PREFIX, NONE, OTHER, Plan
from ..queries import (
    FIRST_ITEMS,
    FIRST_ROWS,
    NO_QUERY,
    NO_SCORE,
    Example,
    Order,
    QueryTable,
    first_examples,
    order_of,
)
from .columns.arrays import new_column
from .lane import BEFORE, Lane
from .queries import QUERY_COUNT_COLUMNS, WHOLE, SettledSearches
from .segment_admission import attribute_values

_SCORED: Final = len(QUERY_COUNT_COLUMNS)
"""The column, of those of WHOLE, in which the first metric says whether it is defined."""
_ANY: Final[Order] = (NO_SCORE + 1, 0, b"", 0)
_NONE: Final[Order] = (-NO_SCORE, 0, b"", 0)
"""Every search comes before the one, and none before the other."""


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
