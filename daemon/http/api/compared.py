"""Each segment in a window now and an hour before: the rows of the table of changes. Pure.

A change is called better or worse only if it exceeds its noise. In the live view feedback is still
missing, which shifts every segment alike: there a segment is called only if it also changed against
the rest of the traffic.

Each segment in the last settled hours beside the same hours of yesterday, or of the last weeks.

The arithmetic is that of the alert rules: the noise of a difference contains the design effect and
the drift between days or weeks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from typing import Final, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Direction, Floats

from ...changes import MadeOf, WeekSides, weeks
from ...events import timestamp_text
from ...exporter import DAY, WINDOWS, BaselineComparison, Reading, sides_of
from ...lane import Rows
from ...views import LIVE, Segment, WindowRows, estimates, optional, sum_panes
from .history import Period, Stretch, compared_periods, metric_index, window_index

Verdict: TypeAlias = Literal[
    "better",
    "worse",
    "diluted",
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
LEAST_SCORED: Final = 30
"""Scored impressions from which on a mean is close enough to normally distributed."""


class Estimate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mean over a period, and the impressions that it is made of."""

    mean: float | None
    """null where no impression has a defined value."""
    stderr: float | None
    """null below two scored impressions."""
    scored: int
    impressions: int


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
    low only because it shares traffic with the segments that carry an open change. `moved`: beyond
    the noise, for a metric that has no better direction. `unripe`: beyond it in the live view, but
    missing feedback may be the reason. `level`: within the noise. `too_few`: too few scored
    impressions. `undefined`: one of the means is. `no_traffic`: now or before."""
    since: str | None
    """Start of the pane in which a change that was called began; the onset, where an open change
    says so; null against days or weeks."""
    counts_from: str | None = None
    """From when on the metric counts here, where that is later than the beginning of what is
    compared: periods that reach back beyond it are undefined. null: from before."""


def compared_rows(
    reading: Reading, window: str, view: str, wanted: Mapping[str, Sequence[str]], beyond: float
) -> tuple[Stretch | None, Stretch | None, tuple[Change, ...]]:
    """(the period now, the one before, the changes between them)."""
    rows = [rows for rows in reading.snapshot.windows if (rows.window, rows.view) == (window, view)]
    if not rows or rows[0].end_ms is None:
        return None, None, ()
    now, before = compared_periods(reading, window, rows[0].end_ms)
    compared = _Compared(reading, rows[0], now, before, beyond)
    names = wanted.get("metric") or [metric.name for metric in reading.plan.metrics]
    found = [change for name in dict.fromkeys(names) for change in compared.of_metric(name, wanted)]
    return now.stretch(), before.stretch(), tuple(found)


def verdict(
    now: Estimate, before: Estimate, sizes: tuple[float, float | None], direction: Direction
) -> Verdict:
    """The verdict on a change.

    `sizes` are the difference and its distance from the difference of the rest of the traffic (None
    without such), each as a multiple of what must be exceeded to be called.
    """
    if not now.impressions or not before.impressions:
        return "no_traffic"
    if now.mean is None or before.mean is None:
        return "undefined"
    if min(now.scored, before.scored) < LEAST_SCORED:
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


class _Compared:
    """The rows of both periods, and the changes between them."""

    def __init__(
        self, reading: Reading, shown: WindowRows, now: Period, before: Period, beyond: float
    ) -> None:
        self.reading = reading
        self.live = shown.view == LIVE
        self.period, self.before_period = now, before
        self.now = reading.selection.fold(shown.rows)
        earlier = sum_panes(reading.snapshot, reading.views, before.window_at, before.starts)
        self.before = reading.selection.fold(earlier)
        self.beyond = beyond

    def of_metric(self, name: str, wanted: Mapping[str, Sequence[str]]) -> list[Change]:
        """The changes of one metric."""
        metric_at = metric_index(self.reading.plan, name)
        now, before = (_estimates(rows, self, metric_at) for rows in (self.now, self.before))
        sizes, direction = self._sizes(metric_at), self.reading.plan.metrics[metric_at].direction
        verdicts = [verdict(*row, direction) for row in zip(now, before, sizes, strict=True)]
        requested = [
            (index, segment)
            for index, segment in enumerate(self.reading.selection.segments)
            if is_wanted(segment, wanted)
        ]
        any_called = any(verdicts[index] in CALLS for index, _ in requested)
        since = self._onsets(metric_at) if any_called else [""] * len(verdicts)
        return [
            Change(
                name,
                *segment,
                now=now[index],
                before=before[index],
                difference=_difference(now[index].mean, before[index].mean),
                noise=_noise(now[index], before[index]),
                verdict=verdicts[index],
                since=since[index] if verdicts[index] in CALLS else None,
                counts_from=counts_from(
                    self.reading, metric_at, segment[0], self.before_period.starts[0]
                ),
            )
            for index, segment in requested
        ]

    def _sizes(self, metric_at: int) -> list[tuple[float, float | None]]:
        own, noise = self._differences(self.now, self.before, metric_at)
        own_sizes = (own / (self.beyond * noise)).tolist()
        if not self.live:
            return [(size, size) for size in own_sizes]
        rest, rest_noise = self._differences(
            self.now[:1] - self.now, self.before[:1] - self.before, metric_at
        )
        against = ((own - rest) / (self.beyond * np.hypot(noise, rest_noise))).tolist()
        against_rest = [None if np.isnan(size) else size for size in against]
        return list(zip(own_sizes, against_rest, strict=True))

    def _differences(self, now: Rows, before: Rows, metric_at: int) -> tuple[Floats, Floats]:
        plan = self.reading.plan
        (mean, error), (old_mean, old_error) = (
            estimates(rows, plan, metric_at) for rows in (now, before)
        )
        noise = np.sqrt(error**2 + old_error**2 + (DRIFT * old_mean) ** 2)
        # Where no value varies the noise is 0: avoids 0 / 0, and a difference of 0 stays 0.
        return mean - old_mean, np.maximum(noise, np.finfo(float).tiny)

    def _onsets(self, metric_at: int) -> list[str]:
        """When the level of each segment changed, by panes as short as those of the period before:
        they are kept from its begin until now."""
        column = self.reading.plan.metric_column(metric_at)
        starts = range(self.before_period.starts[0], self.period.end_ms, self.before_period.pane_ms)
        scored, sums = (
            self.reading.column(self.before_period.window_at, starts, column_at)
            for column_at in (column, column + 1)
        )
        return [timestamp_text(starts[index]) for index in onsets(scored, sums)]


def _estimates(rows: Rows, compared: _Compared, metric_at: int) -> list[Estimate]:
    plan = compared.reading.plan
    means, errors = (optional(values) for values in estimates(rows, plan, metric_at))
    scored = rows[:, plan.metric_column(metric_at)].tolist()
    columns = means, errors, scored, rows[:, 0].tolist()
    return [Estimate(*row) for row in zip(*columns, strict=True)]


def counts_from(reading: Reading, metric_at: int, grouping: str, begin_ms: int) -> str | None:
    """`Change.counts_from` of what is compared from `begin_ms` on."""
    coverage = reading.hour_sources.coverage
    first_ms = None if coverage is None else coverage.begins(metric_at, grouping)
    return timestamp_text(first_ms) if first_ms is not None and first_ms > begin_ms else None


def _difference(now: float | None, before: float | None) -> float | None:
    return None if now is None or before is None else now - before


def _noise(now: Estimate, before: Estimate) -> float | None:
    if now.stderr is None or before.stderr is None or before.mean is None:
        return None
    return hypot(now.stderr, before.stderr, DRIFT * before.mean)


def is_wanted(segment: Segment, wanted: Mapping[str, Sequence[str]]) -> bool:
    """Whether a segment passes the filters."""
    names = dict(zip(("grouping", "segment"), segment, strict=True))
    return all(name not in wanted or value in wanted[name] for name, value in names.items())


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


def usual_rows(
    reading: Reading,
    window: str,
    wanted: Mapping[str, Sequence[str]],
    against: Earlier,
    beyond: float,
) -> Table:
    """The rows of the shown segments that pass the filters `wanted`.

    The last hours are the shortest of 1, 6 and 24 that are as long as the window, or 24.
    """
    hours = _hours_of(reading, window)
    found = [each for each in reading.usual.comparisons if each.window == f"{hours}h"]
    periods = {} if not found else _periods(found[0], against, reading.plan.hour_ms)
    if not periods:
        return Table(None, (), (), _nothing_yet(reading, against, hours))
    (comparison,) = found
    compared = _UsualCompared(reading, comparison, list(periods.values()), against, beyond)
    names = wanted.get("metric") or [metric.name for metric in reading.plan.metrics]
    return Table(
        _stretch(comparison),
        tuple(_stretch(comparison, back_ms) for back_ms in periods),
        tuple(row for name in dict.fromkeys(names) for row in compared.of_metric(name, wanted)),
        None,
    )


def _hours_of(reading: Reading, window: str) -> int:
    length_ms = reading.plan.timing.windows[window_index(reading.plan, window)].length_ms
    lengths = [hours for _, hours in WINDOWS]
    return next((each for each in lengths if each * reading.plan.hour_ms >= length_ms), lengths[-1])


def _periods(
    comparison: BaselineComparison, against: Earlier, hour_ms: int
) -> Mapping[int, Floats]:
    """How long before → the rows."""
    if against == "weeks":
        return comparison.periods if comparison.unit == "week" else {}
    if comparison.yesterday is None:
        return {}
    return {DAY * hour_ms: comparison.yesterday}


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
    kept = reading.hour_sources.starts
    if not kept:
        return nothing
    # The first hour is left out: counting may have begun within it.
    first_ms = min(kept) + plan.hour_ms
    known_ms = first_ms + (_DAYS[against] * DAY + hours) * plan.hour_ms
    since = f"{nothing} Whole hours are kept since {timestamp_text(first_ms)}"
    if (reading.snapshot.as_of_ms or 0) - plan.timing.settle_ms < known_ms:
        return f"{since}: there is something to compare with by {timestamp_text(known_ms)}."
    return f"{since}."


class _UsualCompared:
    """The last hours and their periods, (segments, metrics)."""

    def __init__(
        self,
        reading: Reading,
        comparison: BaselineComparison,
        periods: Sequence[Floats],
        against: Earlier,
        beyond: float,
    ) -> None:
        self._reading, self._beyond = reading, beyond
        self._rows, self._periods = comparison.recent, periods
        back_ms = max(comparison.periods) if against == "weeks" else DAY * reading.plan.hour_ms
        self._begin_ms = comparison.from_ms - back_ms
        change_settings = reading.usual.change_settings
        self._sides: WeekSides = sides_of(comparison.recent, periods, reading.plan)
        drifts = np.array(
            [change_settings.drift_of(metric.name) for metric in reading.plan.metrics]
        )
        made_of = MadeOf(len(periods), against == "day")
        compared = weeks.compare(self._sides, made_of, change_settings, drifts)
        self._noise = compared.error_ratio * np.abs(self._sides.baseline)

    def of_metric(self, name: str, wanted: Mapping[str, Sequence[str]]) -> list[Change]:
        """The rows of one metric."""
        at, plan = metric_index(self._reading.plan, name), self._reading.plan
        column, sides = plan.metric_column(at), self._sides
        now = _usual_estimates(self._rows, column, sides.score[:, at], sides.stderr[:, at])
        sums = np.sum(self._periods, axis=0)
        before = _usual_estimates(sums, column, sides.baseline[:, at], sides.baseline_stderr[:, at])
        differences = optional(sides.score[:, at] - sides.baseline[:, at])
        noises = optional(self._noise[:, at])
        direction = plan.metrics[at].direction
        return [
            Change(
                name,
                *segment,
                now=now[index],
                before=before[index],
                difference=differences[index],
                noise=noises[index],
                verdict=verdict(
                    now[index],
                    before[index],
                    self._size(differences[index], noises[index]),
                    direction,
                ),
                since=None,
                counts_from=counts_from(self._reading, at, segment[0], self._begin_ms),
            )
            for index, segment in enumerate(self._reading.selection.segments)
            if is_wanted(segment, wanted)
        ]

    def _size(self, difference: float | None, noise: float | None) -> tuple[float, float]:
        if difference is None or noise is None:
            return 0.0, 0.0
        size = difference / (self._beyond * max(noise, np.finfo(float).tiny))
        return size, size


def _usual_estimates(rows: Floats, column: int, means: Floats, errors: Floats) -> list[Estimate]:
    scored, impressions = (np.rint(rows[:, at]).astype(int).tolist() for at in (column, 0))
    columns = optional(means), optional(errors), scored, impressions
    return [Estimate(*row) for row in zip(*columns, strict=True)]
