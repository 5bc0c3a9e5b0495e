"""What is, and what is usual: scores of the last hours beside those of the same stretch of earlier
weeks.

Pure. A stretch that begins or ends within an hour takes the same share of that hour's rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics.lists import Floats

from ..panes import Window, pane_start
from ..plan import Plan
from .history import History
from .lane_view import LaneView
from .selection import Selection
from .snapshot import SETTLED, Snapshot, pane_starts

WINDOWS: Final = (("1h", 1), ("6h", 6), ("24h", 24))
"""(name, hours) of what is compared, whatever windows are configured."""
DAY: Final = 24
WEEK: Final = 7 * DAY
WEEKS: Final = 3
DAYS: Final = 6
FINE_PANE: Final = 4
"""A configured window serves as it is where its panes are at most this part of an hour."""
ENOUGH: Final = 0.5
"""The least share of a stretch that must be known."""
FAR_LESS_THAN_WEEKS: Final = 0.25
"""An hour with less than this share of what it has in other weeks is an outage: of searches, or of
the feedback on them."""
FAR_LESS_THAN_DAYS: Final = 0.1
"""The same where only other days are known: a weekend is not an outage."""
LEAST_OTHERS: Final = 2
"""Hours that must be known to call another one an outage."""

Weights: TypeAlias = Mapping[int, float]
"""Start of an hour → what share of its rows counts."""


@dataclass(frozen=True)
class Period:
    """The recent window: from a time to the end of the settled view, and its rows."""

    from_ms: int
    until_ms: int
    rows: Floats


@dataclass(frozen=True)
class Comparison:
    """(segments shown, columns) of a window now, and in each of the earlier periods."""

    window: str
    recent: Floats
    unit: str
    """`week` or `day`."""
    periods: tuple[Floats, ...]


def compare(
    past: History, views: Sequence[LaneView], snapshot: Snapshot, shown: Selection, plan: Plan
) -> list[Comparison]:
    """Each of `WINDOWS` that enough is known of. The past must have taken these views."""
    watched = past.watched()
    if snapshot.as_of_ms is None or not watched or not plan.history_hours:
        return []
    end_ms = snapshot.as_of_ms - plan.timing.settle_ms
    covered = range(min(watched) + plan.hour_ms, pane_start(end_ms, plan.hour_ms), plan.hour_ms)
    left_out = outages(watched, covered)
    compared, needed = [], set[int]()
    for name, hours in WINDOWS:
        stretch = _exactly(snapshot, shown, plan, hours, end_ms)
        if stretch is None:
            stretch = _by_hours(past, views, shown, plan, hours, end_ms)
        if stretch is None:
            continue
        unit, periods = earlier(stretch.from_ms, stretch.until_ms, covered, left_out)
        recent = shares(stretch.from_ms, stretch.until_ms, plan.hour_ms)
        needed |= {start for weights in (recent, *periods) for start in weights}
        sums = tuple(past.summed(weights, shown) for weights in periods)
        compared.append(Comparison(name, stretch.rows, unit, sums))
    past.forget_but(needed)
    return compared


def _exactly(
    snapshot: Snapshot, shown: Selection, plan: Plan, hours: int, end_ms: int
) -> Period | None:
    """By the panes of a configured window that is as long, where they are fine enough."""
    for span in plan.timing.windows:
        if span.length_ms == hours * plan.hour_ms and span.pane_ms * FINE_PANE <= plan.hour_ms:
            return _of_window(snapshot, shown, span, end_ms)
    return None


def _of_window(snapshot: Snapshot, shown: Selection, span: Window, end_ms: int) -> Period | None:
    for window in snapshot.windows:
        if (window.window, window.view) == (span.name, SETTLED):
            rows = shown.fold(window.rows).astype(np.float64)
            return Period(pane_starts(span, end_ms)[0], end_ms, rows)
    return None


def _by_hours(
    past: History,
    views: Sequence[LaneView],
    shown: Selection,
    plan: Plan,
    hours: int,
    end_ms: int,
) -> Period | None:
    """By hours, the last of which holds what has settled so far; and by the base panes that end
    before now but wait for a watermark that stands still."""
    from_ms = end_ms - hours * plan.hour_ms
    if min(past.watched()) > from_ms + (1 - ENOUGH) * hours * plan.hour_ms:
        return None
    weights = dict(shares(from_ms, end_ms, plan.hour_ms))
    last = pane_start(end_ms, plan.hour_ms)
    if last in weights:
        weights[last] = 1.0
    rows = past.summed(weights, shown)
    for lane in views:
        for (window, start), pages in lane.panes.items():
            waits = lane.settled_before is None or start >= lane.settled_before
            if window == 0 and waits and from_ms <= start < end_ms:
                rows += shown.fold_pages(pages, lane.names, plan.row_width)
    return Period(from_ms, end_ms, rows)


def shares(from_ms: int, until_ms: int, hour_ms: int) -> Weights:
    """How much of each hour lies in a stretch."""
    starts = range(pane_start(from_ms, hour_ms), until_ms, hour_ms)
    return {
        start: (min(start + hour_ms, until_ms) - max(start, from_ms)) / hour_ms for start in starts
    }


def earlier(
    from_ms: int, until_ms: int, covered: range, left_out: frozenset[int]
) -> tuple[str, list[Weights]]:
    """The same stretch of the last weeks; of the last days where no week is known.

    Hours that are left out, or not covered, are made up for by the others of their stretch.
    """
    for unit, hours, most in (("week", WEEK, WEEKS), ("day", DAY, DAYS)):
        shifts = (number * hours * covered.step for number in range(1, most + 1))
        stretches = (shares(from_ms - by, until_ms - by, covered.step) for by in shifts)
        found = [known for whole in stretches if (known := _known(whole, covered, left_out))]
        if found:
            return unit, found
    return "week", []


def _known(whole: Weights, covered: range, left_out: frozenset[int]) -> Weights | None:
    kept = {h: weight for h, weight in whole.items() if h in covered and h not in left_out}
    share = sum(kept.values()) / sum(whole.values())
    return {h: weight / share for h, weight in kept.items()} if share >= ENOUGH else None


def outages(watched: Mapping[int, Sequence[int]], covered: range) -> frozenset[int]:
    """The hours in which far less happened than in the same hour of other weeks, or of other days
    where fewer than two weeks are known."""
    if not covered:
        return frozenset()
    nothing = (0,) * len(next(iter(watched.values())))
    counts = np.array([watched.get(start, nothing) for start in covered], np.float64)
    weeks = _elsewhere(counts, [WEEK * number for number in range(1, WEEKS + 2)])
    days = _elsewhere(counts, [DAY * number for number in range(1, DAYS + 1)])
    limits = np.where(np.isnan(weeks), FAR_LESS_THAN_DAYS * days, FAR_LESS_THAN_WEEKS * weeks)
    out = (counts < limits).any(axis=1)
    return frozenset(covered[int(number)] for number in np.flatnonzero(out))


def _elsewhere(counts: Floats, distances: Sequence[int]) -> Floats:
    """The median over the hours so far before and behind each; NaN where too few are known."""
    moved = np.full((2 * len(distances), *counts.shape), np.nan)
    for place, distance in enumerate(distances):
        if distance < len(counts):
            moved[2 * place, distance:] = counts[:-distance]
            moved[2 * place + 1, :-distance] = counts[distance:]
    enough = (~np.isnan(moved)).sum(axis=0) >= LEAST_OTHERS
    median: Floats = np.full(counts.shape, np.nan)
    median[enough] = np.nanmedian(moved[:, enough], axis=0)
    return median


def averaged(means: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """((n,) means, (n,) standard errors) over periods, from (periods, n) of each.

    Periods weigh the same; one without a standard error does not count. From three periods on
    the error is not below what their differences show.
    """
    known = ~np.isnan(errors)
    count = known.sum(axis=0)
    some = np.where(count > 0, count, np.nan)
    mean = np.where(known, means, 0.0).sum(axis=0) / some
    sampling = np.where(known, errors**2, 0.0).sum(axis=0) / some**2
    spread = np.where(known, (means - mean) ** 2, 0.0).sum(axis=0)
    between = spread / np.maximum(some - 1, 1) / some
    return mean, np.sqrt(np.where(count >= WEEKS, np.maximum(sampling, between), sampling))
