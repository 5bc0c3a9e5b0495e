"""Which queries carry a change of the mean of all searches, and which part of it. Pure.

Queries that are chosen because they lost most also had bad luck: what they lost is shrunk first,
else ten queries of a fall of everything seem to carry two or three times what they do.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from relevanced.metrics import Floats, Integers

from .losses import LEAST_VARIANCE, TELLING_DAYS, Searches, Usual

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


LEAST_SPREAD: Final = 0.005
"""Queries change differently by at least this variance of their logits."""
SPREADS: Final = 13
"""So many variances, up to that of the largest change, make up the distribution of changes."""
MOST_ROUNDS: Final = 200
SETTLED: Final = 1e-4
"""Fitting ends where no share of the distribution moves by more."""


@dataclass(frozen=True)
class Carried:
    """The part of what comes from the queries' own means that some of them carry: 0.63 for 63 %;
    above 1 where all others together changed the other way."""

    share: float
    least: float
    """The bounds, two errors away."""
    most: float


def share_carried(
    listed: Searches, other: Searches, usual: Usual, queries: Integers
) -> Carried | None:
    """What these of the listed queries carry, `other` being all that is not listed.

    None where it must not be said: the change is within its errors, or it comes from the mix
    alone, so that the part of the queries has the other sign.
    """
    parts = decompose_change(Searches.joined([listed, other]))
    if parts is None or not parts.is_beyond_error:
        return None
    own = float(parts.within.sum())
    if own * parts.change <= 0:
        return None
    share = listed.scored / (listed.scored.sum() + other.scored.sum())
    noise = share**2 * _noise(listed, usual)
    moved, error = _shrunk(listed, usual)
    by_them = float((share * moved)[queries].sum())
    of_them = float((share * error)[queries] @ (share * error)[queries])
    others = np.delete(noise, queries).sum() + _noise_of_rest(listed, other, usual)
    return _ratio(by_them, of_them, own, float(others))


def _noise(searches: Searches, usual: Usual) -> Floats:
    """(q,) the variance of now - usual by chance; 0 without searches."""
    n = searches.scored.astype(np.float64)
    expected, weight = usual.expected(searches)
    p = (searches.total + expected * weight) / (n + weight)
    of_score = np.maximum(p * (1 - p), LEAST_VARIANCE)
    now = np.divide(usual.variation.design_effect, n, out=np.zeros_like(n), where=n > 0)
    return np.asarray(np.where(n > 0, of_score * (now + 1 / weight), 0.0), np.float64)


def _noise_of_rest(listed: Searches, other: Searches, usual: Usual) -> float:
    """The variance that chance in all that is not listed gives the whole."""
    share = other.scored / (listed.scored.sum() + other.scored.sum())
    return float((share**2 * _noise(other, usual)).sum())


def _shrunk(listed: Searches, usual: Usual) -> tuple[Floats, Floats]:
    """((q,) now - usual of each query as far as it is no chance, (q,) its error).

    On the logit scale changes are taken as a mixture of normal distributions about a common one,
    which may be a share of the successes and one of the failures: a fall of everything, and the
    few queries that broke. Source: Stephens 2017 (adaptive shrinkage), with a centre.
    """
    searched = np.flatnonzero(listed.scored > 0)
    moved, error = np.zeros(len(listed)), np.zeros(len(listed))
    expected = usual.expected(listed)[0][searched]
    scale = np.maximum(expected * (1 - expected), LEAST_VARIANCE)
    change = (listed.total[searched] / listed.scored[searched] - expected) / scale
    noise = _noise(listed, usual)[searched] / scale**2
    least = max(usual.variation.of_days, LEAST_SPREAD)
    spreads = np.geomspace(least, max(float((change**2).max(initial=0.0)), 2 * least), SPREADS)
    common = np.stack((expected, 1 - expected), axis=1) / scale[:, np.newaxis]
    variances = noise[:, np.newaxis] + spreads
    centre = _centre(common, change, 1 / variances[:, 0])
    shares = np.full(SPREADS, 1 / SPREADS)
    for _ in range(MOST_ROUNDS):
        log = np.log(shares) - 0.5 * np.log(variances)
        log -= 0.5 * (change - centre)[:, np.newaxis] ** 2 / variances
        of_each = np.exp(log - log.max(axis=1, keepdims=True))
        of_each /= of_each.sum(axis=1, keepdims=True)
        before, shares = shares, np.maximum(of_each.mean(axis=0), 1e-12)
        centre = _centre(common, change, (of_each / variances).sum(axis=1))
        if np.abs(shares - before).max() < SETTLED:
            break
    kept = spreads / variances
    means = centre[:, np.newaxis] + kept * (change - centre)[:, np.newaxis]
    mean = (of_each * means).sum(axis=1)
    variance = (of_each * (kept * noise[:, np.newaxis] + means**2)).sum(axis=1) - mean**2
    moved[searched], error[searched] = scale * mean, scale * np.sqrt(np.maximum(variance, 0.0))
    return moved, error


def _centre(common: Floats, change: Floats, weights: Floats) -> Floats:
    """(q,) the change that all have in common, by weighted least squares."""
    weighted = common.T * weights
    factors = np.linalg.lstsq(weighted @ common, weighted @ change, rcond=None)[0]
    return np.asarray(common @ factors, np.float64)


def _ratio(part: float, of_part: float, whole: float, of_rest: float) -> Carried | None:
    """Part / whole with the bounds of Fieller 1954, from the variances of the part and of the rest;
    None where the whole may be 0."""
    square = SAID_BEYOND**2
    most = whole**2 - square * (of_part + of_rest)
    if most <= 0:
        return None
    middle = part * whole - square * of_part
    width = float(np.sqrt(max(middle**2 - most * (part**2 - square * of_part), 0.0)))
    return Carried(part / whole, (middle - width) / most, (middle + width) / most)
