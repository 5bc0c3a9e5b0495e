"""Each segment in the last settled hours beside the same hours of yesterday, or of the last weeks.
Pure.

The arithmetic is that of the alert rules: the noise of a difference contains the design effect and
the drift between days or weeks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from relevanced.metrics.lists import Floats

from ...events.timestamps import timestamp_text
from ...exporter.baselines import DAY, WINDOWS, Comparison
from ...exporter.pane_reader import Reading
from ...exporter.scores import optional
from ...exporter.usual import sides_of
from ...judging import weeks
from ...judging.weeks import MadeOf, Sides
from .compared import Change, Estimate, counts_from, is_wanted, verdict
from .history import metric_index, window_index
from .periods import Stretch

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
    compared = _Compared(reading, comparison, list(periods.values()), against, beyond)
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


def _periods(comparison: Comparison, against: Earlier, hour_ms: int) -> Mapping[int, Floats]:
    """How long before → the rows."""
    if against == "weeks":
        return comparison.periods if comparison.unit == "week" else {}
    if comparison.yesterday is None:
        return {}
    return {DAY * hour_ms: comparison.yesterday}


def _stretch(comparison: Comparison, back_ms: int = 0) -> Stretch:
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


class _Compared:
    """The last hours and their periods, (segments, metrics)."""

    def __init__(
        self,
        reading: Reading,
        comparison: Comparison,
        periods: Sequence[Floats],
        against: Earlier,
        beyond: float,
    ) -> None:
        self._reading, self._beyond = reading, beyond
        self._rows, self._periods = comparison.recent, periods
        back_ms = max(comparison.periods) if against == "weeks" else DAY * reading.plan.hour_ms
        self._begin_ms = comparison.from_ms - back_ms
        judging = reading.usual.judging
        self._sides: Sides = sides_of(comparison.recent, periods, reading.plan)
        drifts = np.array([judging.drift_of(metric.name) for metric in reading.plan.metrics])
        made_of = MadeOf(len(periods), against == "day")
        compared = weeks.compare(self._sides, made_of, judging, drifts)
        self._noise = compared.error_ratio * np.abs(self._sides.baseline)

    def of_metric(self, name: str, wanted: Mapping[str, Sequence[str]]) -> list[Change]:
        """The rows of one metric."""
        at, plan = metric_index(self._reading.plan, name), self._reading.plan
        column, sides = plan.metric_column(at), self._sides
        now = _estimates(self._rows, column, sides.score[:, at], sides.stderr[:, at])
        sums = np.sum(self._periods, axis=0)
        before = _estimates(sums, column, sides.baseline[:, at], sides.baseline_stderr[:, at])
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


def _estimates(rows: Floats, column: int, means: Floats, errors: Floats) -> list[Estimate]:
    scored, impressions = (np.rint(rows[:, at]).astype(int).tolist() for at in (column, 0))
    columns = optional(means), optional(errors), scored, impressions
    return [Estimate(*row) for row in zip(*columns, strict=True)]
