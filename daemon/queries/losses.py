"""What each query lost or gained in a window against its own usual, in searches. Pure.

The usual mean of a query is shrunk towards that of its segment, so that a query without a usual
needs no rule of its own. The error counts chance in the window, what is not known of the usual
mean, and how far a day is from the others. The prior, this variation, and how much chance exceeds
that of independent searches are measured on the table itself, on the days before the window. It is
a rule for lists, not a test: of 500 queries about two an hour are listed by chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from relevanced.metrics import Booleans, Floats, Integers

STRENGTHS: Final = (0.5, 200.0)
"""Bounds of a prior's strength, in searches."""
TELLING_SEARCHES: Final = 30
"""Only queries with at least so many scored searches on the usual days tell how queries vary."""
TELLING_DAYS: Final = 3
"""They also need scored searches on at least so many days."""
LEAST_TELLING: Final = 20
"""With fewer such queries the variation is `ASSUMED_VARIATION`."""
TRIMMED: Final = 0.05
"""The part of these queries, those that vary most, that does not count: a query that broke within
the week would make all others look unsteady."""
SAME_SLOPES: Final = 1e-6
"""Where queries are searched for so equally often, nothing tells chance from variation."""
ROUNDS: Final = 10
"""So often the variation is fitted again with weights that follow from it."""
LEAST_VARIANCE: Final = 0.001
"""Floor for the variance of one score, so that a query that always or never succeeds counts."""


@dataclass(frozen=True)
class Prior:
    """A Beta distribution of the mean scores of queries."""

    mean: float
    """0 < mean < 1."""
    strength: float
    """The number of searches that it weighs as much as, within `STRENGTHS`."""


def fit_prior(scored: Integers | Floats, total: Floats) -> Prior | None:
    """Fit a prior to the usual days of the listed queries of one segment, by moments.

    scored (q,) searches, total (q,) sum of their scores, each score in 0…1. None where no query has
    a scored search. The strength of fewer than two queries is the least: nothing says how much
    queries differ. Source: Kleinman 1973, with his two steps for the weights.

    >>> prior = fit_prior(np.array([400, 400, 400]), np.array([80.0, 200.0, 320.0]))
    >>> round(prior.mean, 3), round(prior.strength, 3)
    (0.5, 1.79)
    """
    searched = scored > 0
    n, means = scored[searched].astype(np.float64), total[searched] / scored[searched]
    if not len(n):
        return None
    least, most = STRENGTHS
    # A table in which nothing (or everything) succeeded does not prove that nothing ever will.
    margin = 0.5 / (n.sum() + 1)
    correlation = 1.0
    for weights in (n, None):
        if weights is None:
            weights = n / (1 + correlation * (n - 1))
        mean = float(np.clip(weights @ means / weights.sum(), margin, 1 - margin))
        if len(n) < 2:
            return Prior(mean, least)
        correlation = _correlation(n, means, weights, mean)
    strength = most if correlation <= 0 else (1 - correlation) / correlation
    return Prior(mean, float(np.clip(strength, least, most)))


def _correlation(n: Floats, means: Floats, weights: Floats, mean: float) -> float:
    """The part of the variance of a score that lies between queries, 0…1; 1 / (strength + 1)."""
    spread = float(weights @ (means - mean) ** 2)
    free = weights * (1 - weights / weights.sum())
    by_chance = float((free / n).sum())
    variance = mean * (1 - mean)
    between = spread - variance * by_chance
    possible = variance * (float(free.sum()) - by_chance)
    return float(np.clip(between / possible, 0.0, 1.0)) if possible > 0 else 1.0


@dataclass(frozen=True)
class Variation:
    """How far the mean of a query on one day is from that of the others."""

    design_effect: float
    """The variance by chance as a multiple of that of independent searches, at least 1: a user's
    searches for one text resemble one another."""
    of_days: float
    """The variance beyond chance in units of (mean · (1 - mean))², which is about that of the
    logit, at least 0."""


ASSUMED_VARIATION: Final = Variation(1.0, 0.02)


def fit_variation(daily_scored: Integers, daily_total: Floats) -> Variation:
    """The variation of a table: daily_scored (days, q), daily_total (days, q), days in order.

    The first and the last day of each query are compared with its other days, as a window is with
    its usual days: neighbours differ less than that. The square of a difference, divided by its
    variance by chance, is expected to be

        design_effect + of_days · (mean · (1 - mean))² / chance

    which is fitted by least squares with weights of the fit before. What trimming takes from the
    mean of squares of normal variables is given back.
    """
    scored, days = daily_scored.sum(axis=0), (daily_scored > 0).sum(axis=0)
    telling = (scored >= TELLING_SEARCHES) & (days >= TELLING_DAYS)
    if telling.sum() < LEAST_TELLING:
        return ASSUMED_VARIATION
    squares, slopes = _days_apart(daily_scored[:, telling], daily_total[:, telling])
    trimmed = int(TRIMMED * squares.shape[1])
    part = trimmed / squares.shape[1]
    # Both squares of a query together are exponentially distributed.
    squares = squares / (1 + part * np.log(part) / (1 - part) if trimmed else 1.0)
    found = ASSUMED_VARIATION
    for _ in range(ROUNDS):
        fitted = found.design_effect + found.of_days * slopes
        by_size = np.argsort((squares / fitted).sum(axis=0), kind="stable")
        kept = by_size[: len(by_size) - trimmed]
        found = _fitted(squares[:, kept], slopes[:, kept], fitted[:, kept] ** -2.0)
    return found


def _days_apart(daily_scored: Integers, daily_total: Floats) -> tuple[Floats, Floats]:
    """((2, q) squares of the first and the last day less the others, in units of their variance by
    chance, (2, q) by what a variation of 1 raises them)."""
    n = daily_scored.astype(np.float64)
    scored, total = n.sum(axis=0), daily_total.sum(axis=0)
    searched = n > 0
    ends = [searched.argmax(axis=0), len(n) - 1 - searched[::-1].argmax(axis=0)]
    queries = np.arange(n.shape[1])
    own, own_total = n[ends, queries], daily_total[ends, queries]
    others = scored - own
    p = (total + 0.5) / (scored + 1)
    variance = np.maximum(p * (1 - p), LEAST_VARIANCE)
    chance = variance * (1 / own + 1 / others)
    return (own_total / own - (total - own_total) / others) ** 2 / chance, variance**2 / chance


def _fitted(squares: Floats, slopes: Floats, weights: Floats) -> Variation:
    """The line through the squares, within the bounds of a variation."""
    w, x, xx = (float((weights * slopes**power).sum()) for power in (0, 1, 2))
    y, xy = float((weights * squares).sum()), float((weights * slopes * squares).sum())
    apart = w * xx - x**2
    if apart <= SAME_SLOPES * w * xx:
        return Variation(1.0, max((xy - x) / xx, 0.0))
    effect, of_days = (xx * y - x * xy) / apart, (w * xy - x * y) / apart
    if of_days < 0:
        return Variation(max(y / w, 1.0), 0.0)
    return Variation(effect, of_days) if effect >= 1 else Variation(1.0, max((xy - x) / xx, 0.0))


@dataclass(frozen=True, eq=False)
class Searches:
    """Scored impressions of q queries, and the sums of one metric's scores, each score in 0…1."""

    scored: Integers
    """(q,) scored impressions in the window."""
    total: Floats
    """(q,) the sum of their scores."""
    daily_scored: Integers
    """(days, q) the same on each usual day."""
    daily_total: Floats
    """(days, q)."""

    @cached_property
    def usual_scored(self) -> Integers:
        """(q,) scored impressions on all usual days."""
        return np.asarray(self.daily_scored.sum(axis=0), np.int64)

    @cached_property
    def usual_total(self) -> Floats:
        """(q,) the sum of their scores."""
        return np.asarray(self.daily_total.sum(axis=0), np.float64)

    def __len__(self) -> int:
        return len(self.scored)

    @classmethod
    def joined(cls, parts: Sequence["Searches"]) -> "Searches":
        """The queries of at least one part behind one another, such as listed and (other) ones; all
        have the same usual days."""
        return cls(
            np.concatenate([part.scored for part in parts]),
            np.concatenate([part.total for part in parts]),
            np.concatenate([part.daily_scored for part in parts], axis=1),
            np.concatenate([part.daily_total for part in parts], axis=1),
        )


LISTED_ERRORS: Final = 2.5
"""*At least* is what is left of a loss after so many standard errors. Undisturbed traffic then has
less than 1 % of its queries in a list. 2 errors would have 1.3 %, 3 would miss one more in ten of
the queries that lost half."""
SURE_ERRORS: Final = 3.5
"""A loss that exceeds so many is called sure: by chance a query in two to four hours is."""
CONTINUITY: Final = 0.5
"""Searches are whole: half a search is no loss."""


@dataclass(frozen=True, eq=False)
class Losses:
    """Every array is (q,), in searches where nothing else is said."""

    expected: Floats
    """The usual mean score of the query, 0…1, shrunk towards that of its segment."""
    lost: Floats
    """What the scores of the window sum to less than expected; negative where they sum to more.
    Only what is recorded counts: where searches are missing, more may be lost."""
    error: Floats
    """Its standard error."""

    @property
    def gained(self) -> Floats:
        """What they sum to more than expected."""
        return -self.lost

    @property
    def lost_at_least(self) -> Floats:
        """Above 0 where a list of losses names the query."""
        return self.lost - CONTINUITY - LISTED_ERRORS * self.error

    @property
    def gained_at_least(self) -> Floats:
        """Above 0 where a list of gains names the query."""
        return self.gained - CONTINUITY - LISTED_ERRORS * self.error

    @property
    def surely_lost(self) -> Booleans:
        """Whether the loss would stand with wider errors."""
        return self.lost - CONTINUITY > SURE_ERRORS * self.error

    @property
    def surely_gained(self) -> Booleans:
        """Whether the gain would."""
        return self.gained - CONTINUITY > SURE_ERRORS * self.error


@dataclass(frozen=True)
class Usual:
    """How the queries of a table differ from one another, and from day to day."""

    prior: Prior
    variation: Variation

    def expected(self, searches: Searches) -> tuple[Floats, Floats]:
        """((q,) usual means 0…1, shrunk, (q,) so many independent searches say so)."""
        known = searches.usual_scored / self.variation.design_effect
        total = searches.usual_total / self.variation.design_effect
        weight = self.prior.strength + known
        # Rounding may leave a mean of scores that are all 1 just above 1.
        means = np.clip((self.prior.mean * self.prior.strength + total) / weight, 0.0, 1.0)
        return means, weight


def usual_of(listed: Searches) -> Usual | None:
    """The usual of the listed queries of one segment; None where no query has one."""
    variation = fit_variation(listed.daily_scored, listed.daily_total)
    known = listed.usual_scored / variation.design_effect
    prior = fit_prior(known, listed.usual_total / variation.design_effect)
    return None if prior is None else Usual(prior, variation)


def compare_with_usual(
    searches: Searches, usual: Usual, *, lower_is_better: bool = False
) -> Losses:
    """Compare queries of one segment with their usual.

    With `lower_is_better` a sum above the expected one is the loss. The variance of a mean of
    scores in 0…1 is at most mean · (1 - mean), so errors need no sum of squares.
    """
    n = searches.scored.astype(np.float64)
    expected, weight = usual.expected(searches)
    of_score = expected * (1 - expected)
    of_expected = of_score / (weight + 1) + usual.variation.of_days * of_score**2
    lost = n * expected - searches.total
    error = np.sqrt(n * usual.variation.design_effect * of_score + n**2 * of_expected)
    return Losses(expected, -lost if lower_is_better else lost, error)


def order_lost(losses: Losses) -> Integers:
    """(q,) indices of the queries, those that lost most *at least* first; ties are in the order of
    the queries."""
    return np.argsort(-losses.lost_at_least, kind="stable").astype(np.int64)


def order_gained(losses: Losses) -> Integers:
    """(q,) the same by what was gained at least."""
    return np.argsort(-losses.gained_at_least, kind="stable").astype(np.int64)
