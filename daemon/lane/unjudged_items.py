"""The items that were shown for judged queries and are not judged: what a base pane adds to them.
Pure.

A list counts by the file of judgements that is in force at the time of its impression, once for
each impression, whatever of it was too late to be graded.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from relevanced.metrics import Integers, distinct

from ..judgements import NO_ITEM, Grades, IndexEntry
from ..plan import Plan
from ..queries import PaneSums, with_item
from .impression_columns import OpenSearches
from .judged import LaneJudged, items_of
from .lane import Lane
from .queries import MISSING, SettledSearches, has_same_queries


def settle_missing(lane: Lane, settled: SettledSearches) -> None:
    """Merge the searches of a base pane into MISSING, where that is kept. Raises OverflowError
    where a sum could reach 2^62."""
    assert lane.queries is not None
    if MISSING not in lane.queries.tables:
        return
    assert lane.judged is not None
    slots, found = settled.slots, settled.found
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
