"""The design effect, measured: how much more means of hours differ than means of as many
independent impressions would; and the drift from week to week. Pure.

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

The drift is what differences of a week have beyond that: their median, as a fault or a release is
no drift.

Simulated with searches of users in `tests/daemon/changes/test_design_effect.py`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics import Booleans, Floats

from .timeline import share_drift

DAY: Final = 24
WEEK: Final = 7 * DAY
MEASURED_HOURS: Final = 3 * WEEK
"""How many of the last hours tell the design effect."""
DRIFT_HOURS: Final = 5 * WEEK
"""How many tell the drift."""
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
MOVES_OF_ERROR: Final = 8.0
"""Moves overlap: the variance of an effect of so many, by weight, is its square."""
LEAST_IN_WEEK: Final = 50.0
"""Differences, by weight, below which a week tells no drift."""
LEAST_WEEKS: Final = 3
"""Differences of a week that must be there to tell the drift: a release may be in one of them."""
MOST_DRIFT_RATIO: Final = 0.03
"""What drifts more is no drift to get used to."""
_MEDIAN_CHI_SQUARED: Final = 0.4549
"""Of one degree of freedom: the median of squares of standard normal variables."""
_HALVINGS: Final = 12


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
    failures: bool = False
    """Whether they are shares of searches that fail."""

    def last(self, hours: int) -> "HourSums":
        """The last of them."""
        kept = slice(-hours, None)
        return HourSums(
            self.scored[:, kept],
            self.means[:, kept],
            self.variances[:, kept],
            self.drift_ratio,
            self.failures,
        )

    def drift_at(self, levels: Floats) -> Floats:
        """The standard deviation of the drift of scores of these levels."""
        return np.asarray(self.drift_ratio * levels * share_drift(levels, self.failures))


@dataclass(frozen=True)
class GroupEffect:
    """The design effect that some series tell together."""

    effect: float
    """0 or more."""
    moves: float
    """By weight, at least `LEAST_MOVES`."""


def measured(groups: Iterable[HourSums]) -> float | None:
    """The design effect, 0 or more; None while too little is known: less than a week, or no group
    with enough impressions and little enough drift.

    Each group has series that tell the same: one metric of the segments of one grouping. The errors
    of all scores are widened by the result, so those of the metric whose values depend most on the
    user must not be too small: it is the largest of the groups. But the largest of forty is the one
    with the greatest error, so each is shrunk first towards the mean of all, by how much they
    differ beyond their errors.
    """
    found = [effect for hours in groups if (effect := of_group(hours)) is not None]
    if not found:
        return None
    effects = np.array([each.effect for each in found])
    moves = np.array([each.moves for each in found])
    mean = float(moves @ effects / moves.sum())
    errors = MOVES_OF_ERROR * max(mean, 1.0) ** 2 / moves
    weights = 1 / errors
    excess = float(weights @ (effects - mean) ** 2) - (len(found) - 1)
    free = weights.sum() - (weights**2).sum() / weights.sum()
    between = max(excess / free, 0.0) if free > 0 else 0.0
    return float((mean + between / (between + errors) * (effects - mean)).max())


def used(setting: float, known: float | None) -> float:
    """The design effect to judge with: that of the settings, or a larger one that was measured; at
    least `BEFORE_KNOWN` while none is."""
    return max(setting, BEFORE_KNOWN if known is None else known)


def of_group(hours: HourSums) -> GroupEffect | None:
    """The design effect that these series tell together; None where they tell too little."""
    hours = hours.last(MEASURED_HOURS)
    if hours.scored.shape[1] < WEEK:
        return None
    blocks = _blocks(hours)
    moves = _difference(blocks, BLOCK)
    levels = _levels(blocks)
    drift = 2 * hours.drift_at(levels) ** 2 * _drift_of_a_move()
    moves = _without_breaks(moves, drift)
    total = weight = 0.0
    for days in COMPARED_DAYS:
        compared = _difference(moves, days * DAY)
        weekdays = 0.0 if days * DAY % WEEK == 0 else 2 * (WEEKDAYS_RATIO * levels) ** 2
        weights, effects = _effects(compared, 2 * drift, weekdays)
        total += float((weights * effects).sum())
        weight += float(weights.sum())
    return GroupEffect(max(total / weight, 0.0), weight) if weight >= LEAST_MOVES else None


def measured_drift(groups: Sequence[HourSums], design_effect: float) -> float | None:
    """The drift ratio of one metric from week to week, from its series in the last five weeks, at
    most `MOST_DRIFT_RATIO`; None where fewer than `LEAST_WEEKS` differences of a week tell it.

    Series count by the share of their variance that is drift by the ratio they come with.
    """
    if not groups or groups[0].scored.shape[1] <= LEAST_WEEKS * WEEK:
        return None
    parts = [_weekly(hours, design_effect) for hours in groups]
    weeks = [_joined(of_week) for of_week in zip(*parts, strict=False)]
    told = [of_week for of_week in weeks if of_week[2].sum() >= LEAST_IN_WEEK]
    if len(told) < LEAST_WEEKS:
        return None
    # A fault of some days is in two or three of the differences, a release in one.
    steady = sorted(_drift_by_median(*of_week) for of_week in told)[1]
    squares, chance, weights = _joined(told)
    kept = squares <= NO_NOISE**2 * (chance + steady**2)
    found = _drift_by_median(squares[kept], chance[kept], weights[kept])
    return min(found, MOST_DRIFT_RATIO)


_Squares: TypeAlias = tuple[Floats, Floats, Floats]
"""(n,) each: squares of differences of a week in units of what a drift of 1 gives them, what chance
gives them, and weights."""


def _weekly(hours: HourSums, design_effect: float) -> list[_Squares]:
    """Of each of the last weeks, the newest first."""
    blocks = _blocks(hours.last(DRIFT_HOURS))
    by_drift = 2 * hours.drift_at(_levels(blocks)) ** 2 / hours.drift_ratio**2
    apart = _difference(blocks, WEEK)
    known = apart.known & (by_drift > 0)
    scale = np.where(known, by_drift, 1.0)
    squares = apart.values**2 / scale
    chance = design_effect * apart.variances / scale
    weights = np.where(known, hours.drift_ratio**2 / (hours.drift_ratio**2 + chance), 0.0)
    # The earliest has fewer hours, by those of a block.
    ends = range(known.shape[1], WEEK - DAY, -WEEK)
    return [
        (squares[:, at][known[:, at]], chance[:, at][known[:, at]], weights[:, at][known[:, at]])
        for at in (slice(max(end - WEEK, 0), end) for end in ends)
    ]


def _joined(parts: Iterable[_Squares]) -> _Squares:
    squares, chance, weights = (np.concatenate(each) for each in zip(*parts, strict=True))
    return squares, chance, weights


def _drift_by_median(squares: Floats, chance: Floats, weights: Floats) -> float:
    """The drift ratio by which half of the squares, by weight, are at most what they are of half of
    all normal variables."""
    low, high = 0.0, 2 * MOST_DRIFT_RATIO
    for _ in range(_HALVINGS):
        ratio = (low + high) / 2
        beyond = squares > _MEDIAN_CHI_SQUARED * (chance + ratio**2)
        low, high = (ratio, high) if 2 * weights[beyond].sum() > weights.sum() else (low, ratio)
    return (low + high) / 2


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


def _levels(blocks: _Values) -> Floats:
    """(series, 1): the median score of each."""
    return _medians(np.where(blocks.known, blocks.values, np.nan))[:, np.newaxis]


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
    values = np.where(moves.known, moves.values, np.nan)
    series, width = values.shape
    days = -(-width // DAY)
    of_days = np.full((series, days * DAY), np.nan)
    of_days[:, :width] = values
    by_hour = of_days.reshape(series, days, DAY).swapaxes(1, 2)
    usual = np.tile(_medians(by_hour), days)[:, :width]
    expected = np.where(moves.known, moves.variances + drift, np.nan)
    squares = (values - usual) ** 2 / expected
    noise = np.maximum(_medians(squares) / _MEDIAN_CHI_SQUARED, 1.0)[:, np.newaxis]
    known = moves.known & (squares <= NO_NOISE**2 * noise)
    return _Values(moves.values, moves.variances, known)


def _medians(values: Floats) -> Floats:
    """The medians along the last axis of what is not NaN; NaN where all is. `np.nanmedian` takes
    six times as long."""
    beyond = np.full((*values.shape[:-1], 1), np.nan)  # so that there is one
    ordered = np.sort(np.concatenate([values, beyond], axis=-1), axis=-1)  # NaN comes last
    known = np.sum(~np.isnan(values), axis=-1, keepdims=True)
    low, high = (
        np.take_along_axis(ordered, at, axis=-1)
        for at in (np.maximum(known - 1, 0) // 2, known // 2)
    )
    medians: Floats = np.squeeze((low + high) / 2, axis=-1)
    return medians


def _effects(compared: _Values, drift: Floats, weekdays: Floats | float) -> tuple[Floats, Floats]:
    """(weights, effects) of each comparison; both 0 where it is unknown."""
    variances = np.where(compared.known, compared.variances, 1.0)
    weights = np.where(compared.known, variances / (variances + drift + weekdays), 0.0) ** 2
    effects = np.where(compared.known, (compared.values**2 - drift) / variances, 0.0)
    return weights, effects
