"""The design effect, measured: how much more means of hours differ than means of as many
independent impressions would. Pure.

One user's searches resemble one another, so that n impressions tell less than n independent ones.
Whatever judges a mean divides by an error that this factor widens: where it is twice what is
believed, false alarms are forty times as many.

Measured is how the score moves from one block of hours to the next, less how it moves at the same
hours of another day or week, so that the shape of the day and of the week cancels:

    q = ((y[t + B] - y[t]) - (y'[t + B] - y'[t]))^2
    E q = effect * v + d,   v = sum of s^2 / n over the four blocks,   d = the drift of four blocks

A block is so long that most sessions of users lie within one: by single hours, an effect of 2
seems 1.6 where the searches of a session are 5 minutes apart. The estimate is the mean of
(q - d) / v, in which a move counts by the square of v / (v + d + w), the share of its variance that
depends on the effect; w stands for the difference between weekdays. So large segments, whose
differences are drift, count little. Moves that are no noise (a break, its end) are left out first.

Simulated with searches of users in `tests/daemon/changes/test_design_effect.py`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from relevanced.metrics import Booleans, Floats

DAY: Final = 24
WEEK: Final = 7 * DAY
MEASURED_HOURS: Final = 3 * WEEK
"""How many of the last hours are measured."""
BEFORE_KNOWN: Final = 1.5
"""The least effect to judge with while none has been measured."""
BLOCK: Final = 3
"""Hours of a block: the window that decides first about a drop of 10 %."""
DRIFT_MEMORY_H: Final = 12.0
"""Hours after which the drift of a score is correlated by 1/e."""
WEEKDAYS_RATIO: Final = 0.01
"""How far a move by a block may differ between two weekdays, as a share of the score."""
COMPARED_DAYS: Final = (1, 2, 3, 7, 14)
"""Distances, in days, at which moves are compared."""
LEAST_SCORED_IN_HOUR: Final = 30
"""Scored impressions that a block must have: below, its mean is far from normal."""
LEAST_MOVES: Final = 100.0
"""Comparisons, by weight, below which nothing is known."""
NO_NOISE: Final = 4.0
"""A move this many standard deviations from that of other days is a break, or its end."""
_MEDIAN_CHI_SQUARED: Final = 0.4549
"""Of one degree of freedom: the median of squares of standard normal variables."""


@dataclass(frozen=True)
class HourSums:
    """Consecutive hours of some series, one row each: (series, hours).

    An hour that is unknown or left out has 0 scored impressions; its mean and its variance (of one
    impression) are not read.
    """

    scored: Floats
    means: Floats
    variances: Floats
    drift_ratio: float
    """Standard deviation of the drift of these scores, as a share of them."""


def measured(groups: Iterable[HourSums]) -> float | None:
    """The design effect, 0 or more; None while too little is known: less than a week, or no group
    with enough impressions and little enough drift.

    Each group has series that tell the same: one metric of the segments of one grouping. The
    result is the largest of the groups. The errors of all scores are widened by it, so those of
    the metric whose values depend most on the user must not be too small.
    """
    found = [effect for hours in groups if (effect := of_group(hours)) is not None]
    return max(found, default=None)


def used(setting: float, known: float | None) -> float:
    """The design effect to judge with: that of the settings, or a larger one that was measured; at
    least `BEFORE_KNOWN` while none is."""
    return max(setting, BEFORE_KNOWN if known is None else known)


def of_group(hours: HourSums) -> float | None:
    """The design effect that these series tell together, 0 or more; None where they tell too
    little."""
    if hours.scored.shape[1] < WEEK:
        return None
    blocks = _blocks(hours)
    moves = _difference(blocks, BLOCK)
    levels = _medians(np.where(blocks.known, blocks.values, np.nan), axis=1)[:, np.newaxis]
    drift = 2 * (hours.drift_ratio * levels) ** 2 * _drift_of_a_move()
    moves = _without_breaks(moves, drift)
    total = weight = 0.0
    for days in COMPARED_DAYS:
        compared = _difference(moves, days * DAY)
        weekdays = 0.0 if days * DAY % WEEK == 0 else 2 * (WEEKDAYS_RATIO * levels) ** 2
        weights, effects = _effects(compared, 2 * drift, weekdays)
        total += float((weights * effects).sum())
        weight += float(weights.sum())
    return max(total / weight, 0.0) if weight >= LEAST_MOVES else None


@dataclass(frozen=True)
class _Values:
    """(series, hours) of values, and of the variances they would have if impressions were
    independent; 0 where unknown."""

    values: Floats
    variances: Floats
    known: Booleans


def _blocks(hours: HourSums) -> _Values:
    """The means of all blocks of whole hours, which overlap."""
    present = hours.scored > 0
    sums = np.where(present, hours.scored * hours.means, 0.0)
    spread = np.where(present, hours.scored * hours.variances, 0.0)
    scored, total, spreads = (_rolled(each) for each in (hours.scored, sums, spread))
    known = (_rolled(present) == BLOCK) & (scored >= LEAST_SCORED_IN_HOUR) & (spreads > 0)
    divisor = np.where(known, scored, 1.0)
    return _Values(
        np.where(known, total / divisor, 0.0), np.where(known, spreads / divisor**2, 0.0), known
    )


def _rolled(values: Floats | Booleans) -> Floats:
    """(series, hours - BLOCK + 1): the sums of `BLOCK` neighbours."""
    last = values.shape[1] - BLOCK + 1
    rolled: Floats = np.sum([values[:, by : by + last] for by in range(BLOCK)], axis=0, dtype=float)
    return rolled


def _difference(of: _Values, distance: int) -> _Values:
    """Each value less the one that is as many hours before it."""
    later, earlier = slice(distance, None), slice(None, -distance)
    known = of.known[:, later] & of.known[:, earlier]
    return _Values(
        np.where(known, of.values[:, later] - of.values[:, earlier], 0.0),
        np.where(known, of.variances[:, later] + of.variances[:, earlier], 0.0),
        known,
    )


def _drift_of_a_move() -> float:
    """Half the variance of the drift's move from one block to the next, for a drift of variance 1
    whose correlation falls by 1/e in `DRIFT_MEMORY_H`."""
    apart = np.arange(BLOCK)[:, np.newaxis] - np.arange(BLOCK)
    within = np.exp(-np.abs(apart) / DRIFT_MEMORY_H).mean()
    across = np.exp(-np.abs(apart - BLOCK) / DRIFT_MEMORY_H).mean()
    return float(within - across)


def _without_breaks(moves: _Values, drift: Floats) -> _Values:
    """The moves that differ from the same move of other days by noise.

    How much noise there is tells the median of all moves, which breaks hardly change.
    """
    usual = np.full(moves.values.shape, np.nan)
    values = np.where(moves.known, moves.values, np.nan)
    for hour in range(DAY):
        usual[:, hour::DAY] = _medians(values[:, hour::DAY], axis=1)[:, np.newaxis]
    expected = np.where(moves.known, moves.variances + drift, np.nan)
    squares = (values - usual) ** 2 / expected
    noise = np.maximum(_medians(squares, axis=1) / _MEDIAN_CHI_SQUARED, 1.0)[:, np.newaxis]
    known = moves.known & (squares <= NO_NOISE**2 * noise)
    return _Values(moves.values, moves.variances, known)


def _medians(values: Floats, axis: int) -> Floats:
    """The medians of what is not NaN; NaN where all is."""
    empty = np.isnan(values).all(axis=axis)
    found: Floats = np.nanmedian(np.where(np.expand_dims(empty, axis), 0.0, values), axis=axis)
    return np.where(empty, np.nan, found)


def _effects(compared: _Values, drift: Floats, weekdays: Floats | float) -> tuple[Floats, Floats]:
    """(weights, effects) of each comparison; both 0 where it is unknown."""
    variances = np.where(compared.known, compared.variances, 1.0)
    weights = np.where(compared.known, variances / (variances + drift + weekdays), 0.0) ** 2
    effects = np.where(compared.known, (compared.values**2 - drift) / variances, 0.0)
    return weights, effects
