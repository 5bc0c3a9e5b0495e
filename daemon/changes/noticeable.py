"""The smallest fall of a score that would be noticed in 9 of 10 cases, lane by lane. Pure.

Computed from the thresholds of the lanes: a fall is found where its z lies beyond the threshold by
the 90 % quantile of the normal distribution, and its size beyond the least loss by that quantile of
its error.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import hypot, inf, sqrt
from typing import Final

import numpy as np

from relevanced.metrics import Floats, Integers

from .design_effect import BEFORE_KNOWN
from .levels import as_usual, level, loss, within
from .scan import LEAST_BEFORE_MS, LEAST_LOSS, LEAST_NOW_MS, LEAST_SCORED, Sides, threshold
from .timeline import HOUR_MS, ScoreNoise, ScoreTimeline

NINE_OF_TEN: Final = 1.2816
"""The 90 % quantile of the standard normal distribution."""


_PARTS: Final = 60
"""Instants that are tried for a table."""


@dataclass(frozen=True)
class Rule:
    """A condition of the alert rules on one window of a comparison with earlier weeks or days."""

    hours: int
    low_z: float
    least_loss: float
    most_error: float = inf
    """The condition holds only where an error is below this share of the score."""


RULES: Final = (
    Rule(1, 5.0, 0.20),
    Rule(3, 4.5, 0.02),
    Rule(24, 4.0, 0.02),
    Rule(24, 3.7, 0.02, 0.01),
)
"""Of the conditions `far_below`, `dropped` (the window that finds a lasting fall first) and
`sinking`."""


@dataclass(frozen=True, eq=False)
class Least:
    """The smallest fall of each series that one comparison would find by now."""

    lane: str
    """`hour`, `day` or `weeks`."""
    drop: Floats
    """(series,) as a share of the score; infinite where it would find none."""
    begun_ms: Floats
    """(series,) It would find one that began by then; what began later has not shown enough yet."""


@dataclass(frozen=True)
class Noticed:
    """A fall of one score that would have been noticed in 9 of 10 cases."""

    lane: str
    drop: float
    begun_ms: float
    """If it began by then."""


SOON_MS: Final = 4 * HOUR_MS
"""What began so long ago is known well enough for most decisions; a day tells smaller falls."""
CLEAR_RISE_Z: Final = 3.0
"""A score is better than usual beyond so many errors."""
CLEARLY: Final = 1.25
"""A fall that was noticed sooner is told beside the smallest one where it is so much larger."""


def noticed(of: Iterable[Least], series: int, end_ms: float) -> tuple[Noticed, ...]:
    """The smallest fall of a series that would have been noticed by the end of what has settled,
    and the smallest that would have been soon; nothing where none would have been."""
    found = (
        Noticed(each.lane, float(each.drop[series]), float(each.begun_ms[series])) for each in of
    )
    known = sorted((each for each in found if each.drop < 1), key=lambda each: each.drop)
    soon = [each for each in known if end_ms - each.begun_ms <= SOON_MS]
    if not known or known[0] in soon or not soon or soon[0].drop < CLEARLY * known[0].drop:
        return tuple(known[:1])
    return known[0], soon[0]


def of_instants(sides: Sides, series: int) -> Floats:
    """(instants, series): the smallest fall at each instant that lane `hour` would find, as a share
    of the score; infinite where it would find none."""
    beyond = (-threshold(series) + NINE_OF_TEN) * sides.error
    least = np.maximum(beyond, LEAST_LOSS + NINE_OF_TEN * sides.error)
    enough = (sides.scored >= LEAST_SCORED) & ~np.isnan(least)
    return np.asarray(np.where(enough, least, inf))


def by_scan(sides: Sides, series: int) -> Floats:
    """(series,): the smallest of these, whenever it began."""
    return np.asarray(of_instants(sides, series).min(axis=0, initial=inf))


def scanned_leasts(timeline: ScoreTimeline, found: Sides, series: int) -> tuple[Least, Least]:
    """What lane `hour` would find whenever it began, and what began less than SOON_MS ago."""
    starts, least = timeline.starts[found.instants], of_instants(found, series)
    soon = starts >= timeline.ends[-1] - SOON_MS
    return _least(starts, least), _least(starts[soon], least[soon])


def _least(starts: Integers, least: Floats) -> Least:
    if not len(starts):
        return Least("hour", np.full(least.shape[1], inf), np.full(least.shape[1], -inf))
    at = least.argmin(axis=0)
    return Least("hour", least[at, np.arange(least.shape[1])], starts[at].astype(np.float64))


def joined_leasts(parts: Sequence[Least]) -> Least:
    """Of series in parts, those of all, in order."""
    drops, begun = ([getattr(each, name) for each in parts] for name in ("drop", "begun_ms"))
    return Least(parts[0].lane, np.concatenate(drops), np.concatenate(begun))


def rise_of(gained: Floats, z: Floats) -> Floats:
    """The share by which a score is clearly better than what earlier weeks or days have, else 0: a
    fall back to what they have is none, so that one has to be larger by that. `z` is that of the
    gain, both have any shape."""
    with np.errstate(invalid="ignore"):
        is_clear = (gained > LEAST_LOSS) & (z > CLEAR_RISE_Z)
    return np.asarray(np.where(is_clear, gained, 0.0))


def beyond_rise(
    least: Least, timeline: ScoreTimeline, directions: Floats, noise: ScoreNoise
) -> Least:
    """The smallest fall that lane `hour` would find where scores are better than the weeks before
    since it would have begun."""
    if timeline.usual is None:
        return least
    end_ms = np.full(len(directions), float(timeline.ends[-1]))
    begun_ms = np.where(np.isfinite(least.begun_ms), least.begun_ms, end_ms)
    now = level(timeline, within(timeline, begun_ms, end_ms))
    lost = loss(as_usual(now), now, directions, noise)
    with np.errstate(divide="ignore", invalid="ignore"):
        gained = -lost.amount / np.abs(lost.expected)
    return replace(least, drop=least.drop + rise_of(gained, lost.z))


def by_earlier(
    hours: int, error: Floats, periods: Floats | int, unit: str, noise: ScoreNoise
) -> Floats:
    """(series,): the smallest fall that the alert rules find with a window of `hours` against so
    many earlier weeks or days; infinite where they find none.

    `error` is the sampling error of the difference, as a share of the score, for independent
    impressions.
    """
    drift = noise.drift_against(periods, unit)
    whole = np.sqrt(noise.design_effect * error**2 + drift**2)
    least = np.full(whole.shape, inf)
    for rule in RULES:
        if rule.hours == hours:
            found = np.maximum(
                (rule.low_z + NINE_OF_TEN) * whole, rule.least_loss + NINE_OF_TEN * whole
            )
            least = np.where(whole < rule.most_error, np.minimum(least, found), least)
    return least


@dataclass(frozen=True)
class Site:
    """A steady site, for tables: so many scored impressions an hour, of this mean and standard
    deviation."""

    per_hour: float
    mean: float = 0.57
    deviation: float = 0.45

    def error(self, now_hours: float, before_hours: float) -> float:
        """The sampling error of a difference, as a share of the mean."""
        inverse = 1 / (self.per_hour * now_hours) + 1 / (self.per_hour * before_hours)
        return self.deviation * sqrt(inverse) / self.mean


def hour_lane(site: Site, now_hours: float, before_hours: float, noise: ScoreNoise) -> float:
    """What lane `hour` finds with these lengths of both sides."""
    if site.per_hour * min(now_hours, before_hours) < LEAST_SCORED:
        return inf
    growth = min(1 + (now_hours + before_hours) / 2, 5.0)
    error = np.array(
        [
            [
                hypot(
                    sqrt(noise.design_effect) * site.error(now_hours, before_hours),
                    noise.drift_ratio * growth,
                )
            ]
        ]
    )
    least = np.full((1, 1), LEAST_SCORED)
    return float(by_scan(Sides(np.zeros(1, np.int64), least, error * 0, error), 1)[0])


def earlier_lane(site: Site, hours: int, periods: int, unit: str, noise: ScoreNoise) -> float:
    """What the alert rules find with a window of `hours` against so many weeks or days."""
    error = np.array([site.error(hours, hours * periods)])
    return float(by_earlier(hours, error, periods, unit, noise)[0])


@dataclass(frozen=True)
class Age:
    """What is found when so much is known."""

    known: str
    against: str
    drops: Callable[[Site], tuple[float, ...]]
    """The smallest fall whenever it began; of weeks, one of three hours and one of a day."""


def ages(noise: ScoreNoise) -> tuple[Age, ...]:
    """The ages of an installation, where weeks are known with this noise. Before a week is, the
    design effect is at least BEFORE_KNOWN."""
    effect = max(noise.design_effect, BEFORE_KNOWN)
    unknown = replace(noise, design_effect=effect)

    def just_before(hours: float) -> Callable[[Site], tuple[float, ...]]:
        return lambda site: (hour_lane_knowing(site, hours, unknown),)

    def days(count: int) -> Callable[[Site], tuple[float, ...]]:
        windows = (1, 3, 24)[: 1 + count]
        return lambda site: (
            min(
                hour_lane_knowing(site, 24, unknown),
                *(earlier_lane(site, hours, count, "day", unknown) for hours in windows),
            ),
        )

    def of_weeks(count: int) -> Callable[[Site], tuple[float, ...]]:
        return lambda site: tuple(
            earlier_lane(site, hours, count, "week", noise) for hours in (3, 24)
        )

    after = "3 h / a day after the fall"
    return (
        Age("10 min", "what lies just before", just_before(1 / 6)),
        Age("1 h", "the same", just_before(1)),
        Age("3 h", "the same", just_before(3)),
        Age("26 h", "also the day before", days(1)),
        Age("7 days", "also six days before", days(6)),
        Age("8 days", f"the week before; {after}", of_weeks(1)),
        Age("22 days", "three weeks before; 3 h / a day after", of_weeks(3)),
    )


def hour_lane_knowing(site: Site, known_hours: float, noise: ScoreNoise) -> float:
    """What lane `hour` finds of falls at the best instant of what is known, the baseline as long as
    the time since then, or an hour if that is longer."""
    least = inf
    for part in range(1, _PARTS):
        now = known_hours * part / _PARTS
        before = min(known_hours - now, max(now, 1.0))
        if now >= LEAST_NOW_MS / HOUR_MS and before >= LEAST_BEFORE_MS / HOUR_MS:
            least = min(least, hour_lane(site, now, before, noise))
    return least
