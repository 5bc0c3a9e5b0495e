"""Queries in a window: what each came to, what is usual for it, and what it lost. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol
from zlib import crc32

import numpy as np

from relevanced.metrics import Booleans, Floats, Integers, Metric

from ...lane import BY, QUERY_COUNT_COLUMNS, QUERY_METRIC_COLUMNS, WHOLE, ZERO
from ...plan import Plan
from ...queries import (
    NO_QUERY,
    Losses,
    MergedTables,
    Page,
    Prior,
    Searches,
    Usual,
    compare_with_usual,
    fit_prior,
    merge_tables,
    page_of_segment,
    usual_of,
)
from ...views import ExamplesOfHour, QueryWindow, columns_of

UNIT_RANGE: Final = (0.0, 1.0)
"""The range of metrics whose losses are known: errors need values in it."""
IMPRESSIONS, ZERO_RESULTS, WITH_FEEDBACK = range(len(QUERY_COUNT_COLUMNS))


class QueryTables(Protocol):
    """Tables of queries of some hours."""

    @property
    def plan(self) -> Plan: ...  # noqa: D102

    @property
    def lost(self) -> frozenset[int]:
        """Starts of hours of which a lane lost its page."""

    def pages(self, kind: str, starts: Sequence[int]) -> list[Page]:
        """The tables of a kind of these hours. Raises Damaged."""

    @property
    def lost_examples(self) -> frozenset[int]:
        """Starts of hours of which a lane lost its examples."""

    def examples(self, starts: Sequence[int]) -> list[ExamplesOfHour]:
        """The examples of these hours, of every lane. Raises Damaged."""


@dataclass(frozen=True)
class Found:
    """The queries of a window, of all traffic or of one segment, by one metric."""

    tables: QueryTables
    """Those of its hours, and of the usual ones."""
    window: QueryWindow
    metric: str
    segment: str | None = None

    @property
    def plan(self) -> Plan:
        """The plan of the tables."""
        return self.tables.plan

    @property
    def min_users(self) -> int:
        """From how many users on a text is shown."""
        return 0 if self.plan.queries is None else self.plan.queries.min_users

    @cached_property
    def of_metric(self) -> Metric:
        """The metric."""
        return next(metric for metric in self.plan.metrics if metric.name == self.metric)

    @property
    def can_lose(self) -> bool:
        """Whether losses by this metric are known."""
        return self.of_metric.entry.range == UNIT_RANGE

    @cached_property
    def merged(self) -> MergedTables:
        """The queries of the window. Raises Damaged."""
        return self.of(self.window.hours)

    @cached_property
    def empty(self) -> MergedTables:
        """Those without a result. Raises Damaged."""
        pages = self.tables.pages(ZERO, [*self.window.hours])
        return merge_tables(pages, columns_of(self.plan, ZERO), self.min_users)

    def of(self, hours: Sequence[int]) -> MergedTables:
        """The queries of some hours. Raises Damaged."""
        kind = WHOLE if self.segment is None else BY
        pages: list[Page] = self.tables.pages(kind, [*hours])
        if self.segment is not None:
            pages = [page_of_segment(page, self.segment) for page in pages]
        return merge_tables(pages, columns_of(self.plan, kind), self.min_users)

    def scored(self, sums: Integers) -> Integers:
        """(n,) scored impressions of rows, (n, columns)."""
        return np.asarray(sums[:, self._column], np.int64)

    def score_sums(self, sums: Integers) -> Floats:
        """(n,) the sums of their scores."""
        return np.asarray(sums[:, self._column + 1] / self.of_metric.unit, np.float64)

    @property
    def _column(self) -> int:
        index = [metric.name for metric in self.plan.metrics].index(self.metric)
        return len(QUERY_COUNT_COLUMNS) + QUERY_METRIC_COLUMNS * index

    @cached_property
    def usual_days(self) -> list[MergedTables]:
        """The queries of each usual day. Raises Damaged."""
        return [self.of(hours) for hours in self.window.usual]

    @property
    def lists_all(self) -> bool:
        """Whether the tables list every query of the window and of its usual days: else nothing
        is known of the rest of a segment. Raises Damaged."""
        return not any(found.bound for found in (self.merged, *self.usual_days))

    @cached_property
    def searches(self) -> Searches:
        """Those of the queries, in their order, and last of all that is not listed. What was usual
        for a query that is not listed now is usual for the rest. Raises Damaged."""
        index, queries = self.merged.index(), len(self.merged.keys)
        shape = (len(self.window.usual), queries + 1)
        daily_scored, daily_total = np.zeros(shape, np.int64), np.zeros(shape)
        for day, found in enumerate(self.usual_days):
            at = np.array([index.get(key, queries) for key in found.keys], np.int64)
            np.add.at(daily_scored[day], at, self.scored(found.sums))
            np.add.at(daily_total[day], at, self.score_sums(found.sums))
            daily_scored[day, queries] += self.scored(found.other[np.newaxis])[0]
            daily_total[day, queries] += self.score_sums(found.other[np.newaxis])[0]
        sums = np.concatenate((self.merged.sums, self.merged.other[np.newaxis]))
        return Searches(self.scored(sums), self.score_sums(sums), daily_scored, daily_total)

    @cached_property
    def listed(self) -> Searches:
        """Those of the listed queries alone."""
        return _part(self.searches, slice(None, -1))

    @cached_property
    def unlisted(self) -> Searches:
        """Those of all that is not listed, as if it were one query."""
        return _part(self.searches, slice(-1, None))

    @cached_property
    def losses(self) -> Losses | None:
        """What each listed query lost; None where nothing is usual, or it is not known."""
        return self._compared(self.listed)

    @cached_property
    def unlisted_losses(self) -> Losses | None:
        """What all that is not listed lost as a whole; None where it is not known either, and
        for a segment, of which it is not known."""
        return self._compared(self.unlisted) if self.segment is None else None

    @cached_property
    def usual(self) -> Usual | None:
        """What the listed queries tell of the usual; None where losses are not known."""
        return usual_of(self.listed) if self.can_lose else None

    def _compared(self, searches: Searches) -> Losses | None:
        if self.usual is None:
            return None
        lower_is_better = self.of_metric.direction == "down"
        return compare_with_usual(searches, self.usual, lower_is_better=lower_is_better)

    @cached_property
    def shrunk_means(self) -> Floats:
        """(q,) the mean of each query, as if some searches with the mean of all were added: few
        searches say little."""
        searches = self.listed
        prior = fit_prior(searches.scored, searches.total) if self.can_lose else None
        prior = prior or Prior(self._mean, 1.0)
        weighed = searches.total + prior.mean * prior.strength
        return np.asarray(weighed / (searches.scored + prior.strength), np.float64)

    @property
    def _mean(self) -> float:
        searches = self.listed
        return float(searches.total.sum()) / max(int(searches.scored.sum()), 1)


def _part(searches: Searches, part: slice) -> Searches:
    return Searches(
        searches.scored[part],
        searches.total[part],
        searches.daily_scored[:, part],
        searches.daily_total[:, part],
    )


Order = Callable[[Found], Floats]
"""(q,) by which queries are listed, the greatest first."""


def _worst(found: Found) -> Floats:
    sign = 1.0 if found.of_metric.direction == "down" else -1.0
    return np.where(found.listed.scored > 0, sign * found.shrunk_means, -np.inf)


def _lost(found: Found) -> Floats:
    nothing = np.full(len(found.listed), -np.inf)
    return nothing if found.losses is None else found.losses.lost_at_least


def _gained(found: Found) -> Floats:
    nothing = np.full(len(found.listed), -np.inf)
    return nothing if found.losses is None else found.losses.gained_at_least


LOST: Final = "lost"
GAINED: Final = "gained"
ZERO_ORDER: Final = "zero_results"
ORDERS: Final[dict[str, Order]] = {
    LOST: _lost,
    GAINED: _gained,
    "impressions": lambda found: found.merged.sums[:, IMPRESSIONS].astype(np.float64),
    "worst": _worst,
}
"""Order → what it goes by. Equal ones are in the order of the tables: by checksum, then by text."""


@dataclass(frozen=True)
class Line:
    """One query of a list."""

    key: str
    index: int | None
    """Its index among the queries of the window; None where only the table of searches without
    results lists it."""
    missing: int
    """So many impressions, or, of searches without results, so many of those, may be missing."""
    zero_results: int


def in_order(found: Found, order: str) -> list[Line]:
    """The queries whose texts are shown, in this order: without those about which it says nothing,
    and without the searches that had no query."""
    merged = found.merged
    if order == ZERO_ORDER and found.segment is None:
        return _without_results(found)
    zeros = merged.sums[:, ZERO_RESULTS]
    by = zeros.astype(np.float64) if order == ZERO_ORDER else ORDERS[order](found)
    least = 0.0 if order == ZERO_ORDER else -np.inf
    return [
        Line(merged.keys[n], n, int(merged.missing[n]), int(zeros[n]))
        for n in _ranked(merged.keys, by, merged.is_shown & (by > least))
    ]


def _without_results(found: Found) -> list[Line]:
    empty, index = found.empty, found.merged.index()
    by, shown = empty.sums[:, 0].astype(np.float64), empty.is_shown.copy()
    for n, key in enumerate(empty.keys):
        shown[n] |= key in index and bool(found.merged.is_shown[index[key]])
    return [
        Line(empty.keys[n], index.get(empty.keys[n]), int(empty.missing[n]), int(by[n]))
        for n in _ranked(empty.keys, by, shown & (by > 0))
    ]


def _ranked(keys: Sequence[str], by: Floats, listed: Booleans) -> list[int]:
    texts = [key.encode(errors="surrogatepass") for key in keys]
    indices = [n for n in np.flatnonzero(listed).tolist() if keys[n] != NO_QUERY]
    return sorted(indices, key=lambda n: (-by[n], crc32(texts[n]), texts[n]))
