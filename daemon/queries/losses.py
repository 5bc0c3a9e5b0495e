"""What each query lost or gained in a window against its own usual, in searches. Pure.

The usual mean of a query is shrunk towards that of its segment, so that a query without a usual
needs no rule of its own. The error counts chance in the window, what is not known of the usual
mean, and how queries vary from day to day. The prior and this variation are measured on the table
itself, on the days before the window. It is a rule for lists, not a test: of 500 queries about two
an hour are listed by chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from relevanced.metrics import Booleans, Floats, Integers

STRENGTHS: Final = (0.5, 200.0)
"""Bounds of a prior's strength, in searches."""
TELLING_SEARCHES: Final = 100
"""Only queries with at least so many scored searches on the usual days tell how queries vary."""
TELLING_DAYS: Final = 3
"""They also need scored searches on at least so many days."""
LEAST_TELLING: Final = 20
"""With fewer such queries the variation is `ASSUMED_VARIATION`."""
ASSUMED_VARIATION: Final = 0.02
TRIMMED: Final = 0.05
"""The part of these queries, those that vary most, that does not count: a query that broke within
the week would make all others look unsteady."""
LEAST_VARIANCE: Final = 0.001
"""Floor for the variance of one score, so that a query that always or never succeeds counts."""


@dataclass(frozen=True)
class Prior:
    """A Beta distribution of the mean scores of queries."""

    mean: float
    """0 < mean < 1."""
    strength: float
    """The number of searches that it weighs as much as, within `STRENGTHS`."""


def fit_prior(scored: Integers, total: Floats) -> Prior | None:
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


def day_variation(daily_scored: Integers, daily_total: Floats) -> float:
    """How much queries vary from day to day beyond chance: the variance of a mean, in units of
    (mean · (1 - mean))², which is about the variance of its logit.

    daily_scored (days, q), daily_total (days, q) -> one number for the table, at least 0. It is the
    excess of the chi-squared statistics of homogeneity, summed over the queries that tell, by what
    a variation of 1 would add to the sum. Trimming by the excess makes it low, 0.013 where 0.0225
    is true; by a scaled one it would be less so, but ten queries that broke would double it.
    """
    scored, days = daily_scored.sum(axis=0), (daily_scored > 0).sum(axis=0)
    telling = (scored >= TELLING_SEARCHES) & (days >= TELLING_DAYS)
    if telling.sum() < LEAST_TELLING:
        return ASSUMED_VARIATION
    statistic, weight = _homogeneity(daily_scored[:, telling], daily_total[:, telling])
    chance = days[telling] - 1.0
    excess = statistic - chance
    kept = np.ones(len(excess), np.bool_)  # ties are trimmed in their order
    kept[np.argsort(-excess, kind="stable")[: int(TRIMMED * len(excess))]] = False
    return max(0.0, float(excess[kept].sum() / weight[kept].sum()))


def _homogeneity(daily_scored: Integers, daily_total: Floats) -> tuple[Floats, Floats]:
    """((q,) chi-squared of equal means on all days, (q,) by what a variation of 1 raises it)."""
    n = daily_scored.astype(np.float64)
    whole = n.sum(axis=0)
    p = (daily_total.sum(axis=0) + 0.5) / (whole + 1)
    variance = np.maximum(p * (1 - p), LEAST_VARIANCE)
    deviations = (daily_total - n * p) ** 2
    statistic = np.divide(deviations, n * variance, out=np.zeros_like(n), where=n > 0).sum(axis=0)
    return statistic, variance * (whole - (n**2).sum(axis=0) / whole)


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


def compare_with_usual(
    searches: Searches, prior: Prior, variation: float, *, lower_is_better: bool = False
) -> Losses:
    """Compare queries of one segment with their usual.

    `prior` is that of the segment's listed queries, `variation` that of the table.
    With `lower_is_better` a sum above the expected one is the loss. The variance of a mean of
    scores in 0…1 is at most mean · (1 - mean), so errors need no sum of squares.
    """
    n = searches.scored.astype(np.float64)
    weight = prior.strength + searches.usual_scored
    expected = (prior.mean * prior.strength + searches.usual_total) / weight
    # Rounding may leave a mean of scores that are all 1 just above 1.
    expected = np.clip(expected, 0.0, 1.0)
    of_score = expected * (1 - expected)
    of_expected = of_score / (weight + 1) + variation * of_score**2
    lost = n * expected - searches.total
    error = np.sqrt(n * of_score + n**2 * of_expected)
    return Losses(expected, -lost if lower_is_better else lost, error)


def order_lost(losses: Losses) -> Integers:
    """(q,) indices of the queries, those that lost most *at least* first; ties are in the order of
    the queries."""
    return np.argsort(-losses.lost_at_least, kind="stable").astype(np.int64)


def order_gained(losses: Losses) -> Integers:
    """(q,) the same by what was gained at least."""
    return np.argsort(-losses.gained_at_least, kind="stable").astype(np.int64)


SAID_BEYOND: Final = 2.0
"""Which queries carry a change is said only where it exceeds so many of its standard errors."""


@dataclass(frozen=True, eq=False)
class Decomposition:
    """A change of the mean of all searches, and which queries carry it:

        now - usual  =  Σ share_now · (x - u)  +  Σ (share_now - share_usual) · (u - U)

    with x and u the plain means of a query now and usually, U that of the whole usually, and the
    sums over all queries that are listed and (other). The first sum is of queries that got worse or
    better, the second of searches that moved between queries.
    """

    now: float
    """The mean of the whole, 0…1."""
    usual: float
    error: float
    """The standard error of now - usual."""
    within: Floats
    """(q,) the part that comes from the query's own mean; 0 for one that was not searched."""
    mix: Floats
    """(q,) the part that comes from its share of the searches; 0 for one without a usual."""

    @property
    def change(self) -> float:
        """The sum of all parts, but for rounding."""
        return self.now - self.usual

    @property
    def is_beyond_error(self) -> bool:
        """Whether the change is large enough to ask who carries it."""
        return abs(self.change) > SAID_BEYOND * self.error

    def carried_by(self, queries: Integers) -> float | None:
        """The part of the first sum that these queries carry: 0.63 for 63 %; above 1 where all
        others together changed the other way.

        None where it must not be said: the change is within its errors, or it comes from the mix
        alone, so that the first sum has the other sign.
        """
        own = float(self.within.sum())
        if not self.is_beyond_error or own * self.change <= 0:
            return None
        return float(self.within[queries].sum()) / own


def decompose_change(searches: Searches) -> Decomposition | None:
    """The parts of all `searches`, listed and (other) ones; None where nothing was scored in the
    window, or nothing on the usual days."""
    scored, usual_scored = int(searches.scored.sum()), int(searches.usual_scored.sum())
    if not scored or not usual_scored:
        return None
    now, usual = (
        float(searches.total.sum()) / scored,
        float(searches.usual_total.sum()) / usual_scored,
    )
    # A query without a usual has the whole's, one that was not searched is as usual.
    own_usual = _means(searches.usual_total, searches.usual_scored, np.full(len(searches), usual))
    own_now = _means(searches.total, searches.scored, own_usual)
    share, usual_share = searches.scored / scored, searches.usual_scored / usual_scored
    return Decomposition(
        now,
        usual,
        _error_of_change(searches, now, usual),
        share * (own_now - own_usual),
        (share - usual_share) * (own_usual - usual),
    )


def _means(total: Floats, scored: Integers, otherwise: Floats) -> Floats:
    return np.divide(total, scored, out=otherwise.copy(), where=scored > 0)


def _error_of_change(searches: Searches, now: float, usual: float) -> float:
    """Chance on both sides, and what the whole varies from day to day beyond it: the usual days are
    one sample of that, the window is another."""
    n = searches.daily_scored.sum(axis=1).astype(np.float64)
    total = searches.daily_total.sum(axis=1)[n > 0]
    n = n[n > 0]
    whole, of_score = n.sum(), max(usual * (1 - usual), 0.0)
    by_chance = max(now * (1 - now), 0.0) / searches.scored.sum() + of_score / whole
    between = 0.0
    if len(n) >= TELLING_DAYS:
        excess = float(((total - n * usual) ** 2 / n).sum()) - (len(n) - 1) * of_score
        between = max(0.0, excess / float(whole - (n**2).sum() / whole))
    shares = n / whole
    return float(np.sqrt(by_chance + between * (1 + float(shares @ shares))))
