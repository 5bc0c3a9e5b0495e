"""The scores of shown lists by judgements, and how much of them is judged. Pure.

As `relevanced eval` scores a run: the ideal of nDCG is made of all judged items of the query, shown
or not; a grade below 0 has no gain and does not belong to the ideal, but its item is judged.

What an item is worth that nobody has judged is not known. Counted as 0, any ranker that shows other
items looks worse, however good they are. So each list has a second score, its *best case*: an item
without a judgement is as good as the judged item of its query that has this place in the ideal
order. Of 390 simulated changes both together call none wrongly, the score alone 112
(`tests/bench/unjudged.py`). The best case follows from
the list and the file alone, as the score does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Final, Literal, TypeAlias

import numpy as np

from relevanced.metrics import Floats, Integers, Lists, Metric, by_column, parse

Grades: TypeAlias = Mapping[str, float]
"""Item → grade, of one query."""
Unjudged: TypeAlias = Literal["zero", "skip"]
"""What an unjudged item is: one without gain, or none at all (a condensed list)."""

IDEAL: Final = "pool"
PROVIDER: Final = "judgements and lists"
CONDENSED: Final = "~condensed"
"""Ends the meaning of a metric of lists without their unjudged items."""
NO_ITEM: Final = ""
"""No item has this id: it is never judged."""
MOST_CELLS: Final = 2**21
"""Lists are scored in parts, so that an array of grades has at most so many cells: a query may have
thousands of judged items."""


@dataclass(frozen=True)
class JudgedPlan:
    """The judged metrics, and how lists are scored."""

    metrics: tuple[Metric, ...]
    unjudged: Unjudged = "zero"

    @property
    def column_ids(self) -> tuple[str, ...]:
        """What the columns of each metric mean, whatever plan they stand in."""
        suffix = CONDENSED if self.unjudged == "skip" else ""
        return tuple(metric.full_name + suffix for metric in self.metrics)

    @property
    def depth(self) -> int:
        """The first so many places are looked at for how much is judged."""
        return max((metric.k or 0 for metric in self.metrics), default=0)


@dataclass(frozen=True, eq=False)
class JudgedLists:
    """What n lists come to."""

    scores: Floats
    """(n, metrics), NaN where undefined."""
    best_case: Floats
    """(n, metrics), the same in the best case of the items without a judgement."""
    places: Integers
    """(n,) places of the list within the plan's depth."""
    judged_places: Integers
    """(n,) those whose item is judged."""


def judged_plan(
    names: Sequence[str], *, relevant_from: float, max_grade: float, unjudged: Unjudged = "zero"
) -> JudgedPlan:
    """The plan of the metrics of these names. Raises ValueError with a line for each that names
    none, or one that needs more than judgements."""
    metrics: list[Metric] = []
    faults = []
    for name in names:
        try:
            metric = parse(name, relevant_from=relevant_from, max_grade=max_grade, ideal=IDEAL)
        except ValueError as error:
            faults.append(str(error))
            continue
        refusal = metric.refusal(["pool"], provider=PROVIDER)
        if refusal is not None:
            faults.append(refusal)
        elif metric in metrics:
            faults.append(f"{name}: is named twice")
        else:
            metrics.append(metric)
    if faults:
        raise ValueError("\n".join(faults))
    return JudgedPlan(tuple(metrics), unjudged)


def score(
    shown: Sequence[Sequence[str]], grades: Sequence[Grades], plan: JudgedPlan
) -> JudgedLists:
    """Score lists of items, each in shown order, by the grades of its query.

    `grades` is one mapping for each list, with at least one item. An item that is shown twice has
    its grade at its first place, and is unjudged at the others. An empty list scores 0 wherever the
    metric is defined for the query. The scores of a list are the same to the last bit in any batch.
    Raises ValueError for a grade outside the scale of a metric.
    """
    parts = [
        _score(shown[start:end], grades[start:end], plan) for start, end in _parts(shown, grades)
    ]
    if not parts:
        nothing, no_scores = np.zeros(0, np.int64), np.zeros((0, len(plan.metrics)))
        return JudgedLists(no_scores, no_scores, nothing, nothing)
    return JudgedLists(
        np.concatenate([part.scores for part in parts]),
        np.concatenate([part.best_case for part in parts]),
        np.concatenate([part.places for part in parts]),
        np.concatenate([part.judged_places for part in parts]),
    )


def _parts(shown: Sequence[Sequence[str]], grades: Sequence[Grades]) -> Iterator[tuple[int, int]]:
    """(start, end) of runs of lists whose arrays stay within `MOST_CELLS`, at least one list."""
    start = width = 0
    for index, (items, of_query) in enumerate(zip(shown, grades, strict=True)):
        width = max(width, len(items), len(of_query))
        if index > start and (index + 1 - start) * width > MOST_CELLS:
            yield start, index
            start, width = index, max(len(items), len(of_query))
    if len(shown) > start:
        yield start, len(shown)


def _score(
    shown: Sequence[Sequence[str]], grades: Sequence[Grades], plan: JudgedPlan
) -> JudgedLists:
    once = [_first_places(items) for items in shown]
    whole = _lists(once, grades)
    used = whole
    if plan.unjudged == "skip":
        condensed = [
            [item for item in items if item in of_query] for items, of_query in zip(once, grades)
        ]
        used = _lists(condensed, grades)
    filled = _filled(whole, once)
    scores, best_case = np.empty((2, len(shown), len(plan.metrics)))
    for index, metric in enumerate(plan.metrics):
        # How much is judged is asked of the list as it was shown.
        as_shown = metric.name.startswith("Judged")
        scores[:, index] = metric.values(whole if as_shown else used)
        # What is filled in may repeat the best items: no list is better than the ideal one.
        best_case[:, index] = np.minimum(
            metric.values(whole if as_shown else filled), metric.entry.range[1]
        )
    depth = plan.depth or whole.depth
    return JudgedLists(
        scores,
        best_case,
        np.minimum(whole.lengths, depth),
        _judged_places(whole, depth),
    )


def _filled(lists: Lists, shown: Sequence[Sequence[str]]) -> Lists:
    """The lists with the grades of the ideal order at the places whose item is not judged. What is
    no item of its own, as one that is shown again, stays without gain."""
    assert lists.assessed is not None and lists.pool is not None
    is_item = np.arange(lists.depth) < lists.lengths[:, None]
    is_item[is_item] = [item != NO_ITEM for items in shown for item in items]
    is_open = is_item & ~lists.assessed
    width = min(lists.depth, lists.pool.shape[1])
    ideal = np.zeros(lists.gains.shape)
    ideal[:, :width] = -np.sort(-np.nan_to_num(lists.pool), axis=1)[:, :width]
    return replace(
        lists,
        gains=by_column(np.where(is_open, ideal, lists.gains)),
        judged=lists.judged | is_open,
        assessed=lists.assessed | is_open,
    )


def _judged_places(lists: Lists, depth: int) -> Integers:
    """(n,) of the first `depth` places, those whose item is judged with any grade."""
    assessed = lists.judged if lists.assessed is None else lists.assessed
    return np.asarray(assessed[:, :depth].sum(axis=1), np.int64)


def _first_places(items: Sequence[str]) -> Sequence[str]:
    """The items, NO_ITEM where one stands further up already."""
    if len(set(items)) == len(items):
        return items
    first = {item: rank for rank, item in reversed(list(enumerate(items)))}
    return [item if first[item] == rank else NO_ITEM for rank, item in enumerate(items)]


def _lists(shown: Sequence[Sequence[str]], grades: Sequence[Grades]) -> Lists:
    """The lists by the grades of their queries, with all judged items of the query as pool."""
    lengths = np.array([len(items) for items in shown], np.int64)
    inside = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
    # One list after the other, as `inside` is filled.
    of_lists = (map(q.get, items, repeat(np.nan)) for items, q in zip(shown, grades, strict=True))
    found = chain.from_iterable(of_lists)
    values: Floats = np.full(inside.shape, np.nan)
    values[inside] = np.fromiter(found, np.float64, int(lengths.sum()))
    judged = values >= 0  # neither NaN nor a grade below 0
    return Lists(
        gains=by_column(np.where(judged, values, 0.0)),
        lengths=lengths,
        judged=judged,
        pool=_pools(grades),
        assessed=~np.isnan(values),
    )


def _pools(grades: Sequence[Grades]) -> Floats:
    """(n, width) the grades of all judged items of each list's query, padded with NaN."""
    # Many lists of a batch are of one query: its grades are gathered once.
    of_each = {id(of_query): of_query for of_query in grades}
    row_of = {identity: row for row, identity in enumerate(of_each)}
    pools = [[grade for grade in of_query.values() if grade >= 0] for of_query in of_each.values()]
    padded: Floats = np.full((len(pools), max(map(len, pools), default=0)), np.nan)
    for row, pool in zip(padded, pools):
        row[: len(pool)] = pool
    return np.asarray(padded[[row_of[id(of_query)] for of_query in grades]])
