"""The first two weeks of a new installation, as the gauges that the exporter would serve.

Pure numpy, with the traffic of `alert_traffic`. Nothing is known before the start: a window exists
once half of it is known, a baseline once half of an earlier period is, first of the days before,
then of the week before once all of it is. What is known of a period stands for all of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from relevanced.daemon.changes import HOUR, THREE_HOURS, MadeOf, WeekSides
from relevanced.daemon.exporter import DAYS, WEEKS, averaged
from relevanced.daemon.views import ENOUGH
from tests.deploy.alert_traffic import (
    PANES_PER_HOUR,
    PANES_PER_WEEK,
    SETTLING_PANES,
    WINDOWS,
    Floats,
    Indices,
    Traffic,
    cumulated,
    drifting,
    expected,
    season,
    summed,
)

FIRST: Final = PANES_PER_HOUR
"""The pane from which on baselines count: the first hour is left out."""
PANES_PER_DAY: Final = 24 * PANES_PER_HOUR


@dataclass(frozen=True)
class Started:
    """The gauges of each window, (trials, instants), and what its baseline is made of, 3h
    included."""

    gauges: dict[str, WeekSides]
    made_of: dict[str, MadeOf]


@dataclass(frozen=True)
class _Cumulated:
    """Scored impressions and sums of scores up to each pane, (trials, panes + 1)."""

    counts: Floats
    sums: Floats
    deviation: float

    def window(self, ends: Indices, width: int, first: int) -> tuple[Floats, Floats, Floats]:
        """(share of the window that is known, mean, impressions as if all were known); the mean is
        NaN where less than `ENOUGH` is known."""
        begin = np.clip(ends - width, first, None)
        share = np.clip(ends - begin, 0, None) / width
        begin = np.minimum(begin, np.clip(ends, 0, None))
        ends = np.clip(ends, 0, None)
        count = self.counts[:, ends] - self.counts[:, begin]
        known = (share >= ENOUGH) & (count > 0)
        mean = (self.sums[:, ends] - self.sums[:, begin]) / np.where(known, count, np.nan)
        return share, mean, count / np.where(share > 0, share, 1.0)


def simulate_start(
    traffic: Traffic,
    trials: int,
    days: int,
    rng: np.random.Generator,
    *,
    drop: float = 0.0,
    drop_at_hour: int = 0,
) -> Started:
    """Every five minutes from the start on. From `drop_at_hour` after the start on scores are lower
    by the share `drop`. Each trial begins at a random hour of the week."""
    panes = days * PANES_PER_DAY
    hour = np.arange(panes) / PANES_PER_HOUR + rng.uniform(0, 7 * 24, (trials, 1))
    counts = rng.poisson(expected(traffic, hour)).astype(np.float64)
    true = season(traffic, hour) * (1 + traffic.drift * drifting(traffic, trials, panes, rng))
    true *= 1 + _of_weekdays(traffic, hour, rng)
    if drop:
        true[:, drop_at_hour * PANES_PER_HOUR :] *= 1 - drop
    sums = summed(traffic, counts, true, rng)
    known = _Cumulated(cumulated(counts), cumulated(sums), traffic.deviation)
    ends = np.arange(panes, dtype=np.intp) - SETTLING_PANES
    found = {window: _compared(known, ends, width) for window, width in WINDOWS.items()}
    made_of = {window: made for window, (_, made) in found.items()}
    return Started(
        {window: sides for window, (sides, _) in found.items()},
        made_of | {THREE_HOURS: _of_three_hours(made_of[HOUR])},
    )


def _of_three_hours(hour: MadeOf) -> MadeOf:
    """Of other days where one of the three hours is compared with other days."""
    of_days = np.asarray(hour.of_days)
    before = [of_days[: max(len(of_days) - by, 0)] for by in (PANES_PER_HOUR, 2 * PANES_PER_HOUR)]
    padded = [np.pad(each, (len(of_days) - len(each), 0)) for each in before]
    return MadeOf(hour.periods, of_days | padded[0] | padded[1])


def _of_weekdays(traffic: Traffic, hour: Floats, rng: np.random.Generator) -> Floats:
    """(trials, panes): by how much the day of the week raises the score."""
    weekday = (hour // 24).astype(np.intp) % 7
    offsets = traffic.weekday_drift * rng.standard_normal((len(hour), 7))
    offsets[:, 5:] += traffic.weekend
    return np.asarray(np.take_along_axis(offsets, weekday, axis=1))


def _compared(known: _Cumulated, ends: Indices, width: int) -> tuple[WeekSides, MadeOf]:
    share, mean, count = known.window(ends, width, 0)
    seen = np.maximum(count * share, 1)
    in_weeks = [week * PANES_PER_WEEK for week in range(1, WEEKS + 1)]
    in_days = [day * PANES_PER_DAY for day in range(1, DAYS + 1)]
    weeks = _baseline(known, ends, width, in_weeks, least=1.0)
    days = _baseline(known, ends, width, in_days)
    of_days = weeks[2] == 0
    sides = WeekSides(
        score=mean,
        stderr=known.deviation / np.sqrt(seen),
        impressions=count * share,
        baseline=np.where(of_days, days[0], weeks[0]),
        baseline_stderr=np.where(of_days, days[1], weeks[1]),
    )
    periods = np.where(of_days, days[2], weeks[2])
    return sides, MadeOf(periods.astype(np.float64), of_days)


def _baseline(
    known: _Cumulated, ends: Indices, width: int, shifts: Sequence[int], least: float = ENOUGH
) -> tuple[Floats, Floats, Indices]:
    """(means, standard errors) of (trials, instants), and (instants,) periods of which the share
    `least` is known."""
    means, errors, periods = [], [], np.zeros(len(ends), np.intp)
    for shift in shifts:
        share, mean, count = known.window(ends - shift, width, FIRST)
        periods += share >= least
        mean = np.where(share >= least, mean, np.nan)
        means.append(mean)
        error = known.deviation / np.sqrt(np.maximum(count, 1))
        errors.append(np.where(np.isnan(mean), np.nan, error))
    baseline, error = averaged(np.array(means), np.array(errors))
    return baseline, error, periods
