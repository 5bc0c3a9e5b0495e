"""Baselines: the scores of the last hours beside those of the same period of earlier weeks.

A period that begins or ends within an hour takes the same share of that hour's rows.

Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timezone, tzinfo
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics import Floats, Integers

from ..changes import MadeOf, WeekSides, weeks
from ..lane import Rows
from ..panes import Window, days_before, hours_ahead, pane_start
from ..plan import METRIC_COLUMNS, Plan
from ..views import (
    ENOUGH,
    SETTLED,
    HourHistory,
    LaneView,
    Selection,
    Snapshot,
    estimates,
    pane_starts,
    stand_in,
)

WINDOWS: Final = (("1h", 1), ("6h", 6), ("24h", 24))
"""(name, hours) of the periods that are compared, whatever windows are configured."""
DAY: Final = 24
WEEK: Final = 7 * DAY
WEEKS: Final = 3
DAYS: Final = 6
HOURS: Final = 6
FINE_PANE: Final = 4
"""A configured window is used as it is where its panes are at most this part of an hour."""
FAR_LESS_THAN_WEEKS: Final = 0.25
"""An hour with less than this share of what it has in other weeks is an outage: of searches, or of
the feedback on them."""
FAR_LESS_THAN_DAYS: Final = 0.1
"""The same where only other days are there: a weekend is not an outage."""
LEAST_OTHERS: Final = 2
"""Hours of other weeks, or days, that must be there to call an hour an outage."""

Weights: TypeAlias = Mapping[int, float]
"""Start of an hour → the share of its rows that counts."""


@dataclass(frozen=True)
class BaselinePeriod:
    """A recent period, which ends where the settled view does, and its rows."""

    from_ms: int
    until_ms: int
    rows: Floats


@dataclass(frozen=True)
class BaselineComparison:
    """(selected segments, columns) of the last hours, and of each earlier period."""

    window: str
    from_ms: int
    until_ms: int
    """The last hours: an interval of event time, without its end."""
    recent: Floats
    """NaN where not all of the last hours have it."""
    unit: str
    """`week` or `day`; of judged scores also `hour`."""
    periods: Mapping[int, Floats]
    """How many milliseconds before the last hours each period lies, the latest first → its rows,
    NaN where they are not known."""
    yesterday: Floats | None
    """The rows of the same hours a day before, where enough of them are there."""
    is_doubtful: bool = False
    """Whether the last hours contain some that say nothing: nothing falls by them."""
    yesterday_ms: int | None = None
    """How many milliseconds before the last hours those of `yesterday` lie: 24 hours, but for a
    change of clocks. None where `yesterday` is."""


def compare(
    history: HourHistory,
    views: Sequence[LaneView],
    snapshot: Snapshot,
    selection: Selection,
    plan: Plan,
    *,
    since_ms: int | None = None,
    zone: tzinfo = timezone.utc,
) -> list[BaselineComparison]:
    """The comparison of each of `WINDOWS` for which there are enough hours, with the same hours of
    a time zone. `history` must have taken these views. Raises Damaged.

    With `since_ms`, a whole hour, nothing from before then is on either side, and while no day is
    known either, the hours before serve.
    """
    traffic = history.traffic()
    if snapshot.as_of_ms is None or not history.starts or not plan.history_hours:
        return []
    end_ms = snapshot.as_of_ms - plan.timing.settle_ms
    covered = _covered(min(traffic), end_ms, since_ms, plan.hour_ms)
    left_out = outages(traffic, covered, zone) | history.lost
    compared, needed = [], set[int]()
    for name, hours in WINDOWS:
        if since_ms is not None and end_ms - hours * plan.hour_ms < since_ms - 1:
            continue
        period = _from_panes(snapshot, selection, plan, hours, end_ms)
        if period is None:
            period = _from_hours(history, views, selection, end_ms - hours * plan.hour_ms, end_ms)
        if period is None:
            continue
        span = period.from_ms, period.until_ms
        unit, earlier_weights = earlier(*span, covered, left_out, zone)
        if since_ms is not None and not earlier_weights:
            unit, earlier_weights = hours_before(*span, hours, covered, left_out)
        a_day = days_before(span[1], 1, zone, plan.hour_ms)
        day_before = at_shifts(*span, [a_day], covered, left_out)
        all_weights = [shares(*span, plan.hour_ms), *earlier_weights.values(), *day_before.values()]
        needed |= {start for weights in all_weights for start in weights}
        telling = telling_before(span[0], covered, left_out)
        of = partial(_usual, history, selection, telling, zone)
        sums = {by: of(weights) for by, weights in earlier_weights.items()}
        days = [of(weights) for weights in day_before.values()]
        compared.append(
            BaselineComparison(
                name,
                *span,
                period.rows,
                unit,
                sums,
                days[0] if days else None,
                bool(shares(*span, plan.hour_ms).keys() & history.doubtful),
                a_day if days else None,
            )
        )
    history.pack_all_but(needed)
    return compared


def hour_until(
    history: HourHistory,
    selection: Selection,
    end_ms: int,
    since_ms: int | None = None,
    zone: tzinfo = timezone.utc,
) -> BaselineComparison | None:
    """As `compare`, of the hour until an instant at least an hour ago. Raises Damaged."""
    hour_ms, traffic = history.plan.hour_ms, history.traffic()
    span = end_ms - hour_ms, end_ms
    weights = shares(*span, hour_ms)
    if not traffic or not weights.keys() <= set(history.starts):
        return None
    covered = _covered(min(traffic), end_ms, since_ms, hour_ms)
    left_out = outages(traffic, covered, zone) | history.lost
    unit, earlier_weights = earlier(*span, covered, left_out, zone)
    if weights.keys() & history.lost or span[0] < covered.start:
        return None
    telling = telling_before(span[0], covered, left_out)
    of = partial(_usual, history, selection, telling, zone)
    sums = {by: of(each) for by, each in earlier_weights.items()}
    rows = _known_throughout(history, history.summed(weights, selection), weights, selection)
    return BaselineComparison(weeks.HOUR, *span, rows, unit, sums, None)


def telling_before(before_ms: int, covered: range, left_out: frozenset[int]) -> frozenset[int]:
    """The hours that end by an instant and say what is usual."""
    ends = before_ms - covered.step
    return frozenset(start for start in covered if start <= ends) - left_out


def _usual(
    history: HourHistory,
    selection: Selection,
    telling: frozenset[int],
    zone: tzinfo,
    weights: Weights,
) -> Floats:
    """(selected segments, columns): the rows of an earlier period. What a part of its hours lacks,
    such as a grouping that was added since, the others stand for; it is NaN where these are fewer
    than `ENOUGH`. Raises Damaged."""
    rows, sources = history.usual(weights, selection, telling, zone), history.sources
    if sources.has_everything:
        return rows
    scale = stand_in(sources.shares_known(weights))
    return rows * sources.by_row(scale, selection.segments)


def _covered(first_ms: int, end_ms: int, since_ms: int | None, hour_ms: int) -> range:
    """The starts of the whole hours that may be compared with."""
    # The first hour is left out: the lane may have begun within it.
    begin_ms = first_ms + hour_ms if since_ms is None else max(first_ms, since_ms)
    return range(begin_ms, pane_start(end_ms, hour_ms), hour_ms)


def _from_panes(
    snapshot: Snapshot, selection: Selection, plan: Plan, hours: int, end_ms: int
) -> BaselinePeriod | None:
    """The period by the panes of a configured window of its length, if they are fine enough."""
    for span in plan.timing.windows:
        if span.length_ms == hours * plan.hour_ms and span.pane_ms * FINE_PANE <= plan.hour_ms:
            return _of_window(snapshot, selection, span, end_ms)
    return None


def _of_window(
    snapshot: Snapshot, selection: Selection, span: Window, end_ms: int
) -> BaselinePeriod | None:
    for window in snapshot.windows:
        if (window.window, window.view) == (span.name, SETTLED):
            rows: Rows | Floats = selection.fold(window.rows)
            if snapshot.coverage is not None:
                rows = snapshot.coverage.known(rows, selection.segments, window.first_ms)
            from_ms = pane_starts(span, end_ms)[0]
            return BaselinePeriod(from_ms, end_ms, rows.astype(np.float64))
    return None


def _from_hours(
    history: HourHistory, views: Sequence[LaneView], selection: Selection, from_ms: int, end_ms: int
) -> BaselinePeriod | None:
    """The period by its hours, the last of which contains what has settled so far; and by the base
    panes that end before now but wait for a watermark that does not advance."""
    plan = history.plan
    if min(history.starts) > from_ms + (1 - ENOUGH) * (end_ms - from_ms):
        return None
    weights = dict(shares(from_ms, end_ms, plan.hour_ms))
    if weights.keys() & history.sources.lost:
        return None
    last = pane_start(end_ms, plan.hour_ms)
    if last in weights:
        weights[last] = 1.0
    rows = history.summed(weights, selection)
    for lane in views:
        for (window, start), pages in lane.panes.items():
            waits = lane.settled_before is None or start >= lane.settled_before
            if window == 0 and waits and from_ms <= start < end_ms:
                rows += selection.fold_pages(pages, lane.names, plan.row_width)
    rows = _known_throughout(history, rows, weights, selection)
    return BaselinePeriod(from_ms, end_ms, rows)


def _known_throughout(
    history: HourHistory, rows: Floats, weights: Weights, selection: Selection
) -> Floats:
    """The rows of the last hours, NaN in what any of them lacks since hours are kept: a grouping
    that counts only since a part of them would look as if its traffic had fallen."""
    sources, first = history.sources, min(history.starts)
    if sources.has_everything:
        return rows
    cells = np.logical_and.reduce([sources.known(start) for start in weights if start >= first])
    return np.where(sources.by_row(cells, selection.segments) > 0, rows, np.nan)


def shares(from_ms: int, until_ms: int, hour_ms: int) -> Weights:
    """The share of each hour that lies in a period, 0 < share ≤ 1."""
    starts = range(pane_start(from_ms, hour_ms), until_ms, hour_ms)
    return {
        start: (min(start + hour_ms, until_ms) - max(start, from_ms)) / hour_ms for start in starts
    }


def earlier(
    from_ms: int,
    until_ms: int,
    covered: range,
    left_out: frozenset[int],
    zone: tzinfo = timezone.utc,
) -> tuple[str, dict[int, Weights]]:
    """(unit, how long before → weights): the same local period in the last weeks; in the last days
    where no week has enough hours.

    The other hours of a period stand for those that are left out or not covered. But where days are
    there, a week counts only if it is covered from its beginning: half a day has another mean than
    the whole, and the switch from days to a week would raise alerts.
    """
    weeks, days = ("week", WEEK // DAY, WEEKS), ("day", 1, DAYS)
    for (unit, each, most), whole in ((weeks, True), (days, False), (weeks, False)):
        shifts = [
            days_before(until_ms, count * each, zone, covered.step) for count in range(1, most + 1)
        ]
        shifts = [by for by in shifts if not whole or from_ms - by >= covered.start]
        if found := at_shifts(from_ms, until_ms, shifts, covered, left_out):
            return unit, found
    return "week", {}


def hours_before(
    from_ms: int, until_ms: int, hours: int, covered: range, left_out: frozenset[int]
) -> tuple[str, dict[int, Weights]]:
    """(unit, how long before → weights): the periods of so many hours just before this one, of less
    than a day together."""
    most = min(HOURS, (DAY - 1) // hours)
    shifts = [count * hours * covered.step for count in range(1, most + 1)]
    return "hour", at_shifts(from_ms, until_ms, shifts, covered, left_out)


def at_shifts(
    from_ms: int,
    until_ms: int,
    shifts_ms: Sequence[int],
    covered: range,
    left_out: frozenset[int],
) -> dict[int, Weights]:
    """How long before → the weights of the period then, where enough of its hours count."""
    found = {}
    for by in shifts_ms:
        whole = shares(from_ms - by, until_ms - by, covered.step)
        if weights := _scaled(whole, covered, left_out):
            found[by] = weights
    return found


def _scaled(weights: Weights, covered: range, left_out: frozenset[int]) -> Weights | None:
    """The weights of the hours that count, scaled up to the sum of all; None where too few do."""
    kept = {h: weight for h, weight in weights.items() if h in covered and h not in left_out}
    share = sum(kept.values()) / sum(weights.values())
    return {h: weight / share for h, weight in kept.items()} if share >= ENOUGH else None


def left_out(history: HourHistory, zone: tzinfo = timezone.utc) -> frozenset[int]:
    """The hours of all that are kept that say nothing about what is usual in a time zone."""
    traffic = history.traffic()
    if not traffic:
        return history.lost
    hour_ms = history.plan.hour_ms
    return outages(traffic, range(min(traffic), max(traffic), hour_ms), zone) | history.lost


def outages(
    traffic: Mapping[int, Sequence[float]], covered: range, zone: tzinfo = timezone.utc
) -> frozenset[int]:
    """The hours in which far less happened than in the same hour of other weeks, or of other days
    where there are fewer than `LEAST_OTHERS` weeks, by the clocks of a time zone. `traffic` has one
    row of counts per hour."""
    if not covered:
        return frozenset()
    nothing = (0,) * len(next(iter(traffic.values())))
    counts = np.array([traffic.get(start, nothing) for start in covered], np.float64)
    ahead = hours_ahead(covered, zone)
    weeks = _median_at(counts, [WEEK * count for count in range(1, WEEKS + 2)], ahead)
    days = _median_at(counts, [DAY * count for count in range(1, DAYS + 1)], ahead)
    limits = np.where(np.isnan(weeks), FAR_LESS_THAN_DAYS * days, FAR_LESS_THAN_WEEKS * weeks)
    out = (counts < limits).any(axis=1)
    return frozenset(covered[int(index)] for index in np.flatnonzero(out))


def _median_at(counts: Floats, distances: Sequence[int], ahead: Integers) -> Floats:
    """(hours, columns): for each hour the median over the hours at these distances before and
    after it by local time, which is `ahead` of UTC by so many hours at each; NaN where fewer than
    `LEAST_OTHERS` are there.

    One matrix of the counts, shifted by each distance: every baseline needs every hour's outage,
    and so all of them are found without a loop over hours.
    """
    count = len(counts)
    both = np.array([[sign * distance] for distance in distances for sign in (-1, 1)])
    others = np.arange(count) + both
    others += ahead - ahead[np.clip(others, 0, count - 1)]
    others[(others < 0) | (others >= count)] = count  # where nothing is known
    shifted = np.concatenate([counts, np.full((1, counts.shape[1]), np.nan)])[others]
    enough = (~np.isnan(shifted)).sum(axis=0) >= LEAST_OTHERS
    median: Floats = np.full(counts.shape, np.nan)
    median[enough] = np.nanmedian(shifted[:, enough], axis=0)
    return median


def averaged(means: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """((n,) means, (n,) standard errors) over periods, from (periods, n) of each.

    Periods weigh the same; one without a standard error does not count, and without any both are
    NaN. From three periods on the error is not below the standard error of their differences.
    """
    valid = ~np.isnan(errors)
    count = valid.sum(axis=0)
    divisor = np.where(count > 0, count, np.nan)
    mean = np.where(valid, means, 0.0).sum(axis=0) / divisor
    sampling = np.where(valid, errors**2, 0.0).sum(axis=0) / divisor**2
    spread = np.where(valid, (means - mean) ** 2, 0.0).sum(axis=0)
    between = spread / np.maximum(divisor - 1, 1) / divisor
    return mean, np.sqrt(np.where(count >= WEEKS, np.maximum(sampling, between), sampling))


def best_case_of(plan: Plan) -> Plan | None:
    """The plan by which the same judged rows give the best case of each metric, whose columns stand
    behind those of the scores; None for other rows."""
    if not plan.columns_behind:
        return None
    scores = len(METRIC_COLUMNS) * len(plan.metrics)
    columns = (*plan.count_columns, *(f"score {n}" for n in range(scores)))
    return replace(plan, count_columns=columns, columns_behind=plan.columns_behind - scores)


def sides_of(recent: Floats, periods: Sequence[Floats], plan: Plan) -> WeekSides:
    """Both sides, (segments, metrics): the last hours, and the mean of at least one earlier period.
    All rows are (segments, columns)."""
    found: list[tuple[Floats, ...]] = []
    for index in range(len(plan.metrics)):
        score, stderr = estimates(recent, plan, index)
        earlier = [estimates(rows, plan, index) for rows in periods]
        usual, usual_stderr = averaged(*(np.array(each) for each in zip(*earlier, strict=True)))
        scored = recent[:, plan.metric_column(index)]
        found.append((score, stderr, scored, usual, usual_stderr))
    return WeekSides(*(np.stack(part, axis=1) for part in zip(*found, strict=True)))


def made_of(periods: Sequence[Floats], plan: Plan, *, of_days: bool) -> MadeOf:
    """Of how many of the periods the baselines of `sides_of` are the mean: (segments, metrics), as
    a metric or a grouping that was added since has fewer than others. 1 where there is none."""
    found = np.zeros((len(periods[0]), len(plan.metrics)))
    for rows in periods:
        errors = [estimates(rows, plan, index)[1] for index in range(len(plan.metrics))]
        found += ~np.isnan(np.stack(errors, axis=1))
    return MadeOf(np.maximum(found, 1), of_days)
