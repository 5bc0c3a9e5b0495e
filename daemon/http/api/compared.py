"""The rows of the tables of changes: each segment in a window now and an hour before, and in the
last settled hours beside the same hours of yesterday or of the last weeks. Pure.

A change is called better or worse only if it exceeds its noise. In the live view feedback is still
missing, which shifts every segment alike: there a segment is called only if it also changed against
the rest of the traffic. The arithmetic of hours is that of the alert rules: the noise of a
difference contains the design effect and the drift between days or weeks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import hypot
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Direction, Floats

from ...changes import ChangeSettings, weeks
from ...events import timestamp_text
from ...exporter import DAY, WINDOWS, BaselineComparison, Reading, made_of, sides_of
from ...lane import Rows
from ...plan import Plan
from ...views import LIVE, estimates, optional, optional_counts, sum_panes
from .history import Stretch, compared_periods, metric_index, window_index
from .parameters import Query, requested

Verdict: TypeAlias = Literal[
    "better",
    "worse",
    "diluted",
    "recovered",
    "cannot_tell",
    "moved",
    "level",
    "unripe",
    "too_few",
    "undefined",
    "no_traffic",
]

CALLS: Final[tuple[Verdict, ...]] = ("better", "worse", "moved")
FALSE_CALLS: Final = 0.001
"""Probability that one answer calls any segment although none has changed."""
DRIFT: Final = 0.006
"""Standard deviation of the change of a healthy search in an hour, as a share of its mean."""
NOT_BEFORE: Final = (
    "Not every lane keeps the period before: one is far ahead of another, or began anew."
)
LEAST_SCORED: Final = 30
"""Scored impressions from which on a mean is close enough to normally distributed."""


class Estimate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mean over a period, and the impressions that it is made of."""

    mean: float | None
    """null where no impression has a defined value."""
    stderr: float | None
    """null below two scored impressions."""
    scored: int | None
    impressions: int | None
    """Both null where not all of the period counts them: see `counts_from`."""


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One metric of one segment, now and before."""

    metric: str
    grouping: str
    segment: str
    now: Estimate
    before: Estimate
    difference: float | None
    """Now minus before; null where either is undefined."""
    noise: float | None
    """Standard error of the difference, including the drift of a healthy search."""
    verdict: Verdict
    """`better`, `worse`: beyond the noise; `worse` also where an open change says so. `diluted`:
    low only because it shares traffic with the segments that carry an open change. `recovered`:
    worse now, or better than before, through the time of a change that is over. `moved`: beyond the
    noise, for a metric that has no better direction. `unripe`: beyond it in the live view, but
    missing feedback may be the reason. `level`: within the noise. `too_few`: too few scored
    impressions. `undefined`: one of the means is. `no_traffic`: now or before."""
    since: str | None
    """Start of the pane in which a change that was called began; the onset, where an open change
    says so; null against days or weeks."""
    counts_from: str | None = None
    """From when on the metric counts here, where that is later than the beginning of what is
    compared: periods that reach back beyond it are undefined. null: from before."""


def verdict(
    now: Estimate, before: Estimate, sizes: tuple[float, float | None], direction: Direction
) -> Verdict:
    """The verdict on a change.

    `sizes` are the difference and its distance from the difference of the rest of the traffic (None
    without such), each as a multiple of what must be exceeded to be called.
    """
    if 0 in (now.impressions, before.impressions):
        return "no_traffic"
    if now.mean is None or before.mean is None:
        return "undefined"
    if min(now.scored or 0, before.scored or 0) < LEAST_SCORED:
        return "too_few"
    own, against_rest = sizes
    if abs(own) <= 1:
        return "level"
    if against_rest is None or against_rest * np.sign(own) <= 1:
        return "unripe"
    if direction == "none":
        return "moved"
    return "better" if (own > 0) == (direction == "up") else "worse"


def onsets(scored: Floats, sums: Floats) -> NDArray[np.intp]:
    """The pane in which the level of each segment changed: (panes, segments) → (segments,) indices.

    Fits two levels to the panes by least squares over the scored impressions, and returns the first
    pane of the second level. Needs at least two panes.
    """
    left, left_sum = np.cumsum(scored, 0)[:-1], np.cumsum(sums, 0)[:-1]
    right, right_sum = scored.sum(0) - left, sums.sum(0) - left_sum
    is_defined = (left > 0) & (right > 0)
    first, second = (
        np.divide(total, count, out=np.zeros_like(count), where=is_defined)
        for total, count in ((left_sum, left), (right_sum, right))
    )
    fit = np.where(is_defined, (first - second) ** 2 * left * right, -1.0)
    return np.asarray(np.argmax(fit, axis=0) + 1, np.intp)


@dataclass(frozen=True, eq=False)
class MetricSide:
    """One side of a comparison of one metric."""

    means: Floats
    """(segments,), as all that follow."""
    errors: Floats
    scored: Rows | Floats
    impressions: Rows | Floats

    @classmethod
    def of(cls, rows: Rows | Floats, plan: Plan, metric_at: int) -> "MetricSide":
        """That of one period, of rows (segments, columns)."""
        return cls.summed(rows, plan, metric_at, *estimates(rows, plan, metric_at))

    @classmethod
    def summed(
        cls, rows: Rows | Floats, plan: Plan, metric_at: int, means: Floats, errors: Floats
    ) -> "MetricSide":
        """That of several periods, whose means and errors are known, of their rows together."""
        return cls(means, errors, rows[:, plan.metric_column(metric_at)], rows[:, 0])

    def estimates(self) -> list[Estimate]:
        """Each segment; what is not known, NaN, is null."""
        counts = map(optional_counts, (self.scored, self.impressions))
        columns = zip(optional(self.means), optional(self.errors), *counts, strict=True)
        return [Estimate(*row) for row in columns]


class ComparedRow(NamedTuple):
    """One metric of one segment, now and before: fields of rows of answers."""

    now: Estimate
    before: Estimate
    difference: float | None
    noise: float | None
    verdict: Verdict


@dataclass(frozen=True, eq=False)
class SegmentsCompared:
    """One metric of all segments, now and before."""

    now: MetricSide
    before: MetricSide
    noise: Floats
    """(segments,) standard errors of the differences, drift included."""
    rest: "SegmentsCompared | None" = None
    """The rest of the traffic of each segment, where that is to differ from it too."""

    @property
    def difference(self) -> Floats:
        """(segments,) now minus before."""
        return np.asarray(self.now.means - self.before.means)

    def compared(self, beyond: float, direction: Direction) -> list[ComparedRow]:
        """Each segment; called where it differs by more than `beyond` times its noise."""
        noise, difference = _above_zero(self.noise), self.difference
        with np.errstate(over="ignore"):
            sizes = np.nan_to_num(difference / (beyond * noise), posinf=np.inf, neginf=-np.inf)
        against_rest: list[float | None] = [*sizes.tolist()]
        if self.rest is not None:
            both = np.hypot(noise, _above_zero(self.rest.noise))
            against_rest = optional((difference - self.rest.difference) / (beyond * both))
        rows = zip(
            self.now.estimates(),
            self.before.estimates(),
            optional(difference),
            optional(self.noise),
            zip(sizes.tolist(), against_rest, strict=True),
            strict=True,
        )
        return [
            ComparedRow(now, before, changed, error, verdict(now, before, size, direction))
            for now, before, changed, error, size in rows
        ]


def _above_zero(noise: Floats) -> Floats:
    """Where no value varies the noise is 0: avoids 0 / 0, and a difference of 0 stays 0."""
    return np.maximum(noise, np.finfo(float).tiny)


def with_hourly_drift(
    now: Rows | Floats, before: Rows | Floats, plan: Plan, metric_at: int
) -> SegmentsCompared:
    """One metric of rows (segments, columns) of two periods an hour or so apart."""
    sides = MetricSide.of(now, plan, metric_at), MetricSide.of(before, plan, metric_at)
    errors = (sides[0].errors, sides[1].errors, DRIFT * sides[1].means)
    noise = np.array([hypot(*row) for row in zip(*errors, strict=True)])
    return SegmentsCompared(*sides, noise)


class EarlierHours:
    """The last hours beside the same hours of earlier periods, by the arithmetic of the alert
    rules. All rows are (segments, columns)."""

    def __init__(
        self,
        recent: Floats,
        periods: Sequence[Floats],
        plan: Plan,
        change_settings: ChangeSettings,
        *,
        of_days: bool,
    ) -> None:
        """`of_days`: the periods are other days of the week."""
        self._recent, self._plan = recent, plan
        self._sides = sides_of(recent, periods, plan)
        noise = weeks.noise_of(plan.metrics, change_settings)
        found = weeks.compare(self._sides, made_of(periods, plan, of_days=of_days), noise)
        self._noises = found.error_ratio * np.abs(self._sides.baseline)

    def of_metric(self, at: int, before: Floats) -> SegmentsCompared:
        """One metric; `before`: the rows whose counts stand for all the periods."""
        sides, plan = self._sides, self._plan
        now = MetricSide.summed(self._recent, plan, at, sides.score[:, at], sides.stderr[:, at])
        means, errors = sides.baseline[:, at], sides.baseline_stderr[:, at]
        return SegmentsCompared(
            now, MetricSide.summed(before, plan, at, means, errors), self._noises[:, at]
        )


def wanted_metrics(plan: Plan, names: Sequence[str]) -> list[int]:
    """The indices of the metrics of these names, once each; of all without a name."""
    listed = names or [metric.name for metric in plan.metrics]
    return [metric_index(plan, name) for name in dict.fromkeys(listed)]


def _changes(
    reading: Reading,
    wanted: Query,
    beyond: float,
    compare: Callable[[int], SegmentsCompared],
    begin_ms: int,
    onset_texts: Callable[[int], list[str]] | None = None,
) -> Iterator[Change]:
    """The rows that pass the filters. What is compared begins at `begin_ms`; `onset_texts` says of
    each segment when the level of a metric changed."""
    for at in wanted_metrics(reading.plan, wanted.get("metric", ())):
        metric = reading.plan.metrics[at]
        rows = compare(at).compared(beyond, metric.direction)
        shown = requested(reading.selection.segments, wanted)
        called = {index for index, _ in shown if rows[index].verdict in CALLS}
        since = onset_texts(at) if called and onset_texts is not None else None
        for index, segment in shown:
            yield Change(
                metric.name,
                *segment,
                **rows[index]._asdict(),
                since=since[index] if since is not None and index in called else None,
                counts_from=counts_from(reading, at, segment[0], begin_ms),
            )


def counts_from(reading: Reading, metric_at: int, grouping: str, begin_ms: int) -> str | None:
    """`Change.counts_from` of what is compared from `begin_ms` on."""
    coverage = reading.clicks.hour_sources.coverage
    first_ms = None if coverage is None else coverage.begins(metric_at, grouping)
    return timestamp_text(first_ms) if first_ms is not None and first_ms > begin_ms else None


Earlier: TypeAlias = Literal["day", "weeks"]


@dataclass(frozen=True)
class Table:
    """The rows of one answer, and what they compare."""

    now: Stretch | None
    periods: tuple[Stretch, ...]
    """What they are compared with, the latest first."""
    rows: tuple[Change, ...]
    remark: str | None
    """Why there are no rows."""


def recent_rows(reading: Reading, window: str, view: str, wanted: Query, beyond: float) -> Table:
    """The rows of a window now and an hour before that pass the filters `wanted`."""
    shown = [
        rows for rows in reading.snapshot.windows if (rows.window, rows.view) == (window, view)
    ]
    if not shown or shown[0].end_ms is None:
        return Table(None, (), (), None)
    period, earlier = compared_periods(reading, window, shown[0].end_ms)
    if earlier is None:
        return Table(None, (), (), NOT_BEFORE)
    panes = sum_panes(reading.snapshot, reading.views, earlier.window_at, earlier.starts)
    now, before = (
        reading.clicks.known(reading.selection.fold(rows), first_ms)
        for rows, first_ms in ((shown[0].rows, shown[0].first_ms), (panes, earlier.starts[0]))
    )

    def compare(metric_at: int) -> SegmentsCompared:
        found = with_hourly_drift(now, before, reading.plan, metric_at)
        if view != LIVE:
            return found
        rest = [np.asarray(rows[:1] - rows, np.float64) for rows in (now, before)]
        return replace(found, rest=with_hourly_drift(rest[0], rest[1], reading.plan, metric_at))

    def onset_texts(metric_at: int) -> list[str]:
        # By panes as short as those of the period before: they are kept from its begin until now.
        column = reading.plan.metric_column(metric_at)
        starts = range(earlier.starts[0], period.end_ms, earlier.pane_ms)
        scored, sums = (
            reading.clicks.column(earlier.window_at, starts, at) for at in (column, column + 1)
        )
        return [timestamp_text(starts[index]) for index in onsets(scored, sums)]

    rows = _changes(reading, wanted, beyond, compare, earlier.starts[0], onset_texts)
    return Table(period.stretch(), (earlier.stretch(),), tuple(rows), None)


def usual_rows(
    reading: Reading, window: str, wanted: Query, against: Earlier, beyond: float
) -> Table:
    """The rows of the last hours and the same hours before that pass the filters `wanted`.

    The last hours are the shortest of 1, 6 and 24 that are as long as the window, or 24.
    """
    hours, plan = _hours_of(reading, window), reading.plan
    found = [each for each in reading.clicks.comparisons if each.window == f"{hours}h"]
    periods = {} if not found else _periods(found[0], against)
    if not periods:
        return Table(None, (), (), _nothing_yet(reading, against, hours))
    (comparison,) = found
    change_settings = reading.change_settings
    earlier = EarlierHours(
        comparison.recent,
        [*periods.values()],
        plan,
        change_settings,
        of_days=against == "day",
    )
    of_all = np.array([*periods.values()])
    before = np.where(np.isnan(of_all).all(axis=0), np.nan, np.nansum(of_all, axis=0))
    compare = partial(earlier.of_metric, before=before)
    begin_ms = comparison.from_ms - max(periods)
    return Table(
        _stretch(comparison),
        tuple(_stretch(comparison, back_ms) for back_ms in periods),
        tuple(_changes(reading, wanted, beyond, compare, begin_ms)),
        None,
    )


def _hours_of(reading: Reading, window: str) -> int:
    length_ms = reading.plan.timing.windows[window_index(reading.plan, window)].length_ms
    lengths = [hours for _, hours in WINDOWS]
    return next((each for each in lengths if each * reading.plan.hour_ms >= length_ms), lengths[-1])


def _periods(comparison: BaselineComparison, against: Earlier) -> Mapping[int, Floats]:
    """How long before → the rows."""
    if against == "weeks":
        return comparison.periods if comparison.unit == "week" else {}
    if comparison.yesterday is None or comparison.yesterday_ms is None:
        return {}
    return {comparison.yesterday_ms: comparison.yesterday}


def _stretch(comparison: BaselineComparison, back_ms: int = 0) -> Stretch:
    start, end = comparison.from_ms - back_ms, comparison.until_ms - back_ms
    return Stretch(timestamp_text(start), timestamp_text(end))


_DAYS: Final[Mapping[Earlier, int]] = {"day": 1, "weeks": 7}


def _nothing_yet(reading: Reading, against: Earlier, hours: int) -> str:
    plan = reading.plan
    if not plan.history_hours:
        return "No hours are kept: history.days is 0."
    span = "hour" if hours == 1 else f"{hours} hours"
    words = {"day": "a day", "weeks": "a week"}[against]
    nothing = f"At least half of the same {span} {words} before is not kept, or had an outage."
    kept = reading.clicks.hour_sources.starts
    if not kept:
        return nothing
    # The first hour is left out: counting may have begun within it.
    first_ms = min(kept) + plan.hour_ms
    known_ms = first_ms + (_DAYS[against] * DAY + hours) * plan.hour_ms
    since = f"{nothing} Whole hours are kept since {timestamp_text(first_ms)}"
    if (reading.snapshot.as_of_ms or 0) - plan.timing.settle_ms < known_ms:
        return f"{since}: there is something to compare with by {timestamp_text(known_ms)}."
    return f"{since}."
